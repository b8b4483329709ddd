package provision

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/cleanup"
	"seedbed/provision/worker/drivertest"
)

// broken makes effects fail, each before it has done anything, until mend is called.
func (l *lab) broken(effects ...string) (mend func()) {
	hook := func(_ context.Context, name string, at drivertest.Point) error {
		if at == drivertest.Before && slices.Contains(effects, name) {
			return seedbed.Errorf(seedbed.ErrForbidden, "%s is refused", name)
		}
		return nil
	}
	l.pool.Fail(hook)
	l.hv.Fail(hook)
	return func() {
		l.pool.Fail(nil)
		l.hv.Fail(nil)
	}
}

// orphans returns what is left behind, as text.
func (l *lab) orphans() (all []string) {
	l.t.Helper()
	list, err := l.db.Orphans(l.t.Context())
	l.ok(err)
	for _, o := range list {
		all = append(all, strings.Join([]string{o.Subject, o.Stage, string(o.Kind), o.Pool, strings.TrimPrefix(o.Name, string(o.Instance))}, " "))
	}
	return all
}

// cleanAfter runs the cleanup as if d had passed, and returns what it did about orphans.
func (l *lab) cleanAfter(d time.Duration, dry bool) (undone []string) {
	l.t.Helper()
	later := func() time.Time { return time.Now().Add(d) }
	report, err := cleanup.New(cleanup.Config{Now: later}, l.db, alone{l.host}).Run(l.t.Context(), cleanup.Options{DryRun: dry})
	l.ok(err)
	for _, i := range report.Items {
		if i.Task == "orphans" {
			undone = append(undone, i.Action+" "+i.Subject)
		}
	}
	return undone
}

// TestOrphans checks that what a job could not undo is recorded, that the cleanup has it undone
// once that is possible, and that nothing is left then.
func TestOrphans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		broken  []string
		ask     func(*lab) seedbed.JobID
		orphans []string
		subject string
	}{
		{"volumes of a create", []string{"DefineDomain", "RemoveVolume"}, func(l *lab) seedbed.JobID { return l.create("web1") },
			[]string{"web1 volumes volume default -0"}, "web1"},
		{"domain of a create", []string{"StartDomain", "UndefineDomain"}, func(l *lab) seedbed.JobID { return l.create("web1") },
			[]string{"web1 define domain  web1"}, "web1"},
		{"a domain that cannot be switched off", []string{"StartDomain", "DestroyDomain"}, func(l *lab) seedbed.JobID { return l.create("web1") },
			[]string{"web1 define domain  web1", "web1 publish stage  publish", "web1 start domain  web1", "web1 volumes volume default -0"},
			"web1"},
		{"image of an import", []string{"RemoveImage"}, func(l *lab) seedbed.JobID {
			receipt, err := l.intake.Import(l.t.Context(), "fresh", "default", seedbed.ImportSpec{Path: "/none"}, usual)
			l.ok(err)
			return receipt.Job
		}, []string{"fresh import image default fresh"}, "fresh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyMetadata)
			mend := l.broken(append(c.broken, "ImportImage")...)
			id := c.ask(l)
			l.runUntil(id, seedbed.JobIncomplete)
			if d := cmp.Diff(c.orphans, sorted(l.orphans())); d != "" {
				t.Errorf("left behind (-want +got):\n%s", d)
			}
			if got := l.cleanAfter(9*time.Minute, false); got != nil {
				t.Errorf("undone too soon: %q", got)
			}
			want := []string{"undo " + c.subject}
			if d := cmp.Diff(want, l.cleanAfter(11*time.Minute, true)); d != "" {
				t.Errorf("the dry run (-want +got):\n%s", d)
			}
			l.runUntil(id, seedbed.JobIncomplete) // it has touched nothing

			// Another failure makes the next wait longer.
			if d := cmp.Diff(want, l.cleanAfter(11*time.Minute, false)); d != "" {
				t.Fatalf("undone (-want +got):\n%s", d)
			}
			l.runUntil(id, seedbed.JobIncomplete)
			if d := cmp.Diff(c.orphans, sorted(l.orphans())); d != "" {
				t.Errorf("left behind again (-want +got):\n%s", d)
			}
			if got := l.cleanAfter(11*time.Minute, false); got != nil {
				t.Errorf("undone too soon again: %q", got)
			}
			mend()
			if d := cmp.Diff(want, l.cleanAfter(21*time.Minute, false)); d != "" {
				t.Fatalf("undone at last (-want +got):\n%s", d)
			}
			l.runUntil(id, seedbed.JobRolledBack)
			if got := l.orphans(); got != nil {
				t.Errorf("left behind at last: %q", got)
			}
			if got := l.cleanAfter(48*time.Hour, false); got != nil {
				t.Errorf("undone once too often: %q", got)
			}
			l.nothing("web1")
		})
	}
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}

