package provision

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// The invariants that must hold after every fault, for jobs that have ended and for those that wait
// for an engine to continue them:
//
//	I1 each acknowledged request has exactly one job
//	I2 it has ended, or continues within its lease, or waits for an engine to continue it
//	I3 no older epoch has written after a newer one
//	I4 no name, MAC, address, volume or image is held twice
//	I5 what carries Seedbed's tag belongs to an existing instance or image, or its job says that it
//	   is left behind; scripts, mappings and mounts belong to a job that has not ended, and leases
//	   to a NIC
//	I6 what does not carry it is unchanged
//	I7 its history has no gap, and one end
//	I8 no guest is served another guest's data
//	I9 every event is queued for its endpoint, once and in order
//
// Every lab checks them whenever runUntil has seen a job end, and at the end of its test.

// watch is what a lab needs to check the invariants.
type watch struct {
	on     bool
	ledger ledger
	// stored lists the contents of a real pool that replaces the lab's own; nil if the lab's is
	// used.
	stored lister
	// excused maps the invariants that a test breaks on purpose to the reason. broken are those of
	// them that did not hold.
	excused map[string]string
	broken  map[string]bool
}

type lister interface {
	Volumes(ctx context.Context) ([]seedbed.VolumeInfo, error)
	Images(ctx context.Context) ([]seedbed.ImageInfo, error)
}

const (
	strangerVolume = "stranger-0"
	strangerDomain = seedbed.InstanceID("5e5e5e5e-0000-4000-8000-000000000001")
)

// watched adds foreign resources that must not be touched, and an endpoint for all events, and
// makes the lab check the invariants at the end of its test.
func (l *lab) watched() {
	l.t.Helper()
	l.watch.on = true
	l.pool.AddForeign(strangerVolume)
	l.hv.AddForeign(strangerDomain, "stranger")
	_, err := l.db.CreateEndpoint(l.t.Context(),
		seedbed.Endpoint{Name: "all", URL: "https://ci.example/", Events: []string{"*"}, Enabled: true,
			Keys: []seedbed.EndpointKey{{ID: "k", Key: make([]byte, 32), Created: time.Now()}}})
	l.ok(err)
	l.t.Cleanup(l.lastLook)
}

// lastLook checks the invariants when nothing runs any more.
func (l *lab) lastLook() {
	if l.t.Failed() || !l.watch.on {
		return
	}
	l.look(true)
	for number, why := range l.watch.excused {
		if !l.watch.broken[number] {
			l.t.Errorf("%s holds, although: %s", number, why)
		}
	}
}

// lookedAtLast makes the last check happen now, because what it reads is removed with the test.
func (l *lab) lookedAtLast() {
	l.t.Helper()
	l.lastLook()
	l.watch.on = false
}

// excuse declares that a test breaks an invariant on purpose, and says why. The test must break it.
func (l *lab) excuse(number, why string) {
	if l.watch.excused == nil {
		l.watch.excused, l.watch.broken = map[string]string{}, map[string]bool{}
	}
	l.watch.excused[number] = why
}

// violated records that an invariant does not hold.
func (l *lab) violated(number, format string, args ...any) {
	l.t.Helper()
	if _, excused := l.watch.excused[number]; excused {
		l.watch.broken[number] = true
		return
	}
	l.t.Errorf(number+": "+format, args...)
}

// invariants checks all of them, including those about the jobs of acknowledged requests.
func (l *lab) invariants(acknowledged ...seedbed.JobID) {
	l.t.Helper()
	if l.watch.on {
		l.look(false, acknowledged...)
	}
}

// seen is the database's content when the invariants were checked.
type seen struct {
	ctx       context.Context
	jobs      map[seedbed.JobID]seedbed.Job
	instances map[seedbed.InstanceID]seedbed.Instance
	// left and images are the instances and the images for which a job reports that something is
	// left behind.
	left   map[seedbed.InstanceID]bool
	images map[string]bool
	// volumes are those of instances, and of both sides of rebuilds.
	volumes map[string]bool
}

func placeOf(id seedbed.InstanceID, volume string) string { return string(id) + " " + volume }

