package storetest

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"seedbed"
)

const prefix6 = "fd12:3456:789a:1::"

// IPv6 addresses of the network are secondary ones as IPv4 ones are. No NIC has one that is another's first, now or later.
func testSecondary6(b *bench) {
	ctx := context.Background()
	b.world()
	_, err := b.Accept(ctx, func() seedbed.Acceptance { a := createOf("web0"); b.must(assign("::")(a.Instance)); return a }())
	b.want(err, seedbed.ErrInvalid, `NIC 0 is in network "default", which has no IPv6 prefix`)
	set6 := func(prefix string) error {
		_, err := b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error {
			n.Prefix6 = netip.MustParsePrefix(prefix)
			return nil
		})
		return err
	}
	b.must(set6(prefix6 + "/64"))
	n := get(b.Network(ctx, "default"))(b)
	web1, web2 := seedbed.InDefault("web1"), seedbed.InDefault("web2")
	a, other := createOf("web1"), createOf("web2")
	mac, first2 := a.Instance.NICs[0].MAC, n.Addr6(other.Instance.NICs[0].MAC).String()
	free := func(i int) string { return n.FreeAddr6(mac, i).String() }
	b.must(assign("::", prefix6+"7", "10.99.0.9", "::")(a.Instance))
	get(b.Accept(ctx, a))(b)
	get(b.Accept(ctx, other))(b)
	sorted := func(texts ...string) []netip.Addr {
		return slices.SortedFunc(slices.Values(addrs(texts...)), netip.Addr.Compare)
	}
	b.equal(get(b.InstanceByName(ctx, web1))(b).NICs[0].Secondary, sorted("10.99.0.9", prefix6+"7", free(1), free(2)))
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Addresses, int64(6))

	get(b.ChangeInstance(ctx, web2, assign(free(3)), keepRecord))(b) // which is then not free
	i := get(b.ChangeInstance(ctx, web1, assign(prefix6+"7", free(2), "::", "::", ""), keepRecord))(b)
	b.equal(i.NICs[0].Secondary, sorted("10.99.0.4", prefix6+"7", free(2), free(1), free(4)))

	for says, want := range map[string]string{
		"belongs to NIC 0 of instance web1":                        prefix6 + "7",
		"belongs to NIC 0 of instance web2":                        first2,
		"first one of the NIC with the MAC address 02:00:00:00:00": prefix6[:len(prefix6)-1] + "0:ff:fe00:99",
		"it is the node's":                                         prefix6 + "1",
		"it is that of all routers":                                prefix6,
		"reserved for groups of hosts":                             prefix6[:len(prefix6)-1] + "fdff:ffff:ffff:ff80",
		"expected one of " + prefix6:                               "fd12:3456:789a:2::7",
		"cannot be a guest's in network":                           "::ffff:10.99.0.50",
	} {
		_, err := b.ChangeInstance(ctx, web2, assign(want), keepRecord)
		if err == nil || !strings.Contains(err.Error(), says) {
			b.Errorf("%s: %v; want %s", want, err, says)
		}
		asks := createOf("web3")
		b.must(assign(want)(asks.Instance))
		if _, err := b.Accept(ctx, asks); err == nil || !strings.Contains(err.Error(), says) {
			b.Errorf("%s of a new instance: %v; want %s", want, err, says)
		}
	}
	_, err = b.FreeAddr(ctx, "default", seedbed.MAC{2}, netip.MustParseAddr(prefix6+"7"))
	b.want(err, seedbed.ErrExists, "address "+prefix6+"7 is taken")
	b.equal(get(b.FreeAddr(ctx, "default", seedbed.MAC{2}, netip.MustParseAddr(prefix6+"8")))(b), netip.MustParseAddr(prefix6+"8"))

	var listed []string
	for _, l := range get(b.NetworkLeases(ctx, seedbed.InProject(seedbed.DefaultProject), "default"))(b) {
		if l.Secondary && l.Addr6.IsValid() && !l.Addr.IsValid() {
			listed = append(listed, l.Addr6.String()+" "+l.Instance)
		}
	}
	slices.Sort(listed)
	want := []string{prefix6 + "7 web1", free(1) + " web1", free(2) + " web1", free(3) + " web2", free(4) + " web1"}
	slices.Sort(want)
	b.equal(listed, want)

	// The network keeps the prefix as long as there are any.
	b.want(set6("fd12:3456:789a:2::/64"), seedbed.ErrInUse, "unassign those of instances web1, web2 first")
	get(b.ChangeInstance(ctx, web1, assign("10.99.0.9"), keepRecord))(b)
	b.want(set6("fd12:3456:789a:2::/64"), seedbed.ErrInUse, "unassign those of instance web2 first")
	get(b.ChangeInstance(ctx, web2, func(i *seedbed.Instance) error { // it takes one that nobody has, and keeps none other
		i.NICs[0].Secondary, i.NICs[0].Takes = addrs(prefix6+"7"), addrs(prefix6+"7")
		return nil
	}, keepRecord))(b)
	get(b.ChangeInstance(ctx, web1, func(i *seedbed.Instance) error {
		i.NICs[0].Secondary, i.NICs[0].Takes = addrs(prefix6+"7"), addrs(prefix6+"7")
		return nil
	}, keepRecord))(b)
	b.equal(get(b.InstanceByName(ctx, web2))(b).NICs[0].Secondary, []netip.Addr(nil))
	get(b.ChangeInstance(ctx, web1, assign(), keepRecord))(b)
	b.must(set6("fd12:3456:789a:2::/64"))
}

