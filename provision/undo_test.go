package provision

import (
	"context"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

// TestUndoFailure checks that undo continues after an error, keeps what is left in the journal, and
// that the instance can be removed later.
func TestUndoFailure(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	hook := func(_ context.Context, name string, at drivertest.Point) error {
		if at == drivertest.Before && (name == "StartDomain" || name == "UndefineDomain") {
			return seedbed.Errorf(seedbed.ErrForbidden, "%s is refused", name)
		}
		return nil
	}
	l.hv.Fail(hook)
	id := l.create("web1")
	job := l.runUntil(id, seedbed.JobIncomplete)
	if !strings.Contains(job.Error, "StartDomain is refused") ||
		!strings.Contains(l.history(id), "left behind: define: undefine domain web1: UndefineDomain is refused") {
		t.Errorf("error %q, history:\n%s", job.Error, l.history(id))
	}
	l.stageStates(id, map[string]seedbed.StageState{"volumes": seedbed.StageUndone,
		"define": seedbed.StageOrphans, "publish": seedbed.StageUndone, "start": seedbed.StageUndone})
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	if inst.State != seedbed.InstanceFailed {
		t.Errorf("instance is %s", inst.State)
	}
	l.hv.Fail(nil)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.nothing("web1")
}

// TestUndoKeepsWhatARunningGuestNeeds checks that a guest that could not be switched off keeps its
// filter, its definition and its disk until it is removed.
func TestUndoKeepsWhatARunningGuestNeeds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
	}{
		{"refused", seedbed.Errorf(seedbed.ErrForbidden, "DestroyDomain is refused")},
		{"unavailable", seedbed.Errorf(seedbed.ErrUnavailable, "libvirt does not answer")},
		{"tag lost", seedbed.Errorf(seedbed.ErrConflict, "domain web1 is not ours")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			l.tune = func(_ *engine.Config, p *engine.Intervals) { p.Undo = 3 * time.Second } // of the start, in vain
			l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
				switch {
				case name == "StartDomain" && at == drivertest.After: // it runs, but the answer is lost
					return seedbed.Errorf(seedbed.ErrForbidden, "StartDomain is refused")
				case name == "DestroyDomain" && at == drivertest.Before:
					return tt.err
				}
				return nil
			})
			id := l.create("web1")
			job := l.runUntil(id, seedbed.JobIncomplete)
			const kept = "not undone, because the domain could not be switched off"
			h := l.history(id)
			left := h[strings.Index(h, "left behind: "):]
			if !strings.Contains(job.Error, "StartDomain is refused") || !strings.Contains(left, tt.err.Error()) || strings.Count(left, kept) != 3 {
				t.Errorf("error %q, history:\n%s", job.Error, h)
			}
			l.stageStates(id, map[string]seedbed.StageState{
				"volumes": seedbed.StageOrphans, "define": seedbed.StageOrphans, "publish": seedbed.StageOrphans, "start": seedbed.StageOrphans,
			})
			l.whole("web1", seedbed.InstanceFailed)
			l.hv.Fail(nil)
			l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
			l.nothing("web1")
		})
	}
}

// TestUndoGoesOnAfterACrash checks that an undo that another process continues remembers that the
// domain could not be switched off, although now it could.
func TestUndoGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		if name == "StartDomain" && at == drivertest.After || name == "DestroyDomain" && at == drivertest.Before {
			return seedbed.Errorf(seedbed.ErrForbidden, "%s is refused", name)
		}
		return nil
	})
	id := l.create("web1")
	killed := make(chan struct{})
	p := l.start(func(p *process) {
		p.store.fail(func(write, stage string, at drivertest.Point) error {
			if write == "undone" && stage == "start" && at == drivertest.After {
				p.kill()
				close(killed)
				return errKilled
			}
			return nil
		})
	})
	<-killed
	p.stop()
	l.hv.Fail(nil)
	l.runUntil(id, seedbed.JobIncomplete)
	l.whole("web1", seedbed.InstanceFailed)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.nothing("web1")
}

// TestRemoveStopsAtStop checks that a removal removes nothing of a guest that cannot be switched
// off.
func TestRemoveStopsAtStop(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
	}{
		{"refused", seedbed.Errorf(seedbed.ErrForbidden, "DestroyDomain is refused")},
		{"unavailable", seedbed.Errorf(seedbed.ErrUnavailable, "libvirt does not answer")},
		{"tag lost", seedbed.Errorf(seedbed.ErrConflict, "domain web1 is not ours")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			l.runUntil(l.create("web1"), seedbed.JobSucceeded)
			l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Attempts, c.StageTimeout["stop"] = 2, 20*time.Second }
			l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
				if name == "DestroyDomain" && at == drivertest.Before {
					return tt.err
				}
				return nil
			})
			id := l.remove("web1")
			job := l.runUntil(id, seedbed.JobFailed)
			if !strings.Contains(job.Error, "stage stop: switch off domain web1: ") {
				t.Errorf("error %q", job.Error)
			}
			l.stageStates(id, map[string]seedbed.StageState{"stop": seedbed.StageIntent})
			l.whole("web1", seedbed.InstanceFailed)
			l.hv.Fail(nil)
			l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
			l.nothing("web1")
		})
	}
}
