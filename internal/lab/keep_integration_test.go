//go:build integration

package lab

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestUp: a component is started once, anew when it has died, and is gone after Down.
func TestUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record.json")
	up := func() Kept {
		t.Helper()
		k := openKeeper(t, file) // as each run of the program has
		defer k.Close()
		if err := k.Up("postgres"); err != nil {
			t.Fatal(err)
		}
		if n := len(k.Kept()); n != 1 {
			t.Fatalf("%d components are on record", n)
		}
		return k.Kept()[0]
	}
	first := up()
	t.Cleanup(func() {
		k := openKeeper(t, file)
		defer k.Close()
		if err := k.Down(); err != nil {
			t.Error(err)
		}
	})
	if second := up(); second.PIDs[0] != first.PIDs[0] {
		t.Errorf("it was started twice: %+v, %+v", first, second)
	}
	id, err := identify(first.PIDs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := id.stop(syscall.SIGQUIT, Patience); err != nil {
		t.Fatal(err)
	}
	again := up()
	if again.PIDs[0] == first.PIDs[0] {
		t.Error("it has died, and was not started again")
	}
	_, dsn, _ := strings.Cut(strings.TrimSuffix(again.Section, `"}`), `dsn: "`)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("%s: %v", again.Section, err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	k := openKeeper(t, file)
	defer k.Close()
	if err := k.Down(); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Error("it answers after Down")
	}
}