// Of many that ask for one IPv6 address, or for one that is free, each address goes to one.
func testSecondary6Race(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error {
		n.Prefix6 = netip.MustParsePrefix(prefix6 + "/64")
		return nil
	}))(b)
	n := get(b.Network(ctx, "default"))(b)
	old := createOf("old")
	get(b.Accept(ctx, old))(b)
	wanted := n.FreeAddr6(old.Instance.NICs[0].MAC, 1)
	var wg sync.WaitGroup
	var got atomic.Int64
	count := func(err error) {
		switch {
		case err == nil:
			got.Add(1)
		case !errors.Is(err, seedbed.ErrInUse):
			b.Error(err)
		}
	}
	wg.Go(func() { // it has that one, or the next
		if _, err := b.ChangeInstance(ctx, seedbed.InDefault("old"), assign("::"), keepRecord); err != nil {
			b.Error(err)
		}
	})
	const several = 8
	for i := range several {
		wg.Go(func() {
			a := createOf("web" + string(rune('a'+i)))
			b.must(assign("::", wanted.String())(a.Instance))
			_, err := b.Accept(ctx, a)
			count(err)
		})
	}
	wg.Wait()
	all := map[netip.Addr]int{}
	for _, l := range get(b.NetworkLeases(ctx, seedbed.AllProjects(), "default"))(b) {
		if all[l.Addr6]++; all[l.Addr6] > 1 {
			b.Errorf("%s is given %d times", l.Addr6, all[l.Addr6])
		}
	}
	if all[wanted] != 1 || got.Load() > 1 {
		b.Errorf("%d have %s, and %d new instances were made with it", all[wanted], wanted, got.Load())
	}
}

