package storetest

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

var hookCases = map[string]func(*bench){
	"settings":      testHookSettings,
	"rotation":      testHookRotation,
	"keys":          testHookKeys,
	"declared":      testDeclaredHooks,
	"history":       testHistory,
	"done":          testDone,
	"rejections":    testRejections,
	"quotas":        testQuotas,
	"quota race":    testQuotaRace,
	"refused aside": testRefusedAside,
	"power":         testPower,
	"free address":  testFreeAddress,
	"many addresses": func(b *bench) {
		b.world()
		for n := range 40 { // more than one query checks
			b.instance(nameN(n))
		}
		b.remove(get(b.InstanceByName(context.Background(), seedbed.InDefault(nameN(3))))(b).ID)
		b.equal(b.instance("again").NICs[0].Addr.String(), "10.99.0.5")
		b.equal(b.instance("after").NICs[0].Addr.String(), "10.99.0.42")
	},
}

func ciHook() seedbed.Hook {
	h := seedbed.Hook{Name: "ci", Keys: []seedbed.HookKey{{ID: "k1", Secret: bytes.Repeat([]byte{1}, 32)}},
		Actions: []string{"create"}, Tolerance: time.Minute}
	h.Scheme = seedbed.SchemeStandard
	return h
}

func testHookSettings(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.CreateProfile(ctx, webProfile()))(b)
	h := get(b.CreateHook(ctx, ciHook()))(b)
	h.Profiles, h.Actions, h.Tolerance = []string{"web"}, []string{"start", "stop"}, time.Hour
	h.CIDRs, h.Subjects = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, []string{"a.example"}
	h.Rate, h.Concurrency, h.MaxBody, h.Instances, h.Creates = 1.5, 2, seedbed.KiB, 3, 4
	h.When, h.Mapping, h.KeepPayload = "true", `{"a": 'b'}`, true
	changed := get(b.UpdateHook(ctx, h))(b)
	b.equal(changed, h, cmpopts.IgnoreFields(seedbed.Hook{}, "Changed"))
	b.equal(get(b.Hook(ctx, "ci"))(b), changed)
	other := h
	other.Scheme = seedbed.SchemeGitHub
	_, err := b.UpdateHook(ctx, other)
	b.want(err, seedbed.ErrConflict, "standard", "github")
	_, err = b.UpdateHook(ctx, h)
	b.want(err, seedbed.ErrConflict, "changed in the meantime")
	other = changed
	other.Profiles = []string{"none"}
	_, err = b.UpdateHook(ctx, other)
	b.want(err, seedbed.ErrInvalid, `"none"`)
	other.Name = "nobody"
	_, err = b.UpdateHook(ctx, other)
	b.want(err, seedbed.ErrNotFound, `"nobody"`)
	b.equal(get(b.Hook(ctx, "ci"))(b), changed)
}

func testHookRotation(b *bench) {
	ctx := context.Background()
	get(b.CreateHook(ctx, ciHook()))(b)
	before := time.Now()
	next := seedbed.HookKey{ID: "k2", Secret: bytes.Repeat([]byte{2}, 32)}
	h := get(b.RotateHook(ctx, "ci", next, time.Hour))(b)
	b.equal([]string{h.Keys[0].ID, h.Keys[1].ID}, []string{"k1", "k2"})
	if until := h.Keys[0].NotAfter.Sub(before); until < 59*time.Minute || until > 61*time.Minute || !h.Keys[1].NotAfter.IsZero() {
		b.Fatalf("keys %+v", h.Keys)
	}
	_, err := b.RotateHook(ctx, "ci", next, time.Hour)
	b.want(err, seedbed.ErrExists, `"k2"`)
	_, err = b.RotateHook(ctx, "ci", seedbed.HookKey{ID: "k3", Secret: []byte("short")}, 0)
	b.want(err, seedbed.ErrInvalid, "16")
	h = get(b.RotateHook(ctx, "ci", seedbed.HookKey{ID: "k3", Secret: bytes.Repeat([]byte{3}, 32)}, 0))(b)
	b.equal(len(h.Keys), 1) // without an overlap only the new key is valid
	b.equal(get(b.Hook(ctx, "ci"))(b).Keys[0].ID, "k3")
	_, err = b.RotateHook(ctx, "nobody", next, time.Hour)
	b.want(err, seedbed.ErrNotFound)
}