// TestOrphanIsAnothers checks that a foreign resource in the place of an orphan is not touched.
func TestOrphanIsAnothers(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	mend := l.broken("DefineDomain", "RemoveVolume")
	id := l.create("web1")
	l.runUntil(id, seedbed.JobIncomplete)
	mend()
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	volume := inst.Volumes[0].Name
	l.ok(l.pool.RemoveVolume(t.Context(), volume, inst.ID))
	l.pool.AddForeign(volume)
	if d := cmp.Diff([]string{"undo web1"}, l.cleanAfter(11*time.Minute, false)); d != "" {
		t.Fatal(d)
	}
	l.runUntil(id, seedbed.JobRolledBack)
	l.want("the stranger's volume", l.pool.RemoveVolume(t.Context(), volume, inst.ID), seedbed.ErrConflict)
}

// TestOrphansOfAnInstanceInUse checks that the cleanup removes nothing of an instance that is in
// use, except disks that never were in use, and that everything is removed with the instance.
func TestOrphansOfAnInstanceInUse(t *testing.T) {
	t.Parallel()
	t.Run("rebuild", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyStarted)
		l.made()
		mend := l.broken("StartDomain", "DestroyDomain")
		var on bool
		l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
			if name == "StartDomain" && at == drivertest.After { // it runs, and cannot be stopped
				on = true
				return seedbed.Errorf(seedbed.ErrForbidden, "refused")
			}
			if on && name == "DestroyDomain" && at == drivertest.Before {
				return seedbed.Errorf(seedbed.ErrForbidden, "refused")
			}
			return nil
		})
		l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobIncomplete)
		mend()
		if len(l.orphans()) == 0 {
			t.Error("nothing is left behind")
		}
		if got := l.cleanAfter(48*time.Hour, false); got != nil {
			t.Errorf("undone: %q", got)
		}
		l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
		if got := l.orphans(); got != nil {
			t.Errorf("left behind: %q", got)
		}
		l.nothing("web1") // nor are the former disks left
	})
	t.Run("new disks", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyStarted)
		was := l.made()
		removals := 0
		l.pool.Fail(func(_ context.Context, name string, at drivertest.Point) error {
			if name == "RemoveVolume" && at == drivertest.Before {
				removals++
				return seedbed.Errorf(seedbed.ErrForbidden, "refused")
			}
			return nil
		})
		l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
			if name == "DefineDomain" && at == drivertest.Before && removals == 0 {
				return seedbed.Errorf(seedbed.ErrForbidden, "refused")
			}
			return nil
		})
		id := l.ask(seedbed.DoRebuild, nil)
		l.hv.Fail(failOnce("DefineDomain"))
		l.runUntil(id, seedbed.JobIncomplete)
		if got := l.orphans(); len(got) != len(was.Volumes) || !strings.HasPrefix(got[0], "web1 volumes volume default ") {
			t.Errorf("left behind: %q", got)
		}
		l.pool.Fail(nil)
		if d := cmp.Diff([]string{"undo web1"}, l.cleanAfter(11*time.Minute, false)); d != "" {
			t.Fatal(d)
		}
		l.runUntil(id, seedbed.JobRolledBack)
		l.asBefore(was)
		if got := l.orphans(); got != nil {
			t.Errorf("left behind: %q", got)
		}
	})
}

// failOnce makes an effect fail the first time.
func failOnce(effect string) func(context.Context, string, drivertest.Point) error {
	failed := false
	return func(_ context.Context, name string, at drivertest.Point) error {
		if name == effect && at == drivertest.Before && !failed {
			failed = true
			return seedbed.Errorf(seedbed.ErrForbidden, "refused")
		}
		return nil
	}
}
