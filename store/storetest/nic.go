package storetest

import (
	"context"
	"net/netip"

	"seedbed"
)

var nicCases = map[string]func(*bench){"added and removed": testNIC, "to another network": testMovedNIC, "quota": testNICQuota,
	"quota of a moved one": testMovedNICQuota, "limit": testMostNICs,
	"to a network made again": testNICToOther, "its groups and rates": testMovedGroups}

// nicOf returns the acceptance of a job on a NIC.
func nicOf(kind seedbed.JobKind, id seedbed.InstanceID, n seedbed.NIC) seedbed.Acceptance {
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: kind, Instance: id}, NIC: &n}
}

// A NIC has its address from the acceptance of its job, is given back with it however the job ends, and is removed with all that it has.
func testNIC(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	states := func(want ...seedbed.NICState) (now seedbed.Instance) {
		b.Helper()
		now = get(b.Instance(ctx, i.ID))(b)
		var have []seedbed.NICState
		for _, n := range now.NICs {
			have = append(have, n.State)
		}
		b.equal(have, want)
		return now
	}
	n := seedbed.NIC{MAC: newMAC(), Network: "default", BandwidthIn: 1e6, Secondary: []netip.Addr{{}}}
	add := nicOf(seedbed.JobNICAdd, i.ID, n)
	get(b.Accept(ctx, add))(b)
	had := states("", seedbed.NICPromised)
	b.equal([]any{had.NICs[1].Index, had.NICs[1].MAC, had.NICs[1].Added, len(had.NICs[1].Secondary), had.NICs[1].Addr.IsValid()},
		[]any{1, n.MAC, true, 1, true})
	taken := createOf("web9")
	taken.Instance.NICs[0].Addr = had.NICs[1].Addr
	_, err := b.Accept(ctx, taken)
	b.want(err, seedbed.ErrExists)
	b.must(b.CancelJob(ctx, add.Job.ID)) // before it began
	states("")
	get(b.Accept(ctx, taken))(b)
	b.must(b.CancelJob(ctx, taken.Job.ID))

	get(b.Accept(ctx, nicOf(seedbed.JobNICAdd, i.ID, n)))(b)
	_, err = b.Accept(ctx, nicOf(seedbed.JobNICRemove, i.ID, i.NICs[0]))
	b.want(err, seedbed.ErrInUse)
	ref := b.claimRef()
	b.must(b.Step(ctx, ref, seedbed.Step{Next: "publish-nic", Total: 1}))
	for range 2 {
		b.must(b.SetNIC(ctx, ref, seedbed.NICAttaching))
	}
	states("", seedbed.NICAttaching)
	b.want(b.MoveNIC(ctx, ref, "default"), seedbed.ErrConflict)
	b.must(b.SetNIC(ctx, ref, seedbed.NICAttached))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded}))
	now := states("", "")
	if now.Revision <= i.Revision {
		b.Errorf("the instance has revision %d, and had %d", now.Revision, i.Revision)
	}

	// A job that was kept works on no other NIC, not even one with the same index and MAC address.
	old := nicOf(seedbed.JobNICRemove, i.ID, n)
	old.NIC.Index = 1
	get(b.Accept(ctx, old))(b)
	kept := b.claimRef()
	b.must(b.Finish(ctx, kept, seedbed.JobResult{State: seedbed.JobFailed, Error: "kept"}))
	old.Job.ID = seedbed.NewJobID()
	get(b.Accept(ctx, old))(b)
	ref = b.claimRef()
	b.must(b.DropNIC(ctx, ref))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded}))
	get(b.Accept(ctx, nicOf(seedbed.JobNICAdd, i.ID, n)))(b)
	ref = b.claimRef()
	b.must(b.SetNIC(ctx, ref, seedbed.NICAttached))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded}))
	_, err = b.ResumeJob(ctx, kept.ID)
	b.want(err, seedbed.ErrConflict, "no longer has")

	remove := nicOf(seedbed.JobNICRemove, i.ID, seedbed.NIC{Index: 0, MAC: i.NICs[0].MAC})
	get(b.Accept(ctx, remove))(b)
	ref = b.claimRef()
	b.must(b.Step(ctx, ref, seedbed.Step{Next: "drop-nic", Total: 1}))
	for range 2 {
		b.must(b.DropNIC(ctx, ref))
	}
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal(states("").NICs[0].Index, 1)
	_, err = b.Accept(ctx, nicOf(seedbed.JobNICRemove, i.ID, seedbed.NIC{Index: 1, MAC: n.MAC}))
	b.want(err, seedbed.ErrConflict, "is the only one")
	_, err = b.Accept(ctx, remove)
	b.want(err, seedbed.ErrNotFound)
}

