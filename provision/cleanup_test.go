package provision

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
	"seedbed/provision/cleanup"
)

func TestCleanup(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Minute
	tests := []struct {
		name      string
		instances int
		prepare   func(*lab, []seedbed.Instance) // before the run under test
		missed    bool                           // a run before the grace period recorded what is missing
		opt       cleanup.Options
		refused   string
		items     []string
	}{
		{name: "all there", instances: 2, missed: true},
		{name: "missing for the first time", instances: 2, prepare: forget(0)},
		{name: "missing too long", instances: 2, prepare: forget(0), missed: true, items: []string{"mappings vm0"}},
		{name: "two of three", instances: 3, prepare: forget(0, 1), missed: true, items: []string{"mappings vm0", "mappings vm1"}},
		{name: "back again", instances: 2, prepare: func(l *lab, all []seedbed.Instance) {
			l.hv.Forget(all[0].ID)
			l.note()
			l.ok(l.hv.DefineDomain(l.t.Context(), seedbed.DomainSpec{ID: all[0].ID, Name: all[0].Name}))
		}},
		{name: "inventory is not complete", instances: 2, prepare: func(l *lab, all []seedbed.Instance) {
			forget(0)(l, all)
			l.note()
			l.oldRecords(all)
			l.host.partial.Store(true)
		}, refused: "the inventory of node node1 is not complete, so nothing is removed: libvirt does not answer"},
		{name: "more than half of four", instances: 4, prepare: forget(0, 1, 2), missed: true, refused: "3 of 4 instances have no domain"},
		{name: "half of four", instances: 4, prepare: forget(0, 1), missed: true, items: []string{"mappings vm0", "mappings vm1"}},
		{name: "more than half, forced", instances: 4, prepare: forget(0, 1, 2), missed: true, opt: cleanup.Options{Force: true},
			items: []string{"mappings vm0", "mappings vm1", "mappings vm2"}},
		{name: "a job works on it", instances: 2, prepare: func(l *lab, all []seedbed.Instance) {
			forget(0)(l, all)
			l.note()
			l.remove(all[0].Name)
		}},
		{name: "not yet defined", instances: 1, prepare: func(l *lab, _ []seedbed.Instance) { l.create("fresh"); l.note() }},
		{name: "leases and records", instances: 3, prepare: func(l *lab, all []seedbed.Instance) { l.oldRecords(all) },
			items: []string{"leases vm0", "leases vm1", "deliveries 1 webhook deliveries", "access 2 guest events"}},
		{name: "everything", instances: 3, prepare: func(l *lab, all []seedbed.Instance) { forget(0)(l, all); l.oldRecords(all) }, missed: true,
			items: []string{"mappings vm0", "leases vm0", "leases vm1", "deliveries 1 webhook deliveries", "access 2 guest events"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			l.static.Store(true) // the only leases are those that the test adds
			all := l.running(tt.instances)
			if tt.prepare != nil {
				tt.prepare(l, all)
			}
			if tt.missed {
				l.note()
			}
			before := l.state()
			dry, err := l.cleaner(grace).Run(t.Context(), cleanup.Options{DryRun: true, Force: tt.opt.Force})
			l.ok(err)
			if d := cmp.Diff(before, l.state(), cmpopts.EquateComparable(netip.Addr{})); d != "" {
				t.Errorf("the dry run changed (-before +after):\n%s", d)
			}
			real, err := l.cleaner(grace).Run(t.Context(), tt.opt)
			l.ok(err)
			if d := cmp.Diff(dry, real); d != "" {
				t.Errorf("the real run differs (-dry +real):\n%s", d)
			}
			if (tt.refused == "") != (real.Refused == "") || !strings.HasPrefix(real.Refused, tt.refused) {
				t.Errorf("refused %q; want %q", real.Refused, tt.refused)
			}
			var items []string
			for _, i := range real.Items {
				if at := slices.IndexFunc(all, func(inst seedbed.Instance) bool { return inst.NICs[0].MAC.String() == i.Subject }); at >= 0 {
					i.Subject = all[at].Name
				}
				items = append(items, i.Task+" "+i.Subject)
			}
			slices.SortStableFunc(items, func(a, b string) int { // leases are in the order of their MACs
				if strings.HasPrefix(a, "leases") && strings.HasPrefix(b, "leases") {
					return strings.Compare(a, b)
				}
				return 0
			})
			if d := cmp.Diff(tt.items, items); d != "" {
				t.Errorf("items (-want +got):\n%s", d)
			}
			for _, inst := range all {
				now, err := l.db.Instance(t.Context(), inst.ID)
				l.ok(err)
				if gone := strings.Contains(fmt.Sprint(items), "mappings "+inst.Name); gone != (now.State == seedbed.InstanceGone) ||
					gone != (len(now.NICs) == 0) || len(now.Volumes) != 1 {
					t.Errorf("%s is %s with %d NICs and %d volumes", inst.Name, now.State, len(now.NICs), len(now.Volumes))
				}
			}
			again, err := l.cleaner(grace).Run(t.Context(), cleanup.Options{Force: true})
			l.ok(err)
			if tt.refused == "" && len(again.Items) != 0 {
				t.Errorf("a second run still finds %v", again.Items)
			}
		})
	}
}

