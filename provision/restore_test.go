package provision

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/intake"
	"seedbed/provision/worker/drivertest"
)

// written makes a running web1, whose guest had written "old" at the snapshot s1 and has written "new" since.
func (l *lab) written() seedbed.Instance {
	l.t.Helper()
	disk := l.made().Volumes[0].Name
	l.pool.Write(disk, "old")
	l.runUntil(l.job(l.intake.Snapshot(l.t.Context(), seedbed.InDefault("web1"), "s1", "", usual)), seedbed.JobSucceeded)
	l.pool.Write(disk, "new")
	return l.byName("web1")
}

func (l *lab) restore() seedbed.JobID {
	l.t.Helper()
	return l.ask(seedbed.DoSnapshotRestore, map[string]any{"snapshot": "s1"})
}

// restored checks that the instance is the one that it was, in that state, with that content, and that only its
// own snapshot is left.
func (l *lab) restored(was seedbed.Instance, content string, state seedbed.InstanceState) {
	l.t.Helper()
	now := l.byName("web1")
	was.Revision, was.Changed, was.State = now.Revision, now.Changed, state
	if d := cmp.Diff(was, now, byValue); d != "" {
		l.t.Errorf("the instance (-before +after):\n%s", d)
	}
	if got := l.pool.Read(now.Volumes[0].Name); got != content {
		l.t.Errorf("its disk has %q: want %q", got, content)
	}
	l.snapshots(now, "s1")
	domain := seedbed.DomainRunning
	if state == seedbed.InstanceStopped {
		domain = seedbed.DomainOff
	}
	l.domain(now.ID, domain)
}

// reports makes the intake ask the pool for snapshots, as it asks the nodes.
func (l *lab) reports() {
	l.serve(func(s *intake.Serving) {
		s.Snapshots = func(ctx context.Context, _, _, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
			return l.pool.Snapshots(ctx, volume, id)
		}
	})
}

// TestRestore restores the same snapshot twice: of a guest that runs, and of one that is off.
func TestRestore(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.reports()
	was := l.written()
	job := l.runUntil(l.restore(), seedbed.JobSucceeded)
	l.restored(was, "old", seedbed.InstanceRunning)
	for _, want := range []string{"snapshot before-" + job.ID.Short() + " of volume " + was.Volumes[0].Name + " has the former content",
		"snapshot s1 of volume " + was.Volumes[0].Name + " is restored"} {
		if !strings.Contains(l.history(job.ID), want) {
			t.Errorf("the history does not say %q:\n%s", want, l.history(job.ID))
		}
	}
	l.pool.Write(was.Volumes[0].Name, "newer")
	l.runUntil(l.ask(seedbed.DoStop, nil), seedbed.JobSucceeded)
	l.runUntil(l.restore(), seedbed.JobSucceeded)
	l.restored(was, "old", seedbed.InstanceStopped)
	l.runUntil(l.job(l.intake.RemoveSnapshot(t.Context(), seedbed.InDefault("web1"), "s1", usual)), seedbed.JobSucceeded)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.nothing("web1")
}

// TestRestoreIsRefusedBeforeItsJob checks that no job is made for a snapshot that cannot be restored.
func TestRestoreIsRefusedBeforeItsJob(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.reports()
	was := l.written()
	before, err := l.db.Jobs(t.Context(), 10)
	l.ok(err)
	for name, test := range map[string]struct {
		params map[string]any
		kind   error
		want   string
	}{
		"none":         {nil, seedbed.ErrInvalid, "param snapshot is missing, or is not a string"},
		"another type": {map[string]any{"snapshot": 1.0}, seedbed.ErrInvalid, "param snapshot is missing, or is not a string"},
		"bad name":     {map[string]any{"snapshot": "-d"}, seedbed.ErrInvalid, "snapshot"},
		"absent": {map[string]any{"snapshot": "s2"}, seedbed.ErrNotFound,
			`instance "web1" has no snapshot "s2" (seedbed vm snapshot list web1)`},
		"unknown":     {map[string]any{"snapshot": "s1", "x": 1}, seedbed.ErrInvalid, `param "x" is unknown`},
		"force, soft": {map[string]any{"snapshot": "s1", "force": true, "soft": true}, seedbed.ErrInvalid, "cannot be combined with soft"},
	} {
		req := seedbed.Request{Action: seedbed.DoSnapshotRestore, Name: "web1", Params: test.params}
		_, err := l.intake.Submit(t.Context(), req, nil)
		if l.want(name, err, test.kind); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", name, err, test.want)
		}
		if p, err := l.intake.Plan(t.Context(), req); err != nil || len(p.Problems) != 1 || !strings.Contains(p.Problems[0], test.want) {
			t.Errorf("the plan of %s: %q, %v; want %q", name, p.Problems, err, test.want)
		}
	}
	fine := seedbed.Request{Action: seedbed.DoSnapshotRestore, Name: "web1", Params: map[string]any{"snapshot": "s1"}}
	keep := fine
	keep.OnFailure = seedbed.OnFailure{Policy: seedbed.FailKeep}
	_, err = l.intake.Submit(t.Context(), keep, nil)
	l.want("kept", err, seedbed.ErrInvalid)
	_, err = l.db.ChangeInstance(t.Context(), was.FullName(), func(i *seedbed.Instance) error { i.Protected = true; return nil },
		func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g })
	l.ok(err)
	_, err = l.intake.Submit(t.Context(), fine, nil)
	l.want("protected", err, seedbed.ErrConflict)
	after, err := l.db.Jobs(t.Context(), 10)
	l.ok(err)
	if len(after) != len(before) {
		t.Errorf("%d jobs: want %d", len(after), len(before))
	}
}