// A reserved IPv6 address is the first one of the NIC with its MAC address, and stays so as long as the NIC is there. It is no
// other's, first or secondary.
func testReservations6(b *bench) {
	ctx := context.Background()
	b.world()
	own, other := newMAC(), newMAC()
	change := func(f func(n *seedbed.Network) error) error {
		_, err := b.ChangeNetwork(ctx, "default", f)
		return err
	}
	reserve := func(mac seedbed.MAC, text string, remove ...seedbed.MAC) error {
		return change(func(n *seedbed.Network) error {
			return n.Reserve([]seedbed.Reservation{{MAC: mac, Addr: netip.MustParseAddr(text), Description: text}}, remove)
		})
	}
	unreserve := func(mac seedbed.MAC) error {
		return change(func(n *seedbed.Network) error { return n.Reserve(nil, []seedbed.MAC{mac}) })
	}
	b.want(reserve(own, prefix6+"50"), seedbed.ErrInvalid, "one of a network with an IPv6 prefix")
	b.must(change(func(n *seedbed.Network) error { n.Prefix6 = netip.MustParsePrefix(prefix6 + "/64"); return nil }))
	create := func(name string, mac seedbed.MAC, secondary ...string) error {
		a := createOf(name)
		a.Instance.NICs = []seedbed.NIC{{MAC: mac, Network: "default"}}
		if len(secondary) > 0 {
			b.must(assign(secondary...)(a.Instance))
		}
		_, err := b.Accept(ctx, a)
		return err
	}
	b.must(create("first", other, prefix6+"51"))
	b.want(reserve(own, prefix6+"51"), seedbed.ErrInUse, "belongs to the NIC "+other.String())
	b.want(reserve(other, prefix6+"52"), seedbed.ErrInUse, "of instance first", "keeps its IPv6 address")
	b.must(reserve(own, "10.99.0.50"))
	b.must(reserve(own, prefix6+"50"))
	n := get(b.Network(ctx, "default"))(b)
	b.equal(n.Addr6(own).String(), prefix6+"50")
	b.want(create("second", newMAC(), prefix6+"50"), seedbed.ErrInvalid, "the first one of the NIC with the MAC address "+own.String())
	b.must(create("second", own))
	var leases []string
	for _, l := range get(b.NetworkLeases(ctx, seedbed.AllProjects(), "default"))(b) {
		if l.MAC == own {
			leases = append(leases, l.Addr.String()+" "+l.Addr6.String()+" "+l.Instance)
		}
	}
	b.equal(leases, []string{"10.99.0.50 " + prefix6 + "50 second"})
	_, err := b.ChangeInstance(ctx, seedbed.InDefault("first"), assign(prefix6+"50"), keepRecord)
	b.want(err, seedbed.ErrInUse, "belongs to NIC 0 of instance second")
	b.want(unreserve(own), seedbed.ErrInUse, "of instance second")
	b.want(reserve(own, prefix6+"59", own), seedbed.ErrInUse, "of instance second")
	b.must(change(func(n *seedbed.Network) error { // only its text
		return n.Reserve([]seedbed.Reservation{{MAC: own, Addr: netip.MustParseAddr(prefix6 + "50"), Description: "web"}}, []seedbed.MAC{own})
	}))
	b.want(change(func(n *seedbed.Network) error { n.Prefix6 = netip.Prefix{}; return nil }), seedbed.ErrInvalid, prefix6+"50")
	b.want(change(func(n *seedbed.Network) error { n.SLAAC = true; return nil }), seedbed.ErrInvalid, "slaac")

	free, third := n.FreeAddr6(own, 1), newMAC()
	b.must(reserve(third, free.String())) // which the first free address of another NIC would be
	_, err = b.ChangeInstance(ctx, seedbed.InDefault("second"), assign("::"), keepRecord)
	b.must(err)
	b.equal(get(b.InstanceByName(ctx, seedbed.InDefault("second")))(b).NICs[0].Secondary, []netip.Addr{n.FreeAddr6(own, 2)})
	b.must(unreserve(third))
}

// A bridged network with an IPv6 prefix alone gives its NICs addresses of it. It keeps a prefix, and one without any gets none.
func testBridged6(b *bench) {
	ctx := context.Background()
	b.world()
	lan := seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Bridge: "lan0", MAC: newMAC(), Uplink: "br0"}
	get(b.CreateNetwork(ctx, lan))(b)
	six := lan
	six.Name, six.Bridge, six.MAC, six.VLAN, six.DHCP = "six", "six0", newMAC(), 13, true
	six.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:5::/64")
	get(b.CreateNetwork(ctx, six))(b)
	change := func(name string, p netip.Prefix) error {
		_, err := b.ChangeNetwork(ctx, name, func(n *seedbed.Network) error { n.Prefix6 = p; return nil })
		return err
	}
	b.want(change("lan", six.Prefix6), seedbed.ErrInvalid, `"lan" cannot get a prefix`)
	a := createOf("one")
	a.Instance.NICs = []seedbed.NIC{{MAC: newMAC(), Network: "six"}}
	get(b.Accept(ctx, a))(b)
	mac := get(b.Instance(ctx, a.Instance.ID))(b).NICs[0].MAC
	want := []seedbed.NetworkLease{{MAC: mac, Addr6: six.Addr6(mac), Instance: "one"}}
	b.equal(get(b.NetworkLeases(ctx, seedbed.AllProjects(), "six"))(b), want)
	b.must(change("six", netip.MustParsePrefix("fd12:3456:789a:6::/64")))
	b.want(change("six", netip.Prefix{}), seedbed.ErrInvalid, `"six" cannot lose its only prefix`)
}
