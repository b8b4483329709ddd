package provision

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/testdb"
)

// ledger is what all processes of a lab have written, by job: the epochs of the
// writes that were taken, in their order.
type ledger struct {
	mu     sync.Mutex
	epochs map[seedbed.JobID][]int64
}

func (d *ledger) note(ref seedbed.JobRef) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epochs == nil {
		d.epochs = map[seedbed.JobID][]int64{}
	}
	d.epochs[ref.ID] = append(d.epochs[ref.ID], ref.Epoch)
}

// newWatchedLab is a lab whose invariants can be checked: strangers are there, that
// nobody may touch, and an endpoint that is told everything.
func newWatchedLab(t *testing.T) *lab {
	t.Helper()
	l := newLabOn(t, testdb.Open(t))
	l.ledger = &ledger{}
	l.pool.AddForeign(strangerVolume)
	l.hv.AddForeign(strangerDomain, "stranger")
	_, err := l.db.CreateEndpoint(t.Context(), seedbed.Endpoint{Name: "all", URL: "https://ci.example/", Events: []string{"*"}, Enabled: true,
		Keys: []seedbed.EndpointKey{{ID: "k", Key: make([]byte, 32), Created: time.Now()}}})
	l.ok(err)
	return l
}

const (
	strangerVolume = "stranger-0"
	strangerDomain = seedbed.InstanceID("5e5e5e5e-0000-4000-8000-000000000001")
)

// invariants holds what is to be so after every fault, once all jobs have ended:
//
//	I1 each acknowledged request has exactly one job
//	I2 it has ended
//	I3 no older epoch has written after a newer one
//	I4 no name, MAC, address, volume or image is held twice
//	I5 what carries our tag belongs to an instance or image that is there, or its job says that it is left behind
//	I6 what does not is as it was
//	I7 its history has no gap, and one end
//	I8 nobody is served another's data
//	I9 every event waits for its endpoint, once and in order
func (l *lab) invariants(jobs ...seedbed.JobID) {
	l.t.Helper()
	ctx := l.t.Context()
	all, err := steady(ctx, func() ([]seedbed.Job, error) { return l.db.ListJobs(ctx, seedbed.JobQuery{}) })
	l.ok(err)
	left := map[seedbed.InstanceID]bool{}
	images := map[string]bool{}
	seen := map[seedbed.JobID]bool{}
	for _, j := range all {
		seen[j.ID] = true
		if !j.State.Terminal() {
			l.t.Errorf("I2: %s job %s is %s", j.Kind, j.ID, j.State)
		}
		if j.State == seedbed.JobIncomplete || j.State == seedbed.JobFailed {
			left[j.Instance], images[j.Subject] = true, true
		}
		l.checkEvents(j.ID) // I7
	}
	for _, id := range jobs {
		if !seen[id] {
			l.t.Errorf("I1: job %s is not there", id)
		}
	}
	l.ledger.mu.Lock()
	for id, epochs := range l.ledger.epochs {
		if !slices.IsSorted(epochs) {
			l.t.Errorf("I3: job %s was written under epochs %v", id, epochs)
		}
	}
	l.ledger.mu.Unlock()
	instances := l.claims()
	l.owned(instances, left, images)
	l.servedRight(instances)
	l.outbox(all)
}

// claims checks I4, and gives the instances that there are.
func (l *lab) claims() map[seedbed.InstanceID]seedbed.Instance {
	l.t.Helper()
	all, err := l.db.Instances(l.t.Context())
	l.ok(err)
	byID, held := map[seedbed.InstanceID]seedbed.Instance{}, map[string]string{}
	take := func(name string, what ...any) {
		key := fmt.Sprint(what...)
		if by, twice := held[key]; twice {
			l.t.Errorf("I4: %s is held by %s and by %s", key, by, name)
		}
		held[key] = name
	}
	for _, i := range all {
		byID[i.ID] = i
		take(string(i.ID), "name ", i.Name)
		for _, n := range i.NICs {
			take(i.Name, "mac ", n.MAC)
			take(i.Name, "ip ", n.Network, n.Addr)
		}
		for _, v := range i.Volumes {
			take(i.Name, "volume ", v.Pool, v.Name)
		}
	}
	return byID
}

