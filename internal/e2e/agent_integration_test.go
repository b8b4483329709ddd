//go:build integration && libvirt

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"image/png"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// thawedBy freezes a guest by its agent as a worker does that is killed then. The one that starts thaws it.
func thawedBy(t *testing.T, s *lab.Stack, vm seedbed.Instance) {
	t.Helper()
	ask := func(command string) string {
		return s.Virsh("qemu-agent-command", string(vm.ID), `{"execute":"`+command+`"}`)
	}
	lab.Await(t, lab.Patience, "the guest's agent answers", func() bool {
		_, _, status := s.CLI("vm", "exec", vm.Name, "--", "true")
		return status == 0
	})
	s.Kill(lab.Worker)
	record := filepath.Join(s.Dir, "worker", "frozen", string(vm.ID))
	if err := errors.Join(os.MkdirAll(filepath.Dir(record), 0o700), os.WriteFile(record, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Logf("frozen: %s", ask("guest-fsfreeze-freeze"))
	if got := ask("guest-fsfreeze-status"); got != `{"return":"frozen"}` {
		t.Errorf("the guest is not frozen: %s", got)
	}
	s.Start(lab.Worker)
	lab.Await(t, lab.Patience, "the worker that starts thaws the guest", func() bool {
		_, err := os.Stat(record)
		return errors.Is(err, fs.ErrNotExist)
	})
	if got := ask("guest-fsfreeze-status"); got != `{"return":"thawed"}` {
		t.Errorf("the guest is not thawed: %s", got)
	}
}

// agentOf runs programs in a guest and copies files by its agent, which is Debian's, until libvirt gives the agent up.
func agentOf(t *testing.T, s *lab.Stack, vm seedbed.Instance) {
	t.Helper()
	lab.Await(t, lab.Patience, "the guest's agent answers", func() bool {
		_, _, status := s.CLI("vm", "exec", vm.Name, "--", "true")
		return status == 0
	})
	const line = "the text of a line\n"
	much := strings.Repeat(line, 2<<20/len(line))
	noise := make([]byte, 3<<20+11)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise) // it cannot fail
	for _, tt := range []struct {
		name, input string
		args        []string
		out, stderr string // of stderr a part
		status      int
	}{
		{"both outputs and the exit code", "", []string{"--", "sh", "-c", `echo "$1"; echo wrong >&2; exit 7`, "sh", "a  b"},
			"a  b\n", "wrong\n", 7},
		{"as root", "", []string{"--", "id", "-u"}, "0\n", "", 0},
		{"without arguments", "", []string{"--", "whoami"}, "root\n", "", 0},
		{"the input, byte by byte", string(noise[:64<<10]), []string{"-i", "--", "cat"}, string(noise[:64<<10]), "", 0},
		{"an empty input", "", []string{"-i", "--", "cat"}, "", "", 0},
		{"longer than one call waits", "", []string{"--", "sh", "-c", "sleep 9; echo slept; exit 3"}, "slept\n", "", 3},
		{"2 MiB of output", "", []string{"--", "sh", "-c", `yes "$1" | head -n "$2"`, "sh", strings.TrimSpace(line),
			strconv.Itoa(len(much) / len(line))}, much, "", 0},
		{"too much of it", "", []string{"--", "head", "-c", "4M", "/dev/zero"}, "", "is lost", 255},
		{"the agent answers after that", "", []string{"--", "echo", "well"}, "well\n", "", 0},
		{"killed", "", []string{"--", "sh", "-c", "kill -9 $$"}, "", "signal 9", 137},
		{"no such program", "", []string{"--", "/none"}, "", "refuses", 255},
		{"not in time", "", []string{"--timeout", "4s", "--", "sh", "-c", "sleep 8; echo went on >/root/late"}, "",
			"goes on in the guest", 255},
	} {
		began := time.Now()
		out, stderr, status := s.CLIWith(strings.NewReader(tt.input), append([]string{"vm", "exec", vm.Name}, tt.args...)...)
		t.Logf("%s: %.1f s", tt.name, time.Since(began).Seconds())
		if out != tt.out || !strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" || status != tt.status {
			t.Errorf("%s: %d bytes %.80q, %q, status %d; want %d bytes %.80q, %q, status %d", tt.name, len(out), out, stderr, status,
				len(tt.out), tt.out, tt.stderr, tt.status)
		}
	}
	lab.Await(t, lab.Patience, "what was not waited for goes on", func() bool {
		out, _, _ := s.CLI("vm", "exec", vm.Name, "--", "cat", "/root/late")
		return out == "went on\n"
	})

	dir := t.TempDir()
	here, back := filepath.Join(dir, "here"), filepath.Join(dir, "back")
	if err := os.WriteFile(here, noise, 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, s, "vm", "exec", vm.Name, "--", "install", "-m", "640", "/dev/null", "/root/noise")
	began := time.Now()
	must(t, s, "vm", "cp", here, vm.Name+":/root/noise")
	t.Logf("to the guest: %.1f s", time.Since(began).Seconds())
	sum := sha256.Sum256(noise)
	want := hex.EncodeToString(sum[:]) + "  /root/noise\n640\n"
	if got := must(t, s, "vm", "exec", vm.Name, "--", "sh", "-c", "sha256sum /root/noise; stat -c %a /root/noise"); got != want {
		t.Errorf("the file in the guest: %q, want %q", got, want)
	}
	began = time.Now()
	must(t, s, "vm", "cp", vm.Name+":/root/noise", back)
	t.Logf("from the guest: %.1f s", time.Since(began).Seconds())
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, noise) {
		t.Errorf("the file from the guest: %d bytes, %v; want the %d that went there", len(got), err, len(noise))
	}
	if out, stderr, status := s.CLI("vm", "cp", vm.Name+":/root/none", back); status != 4 || !strings.Contains(stderr, "refuses") {
		t.Errorf("a file that is not there: status %d: %s%s", status, out, stderr)
	}
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, noise) {
		t.Errorf("a copy that failed left %d bytes, %v", len(got), err)
	}

	picture := filepath.Join(dir, "screen.png")
	must(t, s, "vm", "screenshot", vm.Name, "-o", picture)
	b, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := png.Decode(bytes.NewReader(b)); err != nil || shown.Bounds().Dx() < 320 || shown.Bounds().Dy() < 200 {
		t.Errorf("the screen is no PNG of one: %v", err)
	}

	const pause = "sleep 1; systemctl stop qemu-guest-agent; sleep 90; systemctl start qemu-guest-agent"
	must(t, s, "vm", "exec", vm.Name, "--", "systemd-run", "--no-block", "sh", "-c", pause)
	silent := func() bool {
		_, stderr, status := s.CLI("vm", "exec", vm.Name, "--", "true")
		return status == 255 && strings.Contains(stderr, "no guest agent answers in domain") &&
			strings.Contains(stderr, "apt install qemu-guest-agent")
	}
	lab.Await(t, lab.Patience, "a guest whose agent is stopped says so", silent)
	lab.Await(t, lab.Patience, "a copy to it says so, too", func() bool { // or that the agent has just not answered, for 30 s
		_, stderr, status := s.CLI("vm", "cp", here, vm.Name+":/root/noise")
		return status == 4 && strings.Contains(stderr, "no guest agent answers")
	})
	lab.Await(t, lab.Patience, "the agent answers when it runs again", func() bool {
		_, _, status := s.CLI("vm", "exec", vm.Name, "--", "true")
		return status == 0
	})

	// More than libvirt reads: it gives the agent up.
	if out, stderr, status := s.CLI("vm", "exec", vm.Name, "--", "head", "-c", "20M", "/dev/zero"); status != 255 || out != "" ||
		!strings.Contains(stderr, "restart ") {
		t.Errorf("far too much output: status %d: %d bytes, %s", status, len(out), stderr)
	}
	lab.Await(t, lab.Patience, "a guest whose agent libvirt has given up says so", silent)
}