// look checks the invariants. last is set once nothing runs any more: then no process may hold a
// job.
func (l *lab) look(last bool, acknowledged ...seedbed.JobID) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), promptly)
	defer cancel()
	s := &seen{ctx: ctx, jobs: map[seedbed.JobID]seedbed.Job{}, instances: map[seedbed.InstanceID]seedbed.Instance{},
		left: map[seedbed.InstanceID]bool{}, images: map[string]bool{}, volumes: map[string]bool{}}
	all, err := steady(ctx, func() ([]seedbed.Job, error) {
		return l.db.ListJobs(ctx, seedbed.JobQuery{Scope: seedbed.AllProjects()})
	})
	l.ok(err)
	busy := false // whether a job is running
	begun, ends := map[seedbed.JobID]int{}, map[seedbed.JobID]int{}
	for _, j := range slices.Backward(all) { // the newest is first
		s.jobs[j.ID] = j
		begun[j.ID], ends[j.ID] = l.checkHistory(ctx, j)
		held := !j.State.Terminal() && j.Owner != ""
		busy = busy || held
		if held && (last || time.Since(j.LeaseUntil) > 30*time.Second) {
			l.violated("I2", "%s job %s is %s, of %s until %s", j.Kind, j.ID, j.State, j.Owner, j.LeaseUntil)
		}
		switch {
		case j.State == seedbed.JobIncomplete, j.State == seedbed.JobFailed:
			s.left[j.Instance], s.images[j.Subject] = true, true
		case j.State == seedbed.JobSucceeded && j.Kind == seedbed.JobRemove:
			delete(s.left, j.Instance)
		case j.State == seedbed.JobSucceeded && (j.Kind == seedbed.JobImageRemove || j.Kind == seedbed.JobOVARemove):
			delete(s.images, j.Subject)
		}
	}
	for _, id := range acknowledged {
		if _, there := s.jobs[id]; !there {
			l.violated("I1", "job %s is not there", id)
		}
	}
	l.watch.ledger.check(l)
	if !busy || last {
		l.owned(s)
	}
	l.outbox(ctx, all, begun, ends)
}

// checkHistory checks I7 for one job. It returns how many beginnings and ends its history has.
func (l *lab) checkHistory(ctx context.Context, j seedbed.Job) (begun, ends int) {
	l.t.Helper()
	events, err := steady(ctx, func() ([]seedbed.Event, error) { return l.db.Events(ctx, j.ID, 0, 0) })
	l.ok(err)
	begun = 1
	for i, e := range events {
		if strings.HasPrefix(e.Msg, "resumed ") {
			begun++
		}
		if e.Seq != int64(i+1) {
			l.violated("I7", "event %d of job %s has seq %d", i+1, j.ID, e.Seq)
		}
		if strings.HasPrefix(e.Msg, "succeeded") || strings.HasPrefix(e.Msg, "rolled back") || strings.HasPrefix(e.Msg, "failed") {
			ends++
		}
	}
	if j.State.Terminal() && ends != begun || ends > begun {
		l.violated("I7", "%d final events of %s job %s:\n%s", ends, j.Kind, j.ID, l.historyOf(events))
	}
	return begun, ends
}

func (l *lab) historyOf(events []seedbed.Event) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(e.Level + " " + e.Stage + ": " + e.Msg + "\n")
	}
	return b.String()
}

// outbox checks I9: each job has one event for its acceptance or each retry, and one for each end.
func (l *lab) outbox(ctx context.Context, jobs []seedbed.Job, begun, ends map[seedbed.JobID]int) {
	l.t.Helper()
	const most = 1000
	all, err := steady(ctx, func() ([]seedbed.Outgoing, error) {
		return l.db.OutgoingDeliveries(ctx, "all", seedbed.OutgoingQuery{Limit: most})
	})
	l.ok(err)
	count := map[string]int{}
	for n, o := range all { // the latest first
		if want := all[0].Seq - int64(n); o.Seq != want || len(all) < most && n == len(all)-1 && o.Seq != 1 {
			l.violated("I9", "an event has seq %d; expected %d", o.Seq, want)
			return
		}
		_, id, _ := strings.Cut(string(o.Data), `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		switch o.Type {
		case seedbed.EventJobAccepted:
			count["accepted "+id]++
		case seedbed.EventJobSucceeded, seedbed.EventJobFailed, seedbed.EventJobCancelled:
			count["ended "+id]++
		}
	}
	for _, j := range jobs {
		if j.Project != seedbed.DefaultProject { // another project than the endpoint's
			if count["accepted "+string(j.ID)]+count["ended "+string(j.ID)] > 0 {
				l.violated("I9", "the endpoint is told of %s job %s of project %s", j.Kind, j.ID, j.Project)
			}
			continue
		}
		accepted, ended := count["accepted "+string(j.ID)], count["ended "+string(j.ID)]
		missing := len(all) < most && (accepted < 1 || ended != ends[j.ID]) // a cleanup continues a job without a new request
		if over := j.State.Terminal(); over && (missing || accepted > begun[j.ID] || ended > ends[j.ID]) {
			l.violated("I9", "%s job %s was accepted %d times of %d, and ended %d times of %d",
				j.Kind, j.ID, accepted, begun[j.ID], ended, ends[j.ID])
		}
	}
}

// TestExcuse checks that an invariant that is broken on purpose is one that does not hold.
func TestExcuse(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.excuse("I5", "a volume of an instance that never was is in the pool")
	_, err := l.pool.CloneVolume(t.Context(), seedbed.NewJobID(),
		seedbed.VolumeSpec{Name: "lost", Instance: seedbed.NewInstanceID(), Size: seedbed.MiB})
	l.ok(err)
	l.invariants()
	if !l.watch.broken["I5"] || len(l.watch.broken) != 1 {
		t.Errorf("found broken: %v", l.watch.broken)
	}
}