// owned checks I5 and I6.
func (l *lab) owned(instances map[seedbed.InstanceID]seedbed.Instance, left map[seedbed.InstanceID]bool, images map[string]bool) {
	l.t.Helper()
	ctx := l.t.Context()
	volumes, err := l.pool.Volumes(ctx)
	l.ok(err)
	for _, v := range volumes {
		inst, ok := instances[v.Instance]
		named := slices.ContainsFunc(inst.Volumes, func(o seedbed.Volume) bool { return o.Name == v.Name })
		if !(ok && named) && !left[v.Instance] {
			l.t.Errorf("I5: volume %s of instance %s is nobody's", v.Name, v.Instance)
		}
	}
	domains, err := l.hv.Domains(ctx)
	l.ok(err)
	for _, d := range domains {
		if _, ok := instances[d.ID]; !ok && !left[d.ID] {
			l.t.Errorf("I5: domain %s is nobody's", d.Name)
		}
	}
	there, err := l.pool.Images(ctx)
	l.ok(err)
	known, err := l.db.Images(ctx)
	l.ok(err)
	for _, i := range there {
		if !slices.ContainsFunc(known, func(k seedbed.Image) bool { return k.Name == i.Name }) && !images[i.Name] {
			l.t.Errorf("I5: image %s is nobody's", i.Name)
		}
	}
	// An effect on what is not ours is refused, and on what is gone is done already.
	l.want("I6: the stranger's domain", l.hv.UndefineDomain(ctx, strangerDomain), seedbed.ErrConflict)
	l.want("I6: the stranger's volume", l.pool.RemoveVolume(ctx, strangerVolume, strangerDomain), seedbed.ErrConflict)
}

// servedRight checks I8.
func (l *lab) servedRight(instances map[seedbed.InstanceID]seedbed.Instance) {
	l.t.Helper()
	ctx := l.t.Context()
	page, err := steady(ctx, func() (seedbed.FeedPage, error) { return l.db.FeedPage(ctx, testNode, 0, "") })
	l.ok(err)
	for _, c := range page.Changes {
		if c.Guest == nil {
			continue
		}
		inst, ok := instances[c.Guest.ID]
		if !ok {
			l.t.Errorf("I8: instance %s is served and is not there", c.Guest.ID)
			continue
		}
		for n, nic := range c.Guest.NICs {
			if n >= len(inst.NICs) || nic.MAC != inst.NICs[n].MAC || nic.Addr != inst.NICs[n].Addr {
				l.t.Errorf("I8: instance %s is served NIC %+v, and has %+v", inst.Name, nic, inst.NICs)
			}
		}
		if c.Guest.UserData == nil {
			continue
		}
		if doc, err := l.db.Blob(ctx, c.Guest.UserData.SHA256); err != nil || string(doc) != string(inst.UserData) {
			l.t.Errorf("I8: instance %s is served %q, %v", inst.Name, doc, err)
		}
	}
}

// outbox checks I9: of each job one event that it was accepted, and one of its end.
func (l *lab) outbox(jobs []seedbed.Job) {
	l.t.Helper()
	all, err := l.db.OutgoingDeliveries(l.t.Context(), "all", "", 1000)
	l.ok(err)
	seqs, count := []int64{}, map[string]int{}
	for _, o := range all {
		seqs = append(seqs, o.Seq)
		for _, j := range jobs {
			if !strings.Contains(string(o.Data), `"id":"`+string(j.ID)+`"`) {
				continue
			}
			switch o.Type {
			case seedbed.EventJobAccepted:
				count["accepted "+string(j.ID)]++
			case seedbed.EventJobSucceeded, seedbed.EventJobFailed, seedbed.EventJobCancelled:
				count["ended "+string(j.ID)]++
			}
		}
	}
	slices.Sort(seqs)
	for n, seq := range seqs {
		if seq != int64(n+1) {
			l.t.Fatalf("I9: event %d has seq %d", n+1, seq)
		}
	}
	for _, j := range jobs {
		if count["accepted "+string(j.ID)] != 1 || count["ended "+string(j.ID)] != 1 {
			l.t.Errorf("I9: %s job %s: %v", j.Kind, j.ID, count)
		}
	}
}

// taken notes the epoch of a write that was taken.
func (m *mortal) taken(ref seedbed.JobRef, err error) error {
	if err == nil {
		m.ledger.note(ref)
	}
	return err
}
