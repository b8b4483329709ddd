package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"seedbed"
)

// assign returns a change that gives the first NIC of an instance secondary addresses in place of those that it has; "" is a free one.
func assign(addrs ...string) func(*seedbed.Instance) error {
	return func(i *seedbed.Instance) error {
		i.NICs[0].Secondary = nil
		for _, text := range addrs {
			var a netip.Addr
			if text != "" {
				a = netip.MustParseAddr(text)
			}
			i.NICs[0].Secondary = append(i.NICs[0].Secondary, a)
		}
		return nil
	}
}

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func keepRecord(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g }

// Secondary addresses belong to one NIC, are no other's first address, and are free again with the NIC.
func testSecondary(b *bench) {
	ctx := context.Background()
	b.world()
	b.project("acme")
	get(b.Accept(ctx, createOf("web1")))(b)          // 10.99.0.2
	get(b.Accept(ctx, inProject("acme", "web2")))(b) // 10.99.0.3
	web1, web2 := seedbed.InDefault("web1"), seedbed.Named("acme", "web2")
	i := get(b.ChangeInstance(ctx, web1, assign("10.99.0.9", "", "10.99.0.4", ""), keepRecord))(b)
	b.equal(i.NICs[0].Secondary, addrs("10.99.0.4", "10.99.0.5", "10.99.0.6", "10.99.0.9"))
	b.equal(get(b.InstanceByName(ctx, web1))(b).NICs, i.NICs)
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Addresses, int64(5))
	b.equal(get(b.ProjectUse(ctx, "acme"))(b).Addresses, int64(1))
	for _, tt := range []struct {
		addrs []string
		kind  error
		says  string
	}{
		{[]string{"10.99.0.5"}, seedbed.ErrInUse, `address 10.99.0.5 is taken in network "default"`},
		{[]string{"10.99.0.2"}, seedbed.ErrInUse, `address 10.99.0.2 is taken in network "default"`},
		{[]string{"10.99.0.3"}, seedbed.ErrInUse, "belongs to NIC 0 of instance web2.acme"},
		{[]string{"10.99.0.40", "10.99.0.40"}, seedbed.ErrInUse, "belongs to NIC 0 of instance web2.acme"},
		{[]string{"10.99.0.1"}, seedbed.ErrInvalid, "10.99.0.1"},
		{[]string{"10.98.0.9"}, seedbed.ErrInvalid, "10.98.0.9"},
		{make([]string, seedbed.MaxSecondary+1), seedbed.ErrInvalid, "expected at most 32"},
	} {
		_, err := b.ChangeInstance(ctx, web2, assign(tt.addrs...), keepRecord)
		b.want(err, tt.kind, tt.says)
		b.equal(get(b.InstanceByName(ctx, web2))(b).NICs[0].Secondary, []netip.Addr(nil))
	}

	// New NICs get others.
	get(b.Accept(ctx, createOf("web3")))(b)
	b.equal(get(b.InstanceByName(ctx, seedbed.InDefault("web3")))(b).NICs[0].Addr, netip.MustParseAddr("10.99.0.7"))
	asks := createOf("web4")
	asks.Instance.NICs[0].Addr = netip.MustParseAddr("10.99.0.9")
	_, err := b.Accept(ctx, asks)
	b.want(err, seedbed.ErrExists, "it is a secondary address of another NIC")
	_, err = b.FreeAddr(ctx, "default", seedbed.MAC{2}, netip.MustParseAddr("10.99.0.9"))
	b.want(err, seedbed.ErrExists, "address 10.99.0.9 is taken")
	b.equal(get(b.FreeAddr(ctx, "default", seedbed.MAC{2}, netip.Addr{}))(b), netip.MustParseAddr("10.99.0.8"))
	_, err = b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error {
		return n.Reserve([]seedbed.Reservation{{MAC: seedbed.MAC{2}, Addr: netip.MustParseAddr("10.99.0.9")}}, nil)
	})
	b.want(err, seedbed.ErrInUse, "address 10.99.0.9")

	// What a NIC would get is said before, and nothing is written.
	had := get(b.InstanceByName(ctx, web1))(b)
	would := get(b.FreeSecondary(ctx, had, had.NICs[0], append(addrs("10.99.0.10", "10.99.0.8"), seedbed.FreeAddrs(2, 0)...)))(b)
	b.equal(would, addrs("10.99.0.10", "10.99.0.8", "10.99.0.11", "10.99.0.12"))
	_, err = b.FreeSecondary(ctx, had, had.NICs[0], addrs("10.99.0.3"))
	b.want(err, seedbed.ErrInUse, `address 10.99.0.3 is taken in network "default"`)
	_, err = b.FreeSecondary(ctx, had, had.NICs[0], addrs("10.98.0.9"))
	b.want(err, seedbed.ErrInvalid, "10.98.0.9")
	_, err = b.FreeSecondary(ctx, had, had.NICs[0], make([]netip.Addr, 300))
	b.want(err, seedbed.ErrFull, "has 246 free addresses, and NIC 0 asks for 300")
	b.equal(get(b.InstanceByName(ctx, web1))(b), had)

	// The network lists them.
	var listed []string
	for _, l := range get(b.NetworkLeases(ctx, seedbed.InProject(seedbed.DefaultProject), "default"))(b) {
		if l.Secondary {
			listed = append(listed, l.Addr.String()+" "+l.Instance)
		}
	}
	b.equal(listed, []string{"10.99.0.4 web1", "10.99.0.5 web1", "10.99.0.6 web1", "10.99.0.9 web1"})

	// They count among the addresses of the network, and of no other.
	b.network("acme/lab", "seedbed7", "10.98.0.0/28")
	counted := get(b.Networks(ctx))(b)
	b.must(b.CountAddresses(ctx, []*seedbed.Network{&counted[0], &counted[1]}))
	b.equal(*counted[0].Addresses, seedbed.AddressCount{Used: 0, Free: 13})
	b.equal(*counted[1].Addresses, seedbed.AddressCount{Used: 7, Free: 246})

	// A quota bounds them with the others.
	get(b.ChangeProject(ctx, "acme", func(p *seedbed.Project) error { p.Quota.Addresses = 2; return nil }))(b)
	_, err = b.ChangeInstance(ctx, web2, assign("", ""), keepRecord)
	b.want(err, seedbed.ErrForbidden, "addresses: it has 1, this wants 2 more, and 2 is the most")
	get(b.ChangeInstance(ctx, web2, assign(""), keepRecord))(b)

	// What is taken back is free.
	get(b.ChangeInstance(ctx, web1, assign("10.99.0.9"), keepRecord))(b)
	i = get(b.ChangeInstance(ctx, web2, assign("10.99.0.4"), keepRecord))(b)
	b.equal(i.NICs[0].Secondary, addrs("10.99.0.4"))
}