func forget(which ...int) func(*lab, []seedbed.Instance) {
	return func(l *lab, all []seedbed.Instance) {
		for _, i := range which {
			l.hv.Forget(all[i].ID)
		}
	}
}

// running makes running instances vm0, vm1, ….
func (l *lab) running(n int) (all []seedbed.Instance) {
	l.t.Helper()
	p := l.start()
	defer p.stop()
	for i := range n {
		name := fmt.Sprintf("vm%d", i)
		l.wait(l.create(name), seedbed.JobSucceeded)
		inst, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault(name))
		l.ok(err)
		all = append(all, inst)
	}
	l.mute.Store(true) // no guest event from now on
	l.eventually("the guests' last fetch", func() bool {
		for _, inst := range all {
			now, err := l.db.Instance(l.t.Context(), inst.ID)
			l.ok(err)
			if now.Fetched.IsZero() {
				l.mute.Store(false)
				return false
			}
		}
		l.mute.Store(true)
		return true
	})
	return all
}

func (l *lab) cleaner(grace time.Duration) *cleanup.Cleaner {
	return cleanup.New(cleanup.Config{Grace: grace}, l.db, alone{l.host})
}

// note has an earlier cleanup, an hour ago, record what is missing.
func (l *lab) note() {
	l.t.Helper()
	inv, err := l.host.Inventory(l.t.Context())
	l.ok(err)
	var present []seedbed.InstanceID
	for _, d := range inv.Domains {
		present = append(present, d.ID)
	}
	l.ok(l.db.NotePresence(l.t.Context(), testNode, present, time.Now().Add(-time.Hour)))
}

// oldRecords adds an old delivery, two expired leases and old access records to recent ones.
func (l *lab) oldRecords(all []seedbed.Instance) {
	l.t.Helper()
	ctx := l.t.Context()
	_, err := l.db.CreateHook(ctx,
		seedbed.Hook{Name: "ci", Keys: []seedbed.HookKey{{ID: "k1", Secret: make([]byte, 32)}}, Tolerance: time.Minute})
	l.ok(err)
	now := time.Now()
	old := now.Add(-8 * 24 * time.Hour)
	for i, at := range []time.Time{old, now} {
		receipt, err := l.intake.Submit(ctx, seedbed.Request{Action: "create", Name: fmt.Sprintf("hooked%d", i), Profile: "small"},
			&seedbed.Delivery{Hook: "ci", ID: fmt.Sprint("msg_", i), Received: at})
		l.ok(err)
		l.ok(l.db.CancelJob(ctx, receipt.Job)) // only an ended job's delivery is removed
		l.runUntil(receipt.Job, seedbed.JobRolledBack)
	}
	events := []seedbed.GuestEvent{
		{Instance: all[0].ID, Kind: seedbed.GuestAccess, At: old, Method: "GET", Path: "/", Status: 200},
		{Instance: all[0].ID, Kind: seedbed.GuestAccess, At: now, Method: "GET", Path: "/", Status: 200},
	}
	for i, until := range []time.Time{old.Add(time.Hour), now.Add(-time.Minute), now.Add(time.Hour)} {
		if i < len(all) {
			nic := all[i].NICs[0]
			events = append(events, seedbed.GuestEvent{
				Instance: all[i].ID, Kind: seedbed.GuestLease, At: until.Add(-time.Hour), MAC: nic.MAC, Addr: nic.Addr, Until: until,
			})
		}
	}
	for i := range events {
		events[i].Seq = int64(i + 1)
	}
	l.ok(l.db.AddGuestEvents(ctx, testNode, "old", events))
}

