//go:build integration

package provision

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	labs "seedbed/internal/lab"
)

// TestBackupToFullTarget fills a target up. The backup fails with what to do, and is not listed, nor are those before it hurt. With room
// again, the next one succeeds.
func TestBackupToFullTarget(t *testing.T) {
	dir := t.TempDir()
	labs.Tmpfs(t, dir, 1<<20)
	l := newLab(t).withProfile(seedbed.ReadyStarted).withTarget(dir)
	inst := l.made()
	l.pool.Write(inst.Volumes[0].Name, "old")
	l.runUntil(l.backUp(), seedbed.JobSucceeded)
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	l.ok(err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	l.ok(f.Close())
	l.pool.Write(inst.Volumes[0].Name, "new")
	job := l.runUntil(l.backUp(), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "make room") || strings.Contains(job.Error, dir) {
		t.Errorf("the job fails with %q", job.Error)
	}
	l.hasBackups(inst, 1)
	l.ok(os.Remove(filler))
	l.runUntil(l.backUp(), seedbed.JobSucceeded)
	l.hasBackups(inst, 2)
	for n, want := range []string{"old", "new"} {
		name := "copy" + string(rune('0'+n))
		l.runUntil(l.restoreAs(name, l.backups()[n]), seedbed.JobSucceeded)
		if got := l.pool.Read(l.byName(name).Volumes[0].Name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}