// The rates of a NIC are its own, and kept.
func testBandwidth(b *bench) {
	ctx := context.Background()
	b.world()
	a := createOf("web1")
	a.Instance.NICs[0].BandwidthOut = 20_000_000
	get(b.Accept(ctx, a))(b)
	web1 := seedbed.InDefault("web1")
	rates := func() [2]seedbed.BitRate {
		nic := get(b.InstanceByName(ctx, web1))(b).NICs[0]
		return [2]seedbed.BitRate{nic.BandwidthIn, nic.BandwidthOut}
	}
	b.equal(rates(), [2]seedbed.BitRate{0, 20_000_000})
	set := func(in, out seedbed.BitRate) func(*seedbed.Instance) error {
		return func(i *seedbed.Instance) error { i.NICs[0].BandwidthIn, i.NICs[0].BandwidthOut = in, out; return nil }
	}
	get(b.ChangeInstance(ctx, web1, set(1_000_000_000, 0), keepRecord))(b)
	b.equal(rates(), [2]seedbed.BitRate{1_000_000_000, 0})
	_, err := b.ChangeInstance(ctx, web1, set(1, 0), keepRecord)
	b.want(err, seedbed.ErrInvalid, "bandwidth 1bit: expected 1Mbit to 32Gbit")
	b.equal(rates(), [2]seedbed.BitRate{1_000_000_000, 0})
}

