//go:build integration && libvirt

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
)

// killed: a daemon is killed with SIGKILL while Ceph is at its jobs' clones, and
// then each time that one of the jobs comes to a later stage, wherever the
// others are: all succeed, with one of everything.
func (e *engines) killed(t *testing.T) {
	for _, c := range []struct {
		daemon string
		hit    func(wire.EventPage) bool // what is so of a job that the first kill has met
	}{
		{lab.Seedbedd, func(p wire.EventPage) bool { return p.Job.Epoch > 1 }},
		{lab.Worker, func(p wire.EventPage) bool {
			return slices.ContainsFunc(p.Events, func(ev seedbed.Event) bool { return strings.Contains(ev.Msg, "trying again") })
		}},
	} {
		t.Run(c.daemon, func(t *testing.T) {
			e.second.Cmd.Process.Signal(syscall.SIGSTOP) // so that the first control host takes the jobs
			resume := sync.OnceFunc(func() { e.second.Cmd.Process.Signal(syscall.SIGCONT) })
			defer resume()
			e.ceph.Freeze(t) // so that no clone is over
			thaw := sync.OnceFunc(func() { e.ceph.Thaw(t) })
			defer thaw()
			jobs := map[string]string{}
			var names []string
			for i := range 3 {
				name := fmt.Sprintf("%s-%d", c.daemon, i)
				jobs[name] = e.create(t, name, "small").Job
				names = append(names, name)
			}
			for _, name := range names {
				awaitStage(t, e.Stack, jobs[name], "volumes")
			}
			e.Kill(c.daemon)
			resume()
			thaw()
			for i, stage := range []string{"define", "publish", "start"} {
				e.Start(c.daemon)
				e.AwaitAPI()
				awaitStage(t, e.Stack, jobs[names[i]], stage)
				e.Kill(c.daemon)
			}
			e.Start(c.daemon)
			e.AwaitAPI()
			e.up(t, jobs)
			for name, id := range jobs {
				if page, err := e.API.JobEvents(t.Context(), id, 0, 0); err != nil || !c.hit(page) {
					t.Errorf("the job of %s was not under way in %s: %+v, %v", name, c.daemon, page, err)
				}
			}
			e.well(t)
			e.remove(t, names...)
		})
	}
}
