package storetest

import (
	"context"
	"sync"
	"time"

	"seedbed"
)

// testDone holds that a change that a delivery asks for is made once, and recorded with it, in whatever order its copies come.
func testDone(b *bench) {
	b.world()
	asked := delivery("msg_1", "body")
	asked.Detail, asked.Peer, asked.Payload = "network-set default", "192.0.2.1", []byte("body")
	on := func(d *seedbed.Delivery) context.Context {
		return seedbed.WithChange(context.Background(), &seedbed.Change{Actor: "hook ci", Project: seedbed.DefaultProject, Delivery: d})
	}
	mtu := func(to int) func(*seedbed.Network) error {
		return func(n *seedbed.Network) error { n.MTU = to; return nil }
	}
	ctx := context.Background()
	b.must(b.RecordDelivery(ctx, *asked)) // as an earlier attempt that was refused
	get(b.ChangeNetwork(on(asked), "default", mtu(1400)))(b)
	want := *asked
	want.Decision = seedbed.DecisionDone
	b.equal(get(b.Delivery(ctx, "ci", "msg_1"))(b), want)
	b.equal(*get(b.EarlierReceipt(ctx, *asked))(b), seedbed.Receipt{Duplicate: true})
	_, err := b.EarlierReceipt(ctx, *delivery("msg_1", "other"))
	b.want(err, seedbed.ErrConflict, "another body")
	_, err = b.ChangeNetwork(on(asked), "default", mtu(1300))
	b.want(err, seedbed.ErrExists)
	b.equal(get(b.Network(ctx, "default"))(b).MTU, 1400)
	b.equal(len(get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects(), Actor: "hook ci"}))(b)), 1)
	a := createOf("web1")
	a.Delivery = asked
	b.equal(get(b.Accept(ctx, a))(b), seedbed.Receipt{Duplicate: true}) // and makes no instance
	_, err = b.InstanceByName(ctx, seedbed.InDefault("web1"))
	b.want(err, seedbed.ErrNotFound)
	same := delivery("msg_2", "body") // of a change that is none
	get(b.ChangeNetwork(on(same), "default", mtu(1400)))(b)
	b.equal(get(b.EarlierReceipt(ctx, *same))(b), (*seedbed.Receipt)(nil))
	same.Decision = seedbed.DecisionDone
	b.must(b.RecordDelivery(ctx, *same))
	again := *same
	again.Detail = "not recorded again"
	b.must(b.RecordDelivery(ctx, again))
	b.equal(get(b.Delivery(ctx, "ci", "msg_2"))(b).Detail, "")
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{Decision: seedbed.DecisionDone}))(b)), 2)
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{Decision: seedbed.DecisionAccepted}))(b)), 0)
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{}))(b)), 2)
	many, errs := delivery("msg_3", "body"), make([]error, 8)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() { _, errs[i] = b.ChangeNetwork(on(many), "default", mtu(1500+i)) })
	}
	wait.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else {
			b.want(err, seedbed.ErrExists)
		}
	}
	b.equal(made, 1)
	b.equal(get(b.DropDeliveries(ctx, time.Now().Add(time.Hour)))(b), 4) // that of the refusal as well
}
