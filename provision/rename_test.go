package provision

import (
	"strings"
	"testing"

	"seedbed"
)

// renameCases are the cases of jobs that give instances other names.
var renameCases = []jobCase{
	{"rename", seedbed.Job{Kind: seedbed.JobRename}, func(l *lab) caseJob {
		was := l.stopped()
		return caseJob{l.rename("web2"), func() { l.called(was, "web2") }, func() { l.called(was, "web1") }}
	}},
}

func (l *lab) rename(to string) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Rename(l.t.Context(), seedbed.InDefault("web1"), to, usual))
}

// called checks that database, domain and guest plane have an instance, which is off, by that name, and that it has kept the rest.
func (l *lab) called(was seedbed.Instance, name string) {
	l.t.Helper()
	now, err := steady(l.t.Context(), func() (seedbed.Instance, error) { return l.db.Instance(l.t.Context(), was.ID) })
	l.ok(err)
	spec, _ := l.hv.Spec(was.ID)
	if now.Name != name || spec.Name != name {
		l.t.Errorf("the instance is %s and its domain %s; want %s", now.Name, spec.Name, name)
	}
	if g, _ := l.served(); g.Name != name || g.ReportToken != was.ReportToken {
		l.t.Errorf("%s is served; want %s with the same tokens", g.Name, name)
	}
	if now.State != seedbed.InstanceStopped || now.Volumes[0] != was.Volumes[0] || now.NICs[0].MAC != was.NICs[0].MAC ||
		now.NICs[0].Addr != was.NICs[0].Addr {
		l.t.Errorf("the instance was %+v and is %+v", was, now)
	}
}

// TestRename goes the way of a name: the instance starts with the new one, another one gets the former, and neither can have the other's.
func TestRename(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	was := l.stopped()
	p, err := l.intake.PlanRename(ctx, seedbed.InDefault("web1"), "web2")
	l.ok(err)
	if len(p.Problems) > 0 || p.Name != "web1" || len(p.Stages) != 2 || !strings.Contains(strings.Join(p.Notes, " "), "host name web2") {
		t.Errorf("the plan is %+v", p)
	}
	l.runUntil(l.rename("web2"), seedbed.JobSucceeded)
	l.called(was, "web2")
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoStart, Name: "web2"}, nil)), seedbed.JobSucceeded)
	other := l.made()
	if other.Name != "web1" || other.ID == was.ID {
		t.Errorf("the other instance is %+v", other)
	}
	_, err = l.intake.Rename(ctx, seedbed.InDefault("web1"), "web2", usual)
	l.want("rename to a name that is taken", err, seedbed.ErrConflict) // it runs, too
	l.runUntil(l.submit(seedbed.DoStop), seedbed.JobSucceeded)
	_, err = l.intake.Rename(ctx, seedbed.InDefault("web1"), "web2", usual)
	l.want("rename to a name that is taken", err, seedbed.ErrExists)
	if p, err = l.intake.PlanRename(ctx, seedbed.InDefault("web1"), "web2"); err != nil || len(p.Problems) != 1 {
		t.Errorf("the plan is %+v, %v", p, err)
	}
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRemove, Name: "web2"}, nil)), seedbed.JobSucceeded)
	l.runUntil(l.rename("web2"), seedbed.JobSucceeded)
	l.called(other, "web2")
}

// TestRenameTaken checks that a rename is undone if a domain that is not an instance's has the name, or if another instance gets it
// before the job does.
func TestRenameTaken(t *testing.T) {
	t.Parallel()
	t.Run("domain", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyStarted)
		was := l.stopped()
		l.hv.AddForeign(seedbed.NewInstanceID(), "web2")
		l.runUntil(l.rename("web2"), seedbed.JobRolledBack)
		l.called(was, "web1")
	})
	t.Run("instance", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyStarted)
		was := l.stopped()
		first := l.rename("web2")
		l.create("web2") // accepted, and made after the rename
		l.runUntil(first, seedbed.JobRolledBack)
		if spec, _ := l.hv.Spec(was.ID); spec.Name != "web1" || l.byName("web1").ID != was.ID {
			t.Errorf("the domain is %s", spec.Name)
		}
	})
	t.Run("worker", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyStarted)
		was := l.stopped()
		l.hv.Fail(failOnce("RenameDomain"))
		l.runUntil(l.rename("web2"), seedbed.JobRolledBack)
		l.called(was, "web1")
	})
}