// A NIC keeps an address in both networks until its job has ended.
func testMovedNIC(b *bench) {
	ctx := context.Background()
	b.world()
	b.lan()
	i := b.instance("web1")
	own := i.NICs[0]
	to := own
	to.Network, to.Addr = "lan", netip.MustParseAddr("10.88.0.9")
	now := func() seedbed.NIC { return get(b.Instance(ctx, i.ID))(b).NICs[0] }
	claims := func() (all []string) {
		for _, name := range []string{"default", "lan"} {
			for _, l := range get(b.NetworkLeases(ctx, seedbed.AllProjects(), name))(b) {
				all = append(all, l.Addr.String())
			}
		}
		return all
	}
	both := []string{own.Addr.String(), "10.88.0.9"}
	for _, end := range []seedbed.JobState{seedbed.JobRolledBack, seedbed.JobSucceeded} {
		get(b.Accept(ctx, nicOf(seedbed.JobNICSet, i.ID, to)))(b)
		b.equal(claims(), both)
		b.equal(len(now().Secondary), 0)
		_, err := b.ChangeInstance(ctx, seedbed.InDefault("web1"), func(i *seedbed.Instance) error { return nil }, keepRecord)
		b.must(err)
		b.want(b.DeleteNetwork(ctx, "lan"), seedbed.ErrInUse, "web1")
		ref := b.claimRef()
		b.must(b.Step(ctx, ref, seedbed.Step{Next: "switch-nic", Total: 1}))
		for range 2 {
			b.must(b.MoveNIC(ctx, ref, "lan"))
		}
		b.equal([]any{now().Network, now().Addr.String(), now().MAC, claims()}, []any{"lan", "10.88.0.9", own.MAC, both})
		if end == seedbed.JobRolledBack {
			b.must(b.Undo(ctx, ref, "no place"))
			b.must(b.MoveNIC(ctx, ref, "default"))
			b.must(b.Finish(ctx, ref, seedbed.JobResult{State: end, Error: "no place"}))
			b.equal([]any{now().Network, now().Addr, claims()}, []any{"default", own.Addr, both[:1]})
			continue
		}
		b.must(b.Finish(ctx, ref, seedbed.JobResult{State: end}))
		b.equal([]any{now().Network, claims()}, []any{"lan", both[1:]})
	}
	// What is left of a job whose undo was incomplete keeps no address, once the NIC is back.
	back := nicOf(seedbed.JobNICSet, i.ID, own)
	get(b.Accept(ctx, back))(b)
	ref := b.claimRef()
	b.must(b.Step(ctx, ref, seedbed.Step{Next: "hide-nic", Total: 1}))
	b.equal(claims(), both)
	b.must(b.Undo(ctx, ref, "no domain"))
	b.must(b.Undone(ctx, ref, "hide-nic", "no domain"))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobIncomplete, Error: "no domain"}))
	b.equal(claims(), both[1:])
	back = nicOf(seedbed.JobNICSet, i.ID, own)
	b.must(func() error {
		_, err := b.ChangeInstance(ctx, seedbed.InDefault("web1"), func(i *seedbed.Instance) error { return assign("")(i) }, keepRecord)
		return err
	}())
	_, err := b.Accept(ctx, back)
	b.want(err, seedbed.ErrInUse, "the secondary address", "seedbed address unassign")
	same := now()
	_, err = b.Accept(ctx, nicOf(seedbed.JobNICSet, i.ID, same))
	b.want(err, seedbed.ErrConflict, "already")
}

// The addresses of a further NIC count for the quota of the project.
func testNICQuota(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{Addresses: 2})
	i := b.madeIn("acme", "web1")
	get(b.Accept(ctx, nicOf(seedbed.JobNICAdd, i.ID, seedbed.NIC{MAC: newMAC(), Network: "default"})))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	_, err := b.Accept(ctx, nicOf(seedbed.JobNICAdd, i.ID, seedbed.NIC{MAC: newMAC(), Network: "default"}))
	b.want(err, seedbed.ErrForbidden, "of addresses: it has 2, this wants 1 more")
}

// The address that is kept for a NIC in another network until its job has ended is not a further one.
func testMovedNICQuota(b *bench) {
	ctx := context.Background()
	b.world()
	b.lan()
	b.bounded(seedbed.ProjectQuota{Addresses: 2})
	i := b.madeIn("acme", "web1")
	to := i.NICs[0]
	to.Network, to.Addr = "lan", netip.Addr{}
	get(b.Accept(ctx, nicOf(seedbed.JobNICSet, i.ID, to)))(b)
	ref := b.claimRef()
	b.must(b.Step(ctx, ref, seedbed.Step{Next: "switch-nic", Total: 1}))
	for _, network := range []string{"default", "lan"} {
		if network == "lan" {
			b.must(b.MoveNIC(ctx, ref, network))
		}
		b.equal(get(b.ProjectUse(ctx, "acme"))(b).Addresses, int64(1))
	}
	b.madeIn("acme", "web2")
	_, err := b.Accept(ctx, inProject("acme", "web3"))
	b.want(err, seedbed.ErrForbidden, "of addresses: it has 2, this wants 1 more")
}

