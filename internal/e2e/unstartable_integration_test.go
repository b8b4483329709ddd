//go:build integration && libvirt

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// pauseHook says that an attempt at its stage begins, and holds it up until it may go on.
const pauseHook = `#!/bin/sh
cd "$SEEDBED_HOOKS_DIR/.."
: > "attempt-$SEEDBED_ATTEMPT"
until [ -e "go-$SEEDBED_ATTEMPT" ]; do sleep 0.05; done
`

// TestDomainDoesNotStart takes the bridge away from a domain that is defined and
// is to be started by UEFI. It fails twice, after libvirt has made the file of
// the firmware's variables; then all that was made goes, that file too, the job
// says why, and the name can be used again.
func TestDomainDoesNotStart(t *testing.T) {
	beside(t)
	s := hostStack(t, lab.StackOptions{Jobs: `{lease: 1s, poll: 50ms, hooks: [
		{kind: create, stage: start, when: before, script: pause, required: true, timeout: 1m}]}`})
	hooks := filepath.Join(s.Dir, "hooks.d")
	if err := os.Mkdir(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(hooks, "pause"), []byte(pauseHook), 0o755); err != nil {
		t.Fatal(err)
	}
	attempt := func(n int, first func()) {
		t.Helper()
		at := func(what string) string { return filepath.Join(s.Dir, fmt.Sprint(what, "-", n)) }
		lab.Await(t, lab.Patience, fmt.Sprint("attempt ", n, " at the start begins"), func() bool {
			_, err := os.Stat(at("attempt"))
			return err == nil
		})
		first()
		if err := os.WriteFile(at("go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := newEFI(t, s)
	defer s.Signal(lab.Metadata, syscall.SIGCONT)
	job := m.create(t, s, seedbed.OnFailure{Policy: seedbed.FailRetry, Attempts: 2, Backoff: time.Millisecond}, func(id string) {
		attempt(1, func() {
			s.Signal(lab.Metadata, syscall.SIGSTOP) // it would make the bridge again
			s.Run("ip", "link", "del", s.Bridge)
		})
		attempt(2, func() {
			if d := s.Domains(); len(d) != 1 || s.Virsh("domstate", m.name) != "shut off" || len(volumes(t, s)) != 1 {
				t.Errorf("after the first attempt there are the domains %v and the volumes %v, want one of each, switched off", d, volumes(t, s))
			}
			s.Run("test", "-s", m.variables())
		})
		lab.Await(t, lab.Patience, "the job is undone", func() bool {
			j, err := s.API.Job(t.Context(), id)
			return err == nil && (j.Job.State == seedbed.JobUndoing || j.Job.State.Terminal())
		})
		s.Signal(lab.Metadata, syscall.SIGCONT)
	})
	if job.State != seedbed.JobRolledBack || !strings.HasPrefix(job.Error, "stage start: ") || !strings.Contains(job.Error, s.Bridge) {
		t.Errorf("the job ended %s: %s\nwant that it is undone, and what libvirt says of bridge %s", job.State, job.Error, s.Bridge)
	}
	lab.Await(t, lab.Patience, "the bridge is there again", func() bool {
		_, err := s.Try("test", "-d", "/sys/class/net/"+s.Bridge+"/brif")
		return err == nil
	})
	nothingLeft(t, s, m.name)
	m.gone(t, s)

	if job := m.create(t, s, seedbed.OnFailure{}); job.State != seedbed.JobSucceeded {
		t.Fatalf("%s with its bridge: %s: %s", m.name, job.State, job.Error)
	}
	s.Run("test", "-s", m.variables())
	removeInstance(t, s, m.name)
	nothingLeft(t, s, m.name)
	m.gone(t, s)
}