// A key that begins later also ends the earlier keys later. A key that was removed is gone.
func testHookKeys(b *bench) {
	ctx := context.Background()
	get(b.CreateHook(ctx, ciHook()))(b)
	start := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Microsecond)
	h := get(b.RotateHook(ctx, "ci",
		seedbed.HookKey{ID: "k2", Secret: bytes.Repeat([]byte{2}, 32), NotBefore: start, NotAfter: start.Add(48 * time.Hour)}, time.Hour))(b)
	b.equal([]any{len(h.Keys), h.Keys[0].NotAfter, h.Keys[1].NotBefore, h.Keys[1].NotAfter},
		[]any{2, start.Add(time.Hour), start, start.Add(48 * time.Hour)})
	_, err := b.RotateHook(ctx, "ci", seedbed.HookKey{ID: "k2", Secret: bytes.Repeat([]byte{3}, 32)}, 72*time.Hour)
	b.want(err, seedbed.ErrInvalid, `two keys are called "k2"`)
	b.equal(get(b.HookNow(ctx, "ci"))(b), get(b.Hook(ctx, "ci"))(b))
	allow := func(_, _ seedbed.Hook) error { return nil }
	_, err = b.RemoveHookKey(ctx, "ci", "k3", allow)
	b.want(err, seedbed.ErrNotFound, `"k3"`)
	refuse := seedbed.Errorf(seedbed.ErrInvalid, "it needs that one")
	_, err = b.RemoveHookKey(ctx, "ci", "k1", func(was, left seedbed.Hook) error {
		b.equal(len(was.Keys), 2)
		b.equal([]any{len(left.Keys), left.Keys[0].ID}, []any{1, "k2"})
		return refuse
	})
	b.want(err, seedbed.ErrInvalid, "needs")
	b.equal(len(get(b.Hook(ctx, "ci"))(b).Keys), 2)
	h = get(b.RemoveHookKey(ctx, "ci", "k1", allow))(b)
	b.equal([]any{len(h.Keys), h.Keys[0].ID}, []any{1, "k2"})
	b.equal(get(b.Hook(ctx, "ci"))(b), h)
	_, err = b.RemoveHookKey(ctx, "nobody", "k1", allow)
	b.want(err, seedbed.ErrNotFound)
	_, err = b.HookNow(ctx, "nobody")
	b.want(err, seedbed.ErrNotFound)
	other := ciHook()
	other.Name = "two"
	b.must(b.DeclareHooks(ctx, []seedbed.Hook{other}))
	_, err = b.RemoveHookKey(ctx, "two", "k1", allow)
	b.want(err, seedbed.ErrConflict, "webhook.hooks")
}

func testDeclaredHooks(b *bench) {
	ctx := context.Background()
	b.must(b.DeclareHooks(ctx, nil))
	made, two := ciHook(), ciHook()
	made.Name, two.Name = "made", "two"
	get(b.CreateHook(ctx, made))(b)
	b.must(b.DeclareHooks(ctx, []seedbed.Hook{ciHook(), two}))
	h := get(b.Hook(ctx, "ci"))(b)
	b.equal(h.Declared, true)
	h.Rate = 7
	_, err := b.UpdateHook(ctx, h)
	b.want(err, seedbed.ErrConflict, "webhook.hooks")
	_, err = b.RotateHook(ctx, "ci", seedbed.HookKey{ID: "x", Secret: make([]byte, 32)}, 0)
	b.want(err, seedbed.ErrConflict)
	b.want(b.DeleteHook(ctx, "ci"), seedbed.ErrConflict)
	changed := ciHook()
	changed.Rate, changed.Keys[0].Secret = 7, bytes.Repeat([]byte{9}, 32)
	b.must(b.DeclareHooks(ctx, []seedbed.Hook{changed}))
	h = get(b.Hook(ctx, "ci"))(b)
	b.equal([]any{h.Rate, h.Keys[0].Secret[0]}, []any{7.0, byte(9)})
	b.equal(len(get(b.Hooks(ctx))(b)), 2)
	b.want(b.DeclareHooks(ctx, []seedbed.Hook{made}), seedbed.ErrConflict, `"made"`)
	b.equal(len(get(b.Hooks(ctx))(b)), 2)
	b.must(b.DeclareHooks(ctx, nil))
	b.equal(get(b.Hooks(ctx))(b)[0].Name, "made")
}

