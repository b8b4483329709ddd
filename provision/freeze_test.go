package provision

import (
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// withGuestAgent gives the guest of an instance an agent.
func (l *lab) withGuestAgent(inst seedbed.Instance) *drivertest.GuestAgent {
	g := drivertest.NewGuestAgent()
	l.hv.SetAgent(inst.ID, g.Answer)
	return g
}

// takeInside has the guest of web1 take a snapshot of a volume that it has open, for no job.
func (l *lab) takeInside(spec seedbed.SnapshotSpec) {
	l.t.Helper()
	job := seedbed.NewJobID()
	disk, _, err := l.pool.BeginSnapshot(l.t.Context(), job, spec)
	l.ok(err)
	l.ok(l.hv.SnapshotDisks(l.t.Context(), l.byName("web1").ID, []seedbed.DiskSnapshot{{Disk: disk, Name: spec.Name}}))
	l.ok(l.pool.EndSnapshot(l.t.Context(), job, spec))
}

// thawed checks that a guest is not frozen.
func (l *lab) thawed(g *drivertest.GuestAgent) {
	l.t.Helper()
	if frozen, _ := g.Frozen(); frozen {
		l.t.Error("the guest is frozen")
	}
}

// snapshot takes a snapshot of web1, and returns it, or its zero value if the job ends otherwise than it should.
func (l *lab) snapshot(name string, freeze seedbed.Freeze, want seedbed.JobState) (taken seedbed.SnapshotInfo) {
	l.t.Helper()
	l.runUntil(l.job(l.intake.Snapshot(l.t.Context(), seedbed.InDefault("web1"), name, freeze, usual)), want)
	inst := l.byName("web1")
	all, err := l.pool.Snapshots(l.t.Context(), inst.Volumes[0].Name, inst.ID)
	l.ok(err)
	for _, s := range all {
		if s.Name == name {
			taken = s
		}
	}
	return taken
}

// TestFrozenSnapshot checks in which state the guest is when a snapshot is taken, and that it is never left frozen.
func TestFrozenSnapshot(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	expect := func(name string, freeze seedbed.Freeze, state seedbed.JobState, want seedbed.Consistency) {
		t.Helper()
		if s := l.snapshot(name, freeze, state); s.Consistency != want || (s.Name != "") != (state == seedbed.JobSucceeded) {
			t.Errorf("%s: %+v, want %q", name, s, want)
		}
	}
	expect("no-agent", "", seedbed.JobSucceeded, seedbed.ConsistencyCrash)
	expect("no-agent-2", seedbed.FreezeAlways, seedbed.JobRolledBack, "")
	g := l.withGuestAgent(inst)
	expect("frozen", "", seedbed.JobSucceeded, seedbed.ConsistencyFrozen)
	expect("never", seedbed.FreezeNever, seedbed.JobSucceeded, seedbed.ConsistencyCrash)
	if now, times := g.Frozen(); now || times != 1 {
		t.Errorf("the guest was frozen %d times, and is now: %t", times, now)
	}
	if _, err := g.Answer([]byte(`{"execute":"guest-fsfreeze-freeze"}`)); err != nil { // by a worker that has died since
		t.Fatal(err)
	}
	expect("left", seedbed.FreezeAlways, seedbed.JobSucceeded, seedbed.ConsistencyFrozen)

	// A snapshot that cannot be taken leaves no frozen guest, and one of a guest that does not stay frozen is none.
	l.failEffect("SnapshotDisks", drivertest.After, seedbed.Errorf(seedbed.ErrForbidden, "it is refused"))
	expect("failed", "", seedbed.JobRolledBack, "")
	l.pool.Fail(nil)
	l.hv.Fail(nil)
	if now, _ := g.Frozen(); now {
		t.Error("the guest is frozen after a snapshot that failed")
	}
	l.hv.SetAgent(inst.ID, func(request []byte) ([]byte, error) {
		answer, err := g.Answer(request)
		if strings.Contains(string(request), "thaw") {
			answer = []byte(`{"return":0}`)
		}
		return answer, err
	})
	expect("thawed", seedbed.FreezeAlways, seedbed.JobRolledBack, "")
	expect("thawed-2", "", seedbed.JobSucceeded, seedbed.ConsistencyCrash)
	older := seedbed.Errorf(seedbed.ErrInvalid, "there is no effect \"freeze-guest\": is this worker older than its seedbedd?")
	l.failEffect("AskAgent", drivertest.Before, older)
	expect("older", "", seedbed.JobSucceeded, seedbed.ConsistencyCrash)
	_, err := l.intake.Snapshot(t.Context(), seedbed.InDefault("web1"), "bad", "maybe", usual)
	l.want("an unknown choice", err, seedbed.ErrInvalid)
}
