package provision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/engine"
)

// TestForcedStopOvertakes checks that a stop by force does not wait for the stop or reboot that asks
// the guest to shut down, and that this job says so.
func TestForcedStopOvertakes(t *testing.T) {
	t.Parallel()
	for _, action := range []string{seedbed.DoStop, seedbed.DoReboot} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			inst := l.made()
			l.hv.SetDeaf(inst.ID, true)
			l.tune = func(c *engine.Config, _ *engine.Intervals) { c.StageTimeout["shutdown"] = time.Hour }
			p := l.start()
			waits := l.ask(action, nil)
			l.eventually("the guest is asked", func() bool { return strings.Contains(l.history(waits), "the guest is asked to shut down") })
			req := seedbed.Request{Action: seedbed.DoStop, Name: "web1", Params: map[string]any{"force": true}}
			receipt, err := l.intake.Submit(t.Context(), req, nil)
			l.ok(err)
			if receipt.Cancels != waits {
				t.Errorf("receipt %+v", receipt)
			}
			l.wait(receipt.Job, seedbed.JobSucceeded)
			job := l.wait(waits, seedbed.JobRolledBack)
			p.stop()
			l.invariants(receipt.Job)
			l.domain(inst.ID, seedbed.DomainOff)
			says := fmt.Sprintf("superseded by stop job %s, which switches the instance off at once", receipt.Job.Short())
			if job.Error != says || !strings.Contains(l.history(waits), says) {
				t.Errorf("error %q; history:\n%s", job.Error, l.history(waits))
			}
			now, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
			l.ok(err)
			if now.State != seedbed.InstanceStopped {
				t.Errorf("the instance is %s", now.State)
			}
		})
	}
}