// Of many that ask for one address, one gets it, whether as its first or as a secondary one.
func testSecondaryRace(b *bench) {
	ctx := context.Background()
	b.world()
	// A quota, whose rows are locked as well.
	get(b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error { p.Quota.Addresses = 100; return nil }))(b)
	const n = 8
	for i := range n {
		get(b.Accept(ctx, createOf("web"+string(rune('a'+i)))))(b)
	}
	var wg sync.WaitGroup
	errs := make([]error, 2*n)
	for i := range n {
		wg.Go(func() {
			_, errs[i] = b.ChangeInstance(ctx, seedbed.InDefault("web"+string(rune('a'+i))), assign("10.99.0.99"), keepRecord)
		})
		wg.Go(func() {
			a := createOf("new" + string(rune('a'+i)))
			a.Instance.NICs[0].Addr = netip.MustParseAddr("10.99.0.99")
			_, errs[n+i] = b.Accept(ctx, a)
		})
	}
	wg.Wait()
	got := 0
	for _, err := range errs {
		switch {
		case err == nil:
			got++
		case !errors.Is(err, seedbed.ErrInUse) && !errors.Is(err, seedbed.ErrExists):
			b.Errorf("%v, want that the address is taken", err)
		}
	}
	if got != 1 {
		b.Errorf("%d NICs got one address", got)
	}
}

// A new instance has the secondary addresses that it asks for with its first ones, or nothing.
func testSecondaryAtCreation(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error { p.Quota.Addresses = 6; return nil }))(b)
	asking := func(name string, texts ...string) seedbed.Acceptance {
		a := createOf(name)
		b.must(assign(texts...)(a.Instance))
		return a
	}
	a := asking("web1", "10.99.0.2", "", "10.99.0.9")
	get(b.Accept(ctx, a))(b)
	i := get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b)
	b.equal(i.NICs[0].Addr, netip.MustParseAddr("10.99.0.3"))
	b.equal(i.NICs[0].Secondary, addrs("10.99.0.2", "10.99.0.4", "10.99.0.9"))
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Addresses, int64(4))
	for says, texts := range map[string][]string{
		"belongs to NIC 0 of instance web1":        {"10.99.0.9"},
		"address 10.99.0.3 of network \"default\"": {"10.99.0.3"},
		"10.98.0.1": {"10.98.0.1"},
		"it has 4, this wants 3 more, and 6 is the": {"10.99.0.40", ""},
	} {
		_, err := b.Accept(ctx, asking("web2", texts...))
		if err == nil || !strings.Contains(err.Error(), says) {
			b.Errorf("%v: %v; want %s", texts, err, says)
		}
	}
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Addresses, int64(4))
	first := createOf("web3")
	first.Instance.NICs[0].Addr = netip.MustParseAddr("10.99.0.4")
	_, err := b.Accept(ctx, first)
	b.want(err, seedbed.ErrExists, "it is a secondary address of another NIC")
	b.must(b.CancelJob(ctx, a.Job.ID))
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Addresses, int64(0))
	get(b.Accept(ctx, asking("web4", "10.99.0.9")))(b)
}