// An instance has at most MaxNICs NICs, with the indexes below that.
func testMostNICs(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	add := func() error {
		_, err := b.Accept(ctx, nicOf(seedbed.JobNICAdd, i.ID, seedbed.NIC{MAC: newMAC(), Network: "default"}))
		return err
	}
	for range seedbed.MaxNICs - 1 {
		b.must(add())
		b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	}
	b.equal(get(b.Instance(ctx, i.ID))(b).NICs[seedbed.MaxNICs-1].Index, seedbed.MaxNICs-1)
	b.want(add(), seedbed.ErrConflict, "has 16 NICs, which is the most that an instance may have: remove one first")
}

// moving is the job that takes the NIC of an instance to the network "lan", about to do so.
func (b *bench) moving(i seedbed.Instance) seedbed.JobRef {
	b.Helper()
	to := i.NICs[0]
	to.Network, to.Addr = "lan", netip.Addr{}
	get(b.Accept(context.Background(), nicOf(seedbed.JobNICSet, i.ID, to)))(b)
	ref := b.claimRef()
	b.must(b.Step(context.Background(), ref, seedbed.Step{Next: "switch-nic", Total: 1}))
	return ref
}

// lanOf makes the network "lan".
func (b *bench) lanOf(kind seedbed.NetworkKind, prefix, prefix6 string) {
	b.Helper()
	n := seedbed.Network{Name: "lan", Kind: kind, Bridge: "lan0", MAC: newMAC(), DHCP: kind.Served()}
	if !kind.Served() {
		n.Uplink, n.Mode = "eth7", seedbed.DirectBridge
	}
	if prefix != "" {
		n.Prefix = netip.MustParsePrefix(prefix)
		n.Gateway = n.Prefix.Addr().Next()
	} else {
		n.Prefix6 = netip.MustParsePrefix(prefix6)
	}
	get(b.CreateNetwork(context.Background(), n))(b)
}

// Both networks of a job that takes a NIC from one to the other stay until the job has ended. One that was removed and made again while the
// job was kept is another network.
func testNICToOther(b *bench) {
	ctx := context.Background()
	b.world()
	b.lanOf(seedbed.NetworkNAT, "", "fd12:3456:789a:7::/64")
	i := b.instance("web1")
	ref := b.moving(i)
	b.want(b.DeleteNetwork(ctx, "lan"), seedbed.ErrInUse, "web1")
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobFailed, Error: "kept"}))
	b.must(b.DeleteNetwork(ctx, "lan"))
	b.lan()
	get(b.ResumeJob(ctx, ref.ID))(b)
	ref = b.claimRef()
	b.want(b.MoveNIC(ctx, ref, "lan"), seedbed.ErrConflict, "removed, and made again")
	now := get(b.Instance(ctx, i.ID))(b).NICs[0]
	b.equal([]any{now.Network, now.Addr}, []any{"default", i.NICs[0].Addr})
}

// A NIC goes with the security groups and rates that it has then, and comes back with these.
func testMovedGroups(b *bench) {
	ctx := context.Background()
	b.world()
	b.lanOf(seedbed.NetworkDirect, "10.88.0.0/24", "")
	for _, name := range []string{"first", "second"} {
		get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: name}))(b)
	}
	change := func(change func(*seedbed.NIC)) {
		b.Helper()
		get(b.ChangeInstance(ctx, seedbed.InDefault("web1"), func(i *seedbed.Instance) error { change(&i.NICs[0]); return nil }, keepRecord))(b)
	}
	j, i := b.runningIn("web1", "default", "default")
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	b.runningIn("web2", "lan")
	taken := i.NICs[0]
	taken.Network, taken.Addr = "lan", netip.MustParseAddr("10.88.0.2")
	_, err := b.Accept(ctx, nicOf(seedbed.JobNICSet, i.ID, taken))
	b.want(err, seedbed.ErrExists, "10.88.0.2")
	change(func(n *seedbed.NIC) { n.Groups = []string{"first"} })
	ref := b.moving(i)
	change(func(n *seedbed.NIC) { n.BandwidthIn = 1e6 })
	b.want(b.MoveNIC(ctx, ref, "lan"), seedbed.ErrInvalid, "has rates")
	change(func(n *seedbed.NIC) { n.BandwidthIn, n.Groups = 0, []string{"second"} })
	b.must(b.MoveNIC(ctx, ref, "lan"))
	groups := func() []string { return get(b.Instance(ctx, i.ID))(b).NICs[0].Groups }
	b.equal(len(groups()), 0)
	b.must(b.DeleteSecurityGroup(ctx, "first"))
	b.want(b.DeleteSecurityGroup(ctx, "second"), seedbed.ErrInUse, "web1")
	b.must(b.Undo(ctx, ref, "no place"))
	b.must(b.MoveNIC(ctx, ref, "default"))
	b.equal(groups(), []string{"second"})
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no place"}))
}