// state returns everything that a cleanup could change.
func (l *lab) state() []any {
	l.t.Helper()
	ctx := l.t.Context()
	instances, err := l.db.Instances(ctx)
	l.ok(err)
	leases, err := l.db.Leases(ctx, seedbed.AllProjects())
	l.ok(err)
	deliveries, err := l.db.CountDeliveries(ctx, time.Now().Add(time.Hour))
	l.ok(err)
	events, err := l.db.CountGuestEvents(ctx, time.Now().Add(time.Hour))
	l.ok(err)
	return []any{instances, fmt.Sprint(leases), deliveries, events}
}

// What happens to an instance between the plan of a cleanup and its turn counts. One that has to wait keeps nothing else from being done.
func TestExpiryWaits(t *testing.T) {
	t.Parallel()
	busy := func(context.Context, *lab, seedbed.Request) error {
		return seedbed.Errorf(seedbed.ErrInUse, "a job works on it")
	}
	extended := func(ctx context.Context, l *lab, req seedbed.Request) error {
		_, err := l.db.ChangeInstance(ctx, seedbed.Named(req.Project, req.Name), func(i *seedbed.Instance) error {
			i.Expiry.Time = i.Expiry.Time.Add(time.Hour)
			return nil
		}, func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g })
		if err != nil {
			return err
		}
		_, err = l.intake.Submit(ctx, req, nil)
		return err
	}
	for name, submit := range map[string]func(context.Context, *lab, seedbed.Request) error{"busy": busy, "extended": extended} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			l.static.Store(true)
			all := l.running(1)
			l.oldRecords(all)
			l.start()
			e := seedbed.Expiry{Time: time.Now().Add(time.Hour), Action: seedbed.ExpiryRemove}
			expire := func(i *seedbed.Instance) error { i.Expiry = &e; return nil }
			_, err := l.db.ChangeInstance(t.Context(), seedbed.InDefault("vm0"), expire,
				func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g })
			l.ok(err)
			r, err := cleanup.New(cleanup.Config{Now: func() time.Time { return time.Now().Add(2 * time.Hour) },
				Submit: func(ctx context.Context, req seedbed.Request) error { return submit(ctx, l, req) }}, l.db, alone{l.host}).
				Run(t.Context(), cleanup.Options{})
			l.ok(err)
			var tasks []string
			for _, i := range r.Items {
				tasks = append(tasks, i.Task)
			}
			if slices.Contains(tasks, "expiry") || !slices.Contains(tasks, "deliveries") {
				t.Errorf("tasks %q: want deliveries, and no expiry", tasks)
			}
			if i, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("vm0")); err != nil || i.State != seedbed.InstanceRunning {
				t.Errorf("vm0 is %s, %v", i.State, err)
			}
		})
	}
}

// An instance that has expired is stopped or removed once, when no job works on it; a protected one is not removed.
func TestExpiry(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		action    string
		protected bool
		item      string
		state     seedbed.InstanceState // afterwards; empty if it is gone
	}{
		"stop":      {"stop", false, "expiry stop web1", seedbed.InstanceStopped},
		"remove":    {"remove", false, "expiry remove web1", ""},
		"protected": {"remove", true, "expiry stop web1", seedbed.InstanceStopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			l.start()
			receipt, err := l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Profile: "small",
				Protected: &tt.protected, Expires: "1h", AtExpiry: tt.action}, nil)
			l.ok(err)
			l.wait(receipt.Job, seedbed.JobSucceeded)
			items := func(at time.Duration) []string {
				r, err := cleanup.New(cleanup.Config{Now: func() time.Time { return time.Now().Add(at) },
					Submit: func(ctx context.Context, req seedbed.Request) error {
						_, err := l.intake.Submit(ctx, req, nil)
						return err
					}}, l.db, alone{l.host}).Run(t.Context(), cleanup.Options{})
				l.ok(err)
				var all []string
				for _, i := range r.Items {
					if i.Task == "expiry" {
						all = append(all, i.Task+" "+i.Action+" "+i.Subject)
					}
				}
				return all
			}
			if got := items(59 * time.Minute); got != nil {
				t.Errorf("before its time: %q", got)
			}
			l.eventually("it is due", func() bool { return slices.Equal(items(61*time.Minute), []string{tt.item}) })
			l.eventually("it is done", func() bool {
				i, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
				return tt.state == "" && errors.Is(err, seedbed.ErrNotFound) || err == nil && i.State == tt.state
			})
			if got := items(62 * time.Minute); got != nil {
				t.Errorf("once more: %q", got)
			}
		})
	}
}