// Senders that are not accepted are counted, and no more of them kept than is said.
func testRejections(b *bench) {
	ctx := context.Background()
	one := seedbed.Rejection{Hook: "ci", Peer: "192.0.2.1", Reason: "no signature matches", Times: 2, First: day, Last: day.Add(time.Second)}
	old := one
	old.Reason, old.Last = "timestamp is too old", day
	b.must(b.RecordRejections(ctx, []seedbed.Rejection{old, one}))
	later := one
	later.Times, later.First, later.Last = 3, day.Add(time.Minute), day.Add(time.Hour)
	b.must(b.RecordRejections(ctx, []seedbed.Rejection{later}))
	later.Times, later.First = 5, day
	b.equal(get(b.Rejections(ctx, seedbed.RejectionQuery{}))(b), []seedbed.Rejection{later, old})
	b.equal(get(b.Rejections(ctx, seedbed.RejectionQuery{Hook: "ci", Limit: 1}))(b), []seedbed.Rejection{later})
	b.equal(len(get(b.Rejections(ctx, seedbed.RejectionQuery{Hook: "other"}))(b)), 0)

	var many []seedbed.Rejection
	for n := range 60 {
		other := one
		other.Peer, other.First, other.Last = fmt.Sprintf("2001:db8::%x", n+1), day.Add(time.Minute), day.Add(time.Minute)
		many = append(many, other)
	}
	b.must(b.RecordRejections(ctx, many))
	all := get(b.Rejections(ctx, seedbed.RejectionQuery{Hook: "ci"}))(b)
	b.equal(len(all), 50)
	b.equal(all[0], later)
	var paged []seedbed.Rejection
	for q := (seedbed.RejectionQuery{Hook: "ci", Since: day, Limit: 1}); len(paged) < len(all); {
		page := get(b.Rejections(ctx, q))(b)
		b.equal(len(page), 1)
		q.After = page[0]
		paged = append(paged, page...)
	}
	b.equal(paged, all) // most of them were last rejected at the same time
	b.equal(len(get(b.Rejections(ctx, seedbed.RejectionQuery{Since: day.Add(time.Hour)}))(b)), 1)
	b.equal(get(b.CountDeliveries(ctx, day.Add(time.Hour)))(b), 49)
	b.equal(get(b.DropDeliveries(ctx, day.Add(time.Hour)))(b), 49)
	b.equal(get(b.Rejections(ctx, seedbed.RejectionQuery{Hook: "ci"}))(b), []seedbed.Rejection{later})
}