// TestRestorePlan checks what a dry run says.
func TestRestorePlan(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.reports()
	was := l.written()
	l.runUntil(l.resize(seedbed.ResizeRequest{Size: 8 * seedbed.MiB}), seedbed.JobSucceeded)
	req := seedbed.Request{Action: seedbed.DoSnapshotRestore, Name: "web1", Params: map[string]any{"snapshot": "s1"}}
	p, err := l.intake.Plan(t.Context(), req)
	l.ok(err)
	if d := cmp.Diff([]string{"shutdown", "stop", "restore", "start", "delete-snapshot"}, p.Stages); d != "" || len(p.Problems) > 0 {
		t.Errorf("problems %q, stages (-want +got):\n%s", p.Problems, d)
	}
	notes := strings.Join(p.Notes, "\n")
	for _, want := range []string{"volume " + was.Volumes[0].Name + " has grown from 4MiB to 8MiB since the snapshot: it keeps its size",
		"the disks lose what was written since the snapshot of 20", "it is shut down for that, and started again"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note says %q:\n%s", want, notes)
		}
	}
	job := l.runUntil(l.restore(), seedbed.JobSucceeded)
	if h := l.history(job.ID); !strings.Contains(h, "has grown from 4MiB to 8MiB") {
		t.Errorf("no event says that the disk has grown:\n%s", h)
	}
	was.Volumes[0].Size = 8 * seedbed.MiB
	l.restored(was, "old", seedbed.InstanceRunning)
	l.runUntil(l.ask(seedbed.DoStop, nil), seedbed.JobSucceeded)
	p, err = l.intake.Plan(t.Context(), req)
	if d := cmp.Diff([]string{"restore", "delete-snapshot"}, p.Stages); d != "" || err != nil {
		t.Errorf("%v, stages (-want +got):\n%s", err, d)
	}
}

// TestRestoreOfWhatRuns checks that the disks of a domain are not touched that was started although its instance is
// off.
func TestRestoreOfWhatRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	was := l.written()
	l.runUntil(l.ask(seedbed.DoStop, nil), seedbed.JobSucceeded)
	id := l.restore()
	l.ok(l.hv.StartDomain(t.Context(), was.ID))
	job := l.runUntil(id, seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "stop it first (seedbed vm stop web1)") || l.pool.Read(was.Volumes[0].Name) != "new" {
		t.Errorf("error %q, the disk has %q", job.Error, l.pool.Read(was.Volumes[0].Name))
	}
	l.snapshots(was, "s1")
}

// TestRestoreUndoneLater checks that a guest is not started from disks whose former content could not be brought
// back, and that it can be brought back later.
func TestRestoreUndoneLater(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	was := l.written()
	broken := false
	l.hv.Fail(func(_ context.Context, effect string, at drivertest.Point) error {
		if effect == "StartDomain" && at == drivertest.Before {
			broken = true
			return errors.New("no memory")
		}
		return nil
	})
	l.pool.Fail(func(_ context.Context, effect string, at drivertest.Point) error {
		if effect == "RestoreSnapshot" && at == drivertest.Before && broken {
			return errors.New("bad disk")
		}
		return nil
	})
	id := l.restore()
	job := l.runUntil(id, seedbed.JobIncomplete)
	now := l.byName("web1")
	if !strings.Contains(job.Error, "no memory") || l.pool.Read(was.Volumes[0].Name) != "old" || now.State != seedbed.InstanceStopped {
		t.Errorf("error %q, the disk has %q, the instance is %s", job.Error, l.pool.Read(was.Volumes[0].Name), now.State)
	}
	l.domain(was.ID, seedbed.DomainOff)
	l.snapshots(was, "s1", "before-"+id.Short())
	l.hv.Fail(nil)
	l.pool.Fail(nil)
	_, err := l.db.UndoAgain(t.Context(), id)
	l.ok(err)
	l.runUntil(id, seedbed.JobRolledBack)
	l.restored(was, "new", seedbed.InstanceRunning)
}