// Of many requests for one address that share a transaction, one gets it, as its first or as a secondary one.
func testSecondaryAtCreationRace(b *bench) {
	ctx := context.Background()
	b.world()
	const n = 12
	var wg sync.WaitGroup
	var got atomic.Int64
	for i := range n {
		wg.Go(func() {
			a := createOf("web" + string(rune('a'+i)))
			want := netip.MustParseAddr("10.99.0.99")
			if nic := &a.Instance.NICs[0]; i%2 == 0 {
				nic.Addr = want
			} else {
				nic.Secondary = []netip.Addr{{}, want}
			}
			switch _, err := b.Accept(ctx, a); {
			case err == nil:
				got.Add(1)
			case !errors.Is(err, seedbed.ErrExists) && !errors.Is(err, seedbed.ErrInUse):
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.equal(got.Load(), int64(1))
	all := map[netip.Addr]int{}
	for _, l := range get(b.NetworkLeases(ctx, seedbed.AllProjects(), "default"))(b) {
		if all[l.Addr]++; all[l.Addr] > 1 {
			b.Errorf("%s is given %d times", l.Addr, all[l.Addr])
		}
	}
}

// An address is taken from another NIC of the project in one step, in which both records change.
func testSecondaryTaken(b *bench) {
	ctx := context.Background()
	b.world()
	b.project("acme")
	get(b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error { p.Quota.Addresses = 4; return nil }))(b)
	for _, name := range []string{"web1", "web2"} {
		j, i := b.running(name)
		get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{}))(b)
	}
	get(b.Accept(ctx, inProject("acme", "web3")))(b)
	web1, web2, web3 := seedbed.InDefault("web1"), seedbed.InDefault("web2"), seedbed.Named("acme", "web3")
	take := func(texts ...string) func(*seedbed.Instance) error {
		return func(i *seedbed.Instance) error {
			i.NICs[0].Secondary = append(slices.Clone(i.NICs[0].Secondary), addrs(texts...)...)
			i.NICs[0].Takes = addrs(texts...)
			return nil
		}
	}
	render := func(i seedbed.Instance, g seedbed.Guest) seedbed.Guest {
		g.NICs = []seedbed.GuestNIC{{Secondary: i.NICs[0].Secondary}}
		return g
	}
	was := get(b.ChangeInstance(ctx, web1, assign("10.99.0.20", "10.99.0.21"), render))(b)
	before := get(b.FeedPage(ctx, node, 0, ""))(b)
	i := get(b.ChangeInstance(ctx, web2, take("10.99.0.20"), render))(b)
	b.equal(i.NICs[0].Secondary, addrs("10.99.0.20"))
	lost := get(b.InstanceByName(ctx, web1))(b)
	b.equal(lost.NICs[0].Secondary, addrs("10.99.0.21"))
	b.equal(lost.Revision, was.Revision+1)
	page := get(b.FeedPage(ctx, node, before.Revision, before.Generation))(b)
	b.equal(len(page.Changes), 2)
	for i, want := range []string{"10.99.0.21", "10.99.0.20"} { // what is lost comes first
		var g seedbed.Guest
		b.must(json.Unmarshal(page.Changes[i].Record, &g))
		b.equal(g.NICs[0].Secondary, addrs(want))
	}

	get(b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error { p.Quota.Addresses = 5; return nil }))(b)
	_, err := b.ChangeInstance(ctx, web3, take("10.99.0.20"), render)
	b.want(err, seedbed.ErrInUse, `address 10.99.0.20 is taken in network "default"`)
	_, err = b.ChangeInstance(ctx, web2, take("10.99.0.2"), render)
	b.want(err, seedbed.ErrInUse, "belongs to NIC 0 of instance web1")
	_, err = b.ChangeInstance(ctx, web2, take("10.99.0.20"), render) // its own
	b.want(err, seedbed.ErrInUse, "belongs to NIC 0 of instance web2")
	_, err = b.ChangeInstance(ctx, web1, assign("10.99.0.20"), render)
	b.want(err, seedbed.ErrInUse, "belongs to NIC 0 of instance web2")
	_, err = b.ChangeInstance(ctx, web2, take("10.99.0.21", "10.99.0.30", "10.99.0.31"), render)
	b.want(err, seedbed.ErrForbidden, "over its quota of addresses")
	b.equal(get(b.InstanceByName(ctx, web1))(b), lost)

	// Both take from each other for a while, and each address has one holder.
	var wg sync.WaitGroup
	for n, name := range []seedbed.InstanceName{web1, web2} {
		wg.Go(func() {
			for range 10 {
				_, err := b.ChangeInstance(ctx, name, func(i *seedbed.Instance) error {
					for _, a := range addrs("10.99.0.20", "10.99.0.21")[n:] {
						if !slices.Contains(i.NICs[0].Secondary, a) {
							i.NICs[0].Secondary, i.NICs[0].Takes = append(i.NICs[0].Secondary, a), append(i.NICs[0].Takes, a)
						}
					}
					return nil
				}, render)
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Addresses, int64(4))
}