func testHistory(b *bench) {
	ctx := context.Background()
	b.world()
	d := delivery("msg_1", "body")
	d.Decision, d.Detail, d.Peer = seedbed.DecisionIgnored, "no", "192.0.2.1"
	d.Headers, d.Payload = map[string]string{"x-a": "b"}, []byte("body")
	b.must(b.RecordDelivery(ctx, *d))
	b.equal(get(b.Delivery(ctx, "ci", "msg_1"))(b), *d)
	list := get(b.Deliveries(ctx, seedbed.DeliveryQuery{Hook: "ci"}))(b)
	b.equal(list[0].Payload, []byte(nil))
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{Hook: "other"}))(b)), 0)
	d.Decision = seedbed.DecisionRefused
	b.must(b.RecordDelivery(ctx, *d))
	b.equal(get(b.Delivery(ctx, "ci", "msg_1"))(b).Decision, seedbed.DecisionRefused)
	a := createOf("web1")
	a.Delivery = d
	receipt := get(b.Accept(ctx, a))(b)
	all := get(b.Deliveries(ctx, seedbed.DeliveryQuery{}))(b)
	b.equal(len(all), 1)
	b.equal([]any{all[0].Decision, all[0].Job, all[0].Peer, all[0].Headers["x-a"]},
		[]any{seedbed.DecisionAccepted, receipt.Job, "192.0.2.1", "b"})
	b.equal(get(b.Delivery(ctx, "ci", "msg_1"))(b).Payload, []byte("body"))
	b.must(b.RecordDelivery(ctx, *delivery("msg_2", "x")))
	for _, hook := range []string{"ci", "other"} { // at the same time
		same := delivery("msg_2", "x")
		same.Hook, same.Received, same.Decision = hook, day, seedbed.DecisionIgnored
		b.must(b.RecordDelivery(ctx, *same))
	}
	every := get(b.Deliveries(ctx, seedbed.DeliveryQuery{}))(b)
	var paged []seedbed.Delivery
	for q := (seedbed.DeliveryQuery{Limit: 1}); len(paged) < len(every); {
		page := get(b.Deliveries(ctx, q))(b)
		b.equal(len(page), 1)
		q.After = page[0]
		paged = append(paged, page...)
	}
	b.equal(paged, every)
	for _, one := range []struct {
		query seedbed.DeliveryQuery
		want  int
	}{
		{seedbed.DeliveryQuery{Decision: seedbed.DecisionAccepted}, 1}, {seedbed.DeliveryQuery{Decision: seedbed.DecisionIgnored}, 2},
		{seedbed.DeliveryQuery{Decision: seedbed.DecisionIgnored, Hook: "ci", ID: "msg_2"}, 1},
		{seedbed.DeliveryQuery{Decision: seedbed.DecisionRefused}, 0}, {seedbed.DeliveryQuery{Since: day.Add(time.Second)}, 1},
		{seedbed.DeliveryQuery{ID: "msg_2"}, 2}, {seedbed.DeliveryQuery{After: every[2]}, 0},
	} {
		b.equal(len(get(b.Deliveries(ctx, one.query))(b)), one.want)
	}
	b.equal(get(b.CountDeliveries(ctx, time.Now().Add(time.Hour)))(b), 3) // the one with a live job stays
	b.equal(get(b.DropDeliveries(ctx, time.Now().Add(time.Hour)))(b), 3)
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{}))(b)), 1)
	b.want(b.RecordDelivery(ctx, *delivery("", "x")), seedbed.ErrInvalid)
}

func quotaOf(n int, q seedbed.Quota) seedbed.Acceptance {
	a := createOf(nameN(n))
	a.Delivery = delivery(fmt.Sprint("msg_", n), "x")
	a.Delivery.Quota = q
	return a
}

func testQuotas(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.CreateHook(ctx, ciHook()))(b)
	live := seedbed.Quota{Instances: 2}
	for n := range 2 {
		get(b.Accept(ctx, quotaOf(n, live)))(b)
	}
	_, err := b.Accept(ctx, quotaOf(2, live))
	b.want(err, seedbed.ErrFull, `hook "ci"`, "2 instances")
	b.equal(get(b.Accept(ctx, quotaOf(0, live)))(b).Duplicate, true)
	for range 2 {
		j := b.claim()
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	}
	b.remove(get(b.InstanceByName(ctx, seedbed.InDefault(nameN(0))))(b).ID)
	get(b.Accept(ctx, quotaOf(2, live)))(b)
	_, err = b.Accept(ctx, quotaOf(3, seedbed.Quota{Creates: 3}))
	b.want(err, seedbed.ErrFull, "within an hour")
	get(b.Accept(ctx, quotaOf(3, seedbed.Quota{Creates: 4})))(b)
	foreign := quotaOf(4, live)
	foreign.Delivery.Hook = "another"
	get(b.Accept(ctx, foreign))(b)
}

