package provision

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/engine"
	"seedbed/provision/intake"
	"seedbed/provision/worker/drivertest"
)

// TestToldOfPower checks that a guest is told before it is switched off, and that this is withdrawn
// when it starts again or could not be switched off.
func TestToldOfPower(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.runUntil(l.create("web1"), seedbed.JobSucceeded)
	served := func() string {
		page, err := l.db.FeedPage(context.Background(), testNode, 0, "")
		if err != nil || len(page.Changes) != 1 {
			t.Errorf("feed: %+v, %v", page, err)
			return ""
		}
		return feedtest.Changes(t, page)[0].Guest.Action
	}
	var seen []string
	fail := true
	l.hv.Fail(func(_ context.Context, effect string, at drivertest.Point) error {
		if at == drivertest.Before && (effect == "DestroyDomain" || effect == "StartDomain") {
			seen = append(seen, effect+" "+served())
			if fail {
				return seedbed.Errorf(seedbed.ErrConflict, "not now")
			}
		}
		return nil
	})
	run := func(action string, want seedbed.JobState) {
		t.Helper()
		receipt, err := l.intake.Submit(t.Context(), seedbed.Request{Action: action, Name: "web1"}, nil)
		l.ok(err)
		l.runUntil(receipt.Job, want)
	}
	run("stop", seedbed.JobRolledBack)
	if a := served(); a != "" {
		t.Errorf("after a stop that failed it is told %q", a)
	}
	fail = false
	run("stop", seedbed.JobSucceeded)
	run("start", seedbed.JobSucceeded)
	if d := cmp.Diff([]string{"DestroyDomain shutdown", "DestroyDomain shutdown", "StartDomain "}, seen); d != "" {
		t.Error(d)
	}
}

// TestToldOfItsEnd checks that the guest's record says shutdown before the domain is switched off,
// and that a guest plane that does not answer delays nothing.
func TestToldOfItsEnd(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.intake = NewIntake(l.db, intake.Serving{Node: testNode, VendorData: []byte("#cloud-config\n")})
	for _, deaf := range []bool{false, true} {
		id := l.create("web1")
		p := l.start()
		l.wait(id, seedbed.JobSucceeded)
		p.stop()
		l.deaf.Store(deaf)
		var actions []string
		l.tune = func(_ *engine.Config, p *engine.Intervals) {
			if deaf {
				p.Announce, p.Retract = 1, 1
			}
		}
		l.hv.Fail(func(_ context.Context, effect string, at drivertest.Point) error {
			if effect != "DestroyDomain" || at != drivertest.Before {
				return nil
			}
			page, err := l.db.FeedPage(context.Background(), testNode, 0, "")
			if err != nil || len(page.Changes) != 1 {
				t.Errorf("feed before the end: %+v, %v", page, err)
				return nil
			}
			g := feedtest.Changes(t, page)[0].Guest
			if g.VendorData == nil || g.UserData == nil {
				t.Errorf("the record lost its documents: %+v", g)
			}
			actions = append(actions, g.Action)
			return nil
		})
		receipt, err := l.intake.Submit(t.Context(), seedbed.Request{Action: "remove", Name: "web1"}, nil)
		l.ok(err)
		p = l.start()
		l.wait(receipt.Job, seedbed.JobSucceeded)
		p.stop()
		if d := cmp.Diff([]string{seedbed.ActionShutdown}, actions); d != "" {
			t.Errorf("deaf %v: %s", deaf, d)
		}
	}
}
