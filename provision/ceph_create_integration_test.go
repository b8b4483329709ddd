//go:build integration && ceph

package provision

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	engines "seedbed/internal/lab"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

// TestCephStopsWhileMaking checks what happens to a create while the cluster does not answer. A
// short time only delays it. After a long time the job is undone as soon as the cluster answers.
func TestCephStopsWhileMaking(t *testing.T) {
	c := engines.Ceph(t)
	for _, test := range []struct {
		name  string
		stage time.Duration // time limit of the volumes stage
		ends  seedbed.JobState
	}{{"short", time.Minute, seedbed.JobSucceeded}, {"long", 2 * time.Second, seedbed.JobRolledBack}} {
		t.Run(test.name, func(t *testing.T) {
			name := "make-" + test.name
			l := onCeph(t, c, name)
			var thaw sync.Once
			defer thaw.Do(func() { c.Thaw(t) })
			l.tune = func(cfg *engine.Config, p *engine.Intervals) {
				cfg.StageTimeout["volumes"], p.Undo, p.RetryMax = test.stage, time.Minute, time.Second
			}
			id := l.create("web1")
			var freeze sync.Once
			p := l.start(func(p *process) {
				p.store.fail(func(write, _ string, at drivertest.Point) error {
					if write == "claim" && at == drivertest.Before {
						freeze.Do(func() { c.Freeze(t) })
					}
					return nil
				})
			})
			awaited := "trying again"
			if test.ends == seedbed.JobRolledBack {
				awaited = "stage volumes:"
			}
			l.eventually("the clone to be in vain", func() bool { return strings.Contains(l.history(id), awaited) })
			thaw.Do(func() { c.Thaw(t) })
			l.wait(id, test.ends)
			p.stop()
			l.invariants(id)
			want := 0
			if test.ends == seedbed.JobSucceeded {
				want = 1
				if err := l.hv.DestroyDomain(context.Background(), l.byName("web1").ID); err != nil {
					t.Fatal(err)
				}
			}
			if want == 0 {
				nothingLeft(t, c, name)
				return
			}
			engines.Await(t, engines.Swept, "the pool is swept", func() bool { return len(volumes(t, c, name)) == want })
		})
	}
}
