package reload

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What is in use follows the file, and stays while the file is of no use.
func TestValue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "f")
		put := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		load := func() (string, error) {
			b, err := os.ReadFile(file)
			if err == nil && strings.HasPrefix(string(b), "bad") {
				err = errors.New("it is bad")
			}
			return string(b), err
		}
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(&said, nil))
		if _, err := Open([]string{file}, load, log); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("without the file: %v", err)
		}
		put("bad")
		if _, err := Open([]string{file}, load, log); err == nil {
			t.Error("a bad file is taken at the start")
		}
		put("one")
		v, err := Open([]string{file}, load, log)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			do         func()
			want, says string
		}{
			{func() {}, "one", ""},
			{func() { put("second") }, "second", "certificates read again"},
			{func() { put("bad, and long") }, "second", "it is bad"},
			{func() { os.Remove(file) }, "second", "no such file"},
			{func() { put("the third") }, "the third", "certificates read again"},
		} {
			said.Reset()
			step.do()
			if got := v.Now(); got == step.want && step.says == "certificates read again" {
				t.Errorf("%q was there within a second", got)
			}
			time.Sleep(lookAgain + time.Millisecond)
			if got := v.Now(); got != step.want || !strings.Contains(said.String(), step.says) {
				t.Errorf("got %q, said %q; want %q and %q", got, said.String(), step.want, step.says)
			}
		}
	})
}

// Files that cannot be used are read, and spoken of, once until they change, and read again
// in a while in case that it was not they.
func TestRefusedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file, loads, well := filepath.Join(t.TempDir(), "f"), 0, true
		put := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		load := func() (string, error) {
			loads++
			if !well {
				return "", errors.New("it is bad")
			}
			b, err := os.ReadFile(file)
			return string(b), err
		}
		var said strings.Builder
		put("one")
		v, err := Open([]string{file}, load, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name         string
			do           func()
			times        int // that somebody connects
			loads, lines int
			want         string
		}{
			{"bad", func() { well = false; put("second") }, 20, 1, 1, "one"},
			{"another mode", func() {
				if err := os.Chmod(file, 0o640); err != nil {
					t.Fatal(err)
				}
			}, 20, 1, 1, "one"},
			{"bad for long", func() {}, 120, 2, 0, "one"},
			{"gone", func() { os.Remove(file) }, 20, 0, 1, "one"},
			{"bad again", func() { put("third one") }, 20, 1, 1, "one"},
			{"well by itself", func() { well = true }, 60, 1, 1, "third one"},
			{"bad at last", func() { well = false; put("the fourth") }, 20, 1, 1, "third one"},
		} {
			loads = 0
			said.Reset()
			step.do()
			got := ""
			for range step.times {
				time.Sleep(lookAgain)
				got = v.Now()
			}
			if lines := strings.Count(said.String(), "\n"); got != step.want || loads != step.loads || lines != step.lines {
				t.Errorf("%s: %q, read %d times, said %q; want %q, %d and %d lines", step.name, got, loads, said.String(), step.want, step.loads,
					step.lines)
			}
		}
	})
}