// However many requests arrive at the same time, none is accepted beyond the limit.
func testQuotaRace(b *bench) {
	b.world()
	get(b.CreateHook(context.Background(), ciHook()))(b)
	var mu sync.Mutex
	made := 0
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			_, err := b.Accept(context.Background(), quotaOf(n, seedbed.Quota{Instances: 5}))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else if seedbed.KindName(err) != "full" {
				b.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	b.equal(made, 5)
}

// An invalid request does not affect the others that are written in the same batch.
func testRefusedAside(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.Accept(ctx, createOf("taken")))(b)
	errs := make([]error, 60)
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() {
			a := createOf(nameN(n))
			a.Delivery = delivery(fmt.Sprint("msg_", n), "x")
			switch n % 3 {
			case 1:
				a.Instance.Name = "taken"
			case 2:
				a.Compose = func(seedbed.Instance) (seedbed.Documents, error) { panic("a bug") }
			}
			_, errs[n] = b.Accept(ctx, a)
		})
	}
	wg.Wait()
	for n, err := range errs {
		switch n % 3 {
		case 0:
			b.must(err)
			get(b.InstanceByName(ctx, seedbed.InDefault(nameN(n))))(b)
			get(b.Delivery(ctx, "ci", fmt.Sprint("msg_", n)))(b)
			continue
		case 1:
			b.want(err, seedbed.ErrExists, `"taken"`)
		case 2:
			if err == nil {
				b.Errorf("%d: a panic was accepted", n)
			}
		}
		_, err = b.Delivery(ctx, "ci", fmt.Sprint("msg_", n))
		b.want(err, seedbed.ErrNotFound)
	}
	b.equal(len(get(b.Instances(ctx))(b)), 21)
}

func testPower(b *bench) {
	ctx := context.Background()
	b.world()
	making, i := b.running("web1")
	_, err := b.Accept(ctx, power(seedbed.JobStop, i.ID))
	b.want(err, seedbed.ErrInUse, making.ID.Short())
	b.must(b.Finish(ctx, making.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	a := power(seedbed.JobStop, i.ID)
	get(b.Accept(ctx, a))(b)
	j := get(b.Job(ctx, a.Job.ID))(b)
	b.equal([]any{j.Kind, j.Subject, j.Node}, []any{seedbed.JobStop, "web1", node})
	_, err = b.Accept(ctx, power(seedbed.JobStart, i.ID))
	b.want(err, seedbed.ErrInUse, j.ID.Short())
	held := b.claim()
	b.must(b.Finish(ctx, held.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceFailed}))
	_, err = b.Accept(ctx, power(seedbed.JobStart, i.ID))
	b.want(err, seedbed.ErrConflict, "failed")
	_, err = b.Accept(ctx, power(seedbed.JobStart, seedbed.NewInstanceID()))
	b.want(err, seedbed.ErrNotFound)
}

func testFreeAddress(b *bench) {
	ctx := context.Background()
	b.image("debian")
	b.network("default", "seedbed0", "10.99.0.0/29")
	b.equal(get(b.FreeAddr(ctx, "default", seedbed.MAC{}, netip.Addr{}))(b).String(), "10.99.0.2")
	for n := range 5 {
		b.instance(nameN(n))
	}
	_, err := b.FreeAddr(ctx, "default", seedbed.MAC{}, netip.Addr{})
	b.want(err, seedbed.ErrFull)
	_, err = b.FreeAddr(ctx, "none", seedbed.MAC{}, netip.Addr{})
	b.want(err, seedbed.ErrNotFound)
}
