package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"seedbed"
)

// peered changes the peers of a network.
func (b *bench) peered(name string, add, remove []string) (seedbed.Network, error) {
	return b.ChangeNetwork(context.Background(), name, func(n *seedbed.Network) error { return n.Peer(add, remove) })
}

// Each of two peers has the other, and nodes are told. What would make their addresses ambiguous is refused.
func testNetworkPeers(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.CreateProject(ctx, seedbed.Project{Name: "acme"}))(b)
	isolated := func(name, bridge, prefix string) {
		p := netip.MustParsePrefix(prefix)
		get(b.CreateNetwork(ctx, seedbed.Network{Name: name, Kind: seedbed.NetworkIsolated, Bridge: bridge, MAC: newMAC(), Prefix: p,
			Gateway: p.Addr().Next(), DHCP: true}))(b)
	}
	isolated("lab", "lab0", "10.98.0.0/24")
	isolated("same", "same0", "10.99.0.0/25")
	isolated("like", "like0", "10.98.0.0/24")
	isolated("acme/lan", "acme0", "10.97.0.0/24")
	b.must(b.SetApplied(ctx, node, 0, time.Now()))
	before := get(b.FeedPage(ctx, node, 0, ""))(b).Revision
	n := get(b.peered("lab", []string{"default", "acme/lan"}, nil))(b)
	b.equal(n.Peers, []string{"acme/lan", "default"})
	b.equal(n.PeerPrefixes, []netip.Prefix{netip.MustParsePrefix("10.97.0.0/24"), netip.MustParsePrefix("10.99.0.0/24")})
	b.equal(get(b.Network(ctx, "default"))(b).Peers, []string{"lab"})
	b.equal(get(b.Network(ctx, "acme/lan"))(b).PeerPrefixes, []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")})
	page := get(b.FeedPage(ctx, node, 0, ""))(b)
	if page.Revision <= before {
		b.Errorf("revision %d after a peering, and %d before", page.Revision, before)
	}
	b.equal(page.Networks, func() []seedbed.Network {
		all := get(b.Networks(ctx))(b)
		for i := range all {
			all[i].Published = nil
		}
		return all
	}())
	_, err := b.peered("default", []string{"lab"}, nil)
	b.want(err, seedbed.ErrExists, `network "default" is peered with network "lab" already`)
	_, err = b.peered("default", nil, []string{"acme/lan"})
	b.want(err, seedbed.ErrNotFound, `network "default" is not peered with network "acme/lan"`)
	_, err = b.peered("default", []string{"none"}, nil)
	b.want(err, seedbed.ErrInvalid, `network "none" does not exist`)
	_, err = b.peered("lab", []string{"lab"}, nil)
	b.want(err, seedbed.ErrInvalid, "cannot be a peer of itself")
	_, err = b.peered("default", []string{"same"}, nil)
	b.want(err, seedbed.ErrInvalid, `networks "default" (10.99.0.0/24) and "same" (10.99.0.0/25) have addresses in common`)
	_, err = b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error { // an address of a guest of the peer
		lent := netip.MustParseAddr("10.98.0.7")
		n.Floating, n.FloatingUplink = []seedbed.AddrRange{{First: lent, Last: lent}}, "ext0"
		return nil
	})
	b.want(err, seedbed.ErrConflict, "lab")
	_, err = b.peered("like", []string{"acme/lan"}, nil)
	b.want(err, seedbed.ErrConflict, `prefix 10.98.0.0/24 of network "like" overlaps that of network "lab"`, "isolated without peers")

	six := func(name, prefix string) error {
		_, err := b.ChangeNetwork(ctx, name, func(n *seedbed.Network) error {
			n.Prefix6 = netip.MustParsePrefix(prefix)
			return nil
		})
		return err
	}
	b.must(six("lab", "fd12:3456:789a:1::/64"))
	b.equal(len(get(b.Network(ctx, "default"))(b).PeerPrefixes), 2)
	b.want(six("acme/lan", "fd12:3456:789a:1::/64"), seedbed.ErrConflict, `that of network "lab"`)
	b.want(six("default", "fd12:3456:789a:1::/64"), seedbed.ErrConflict, `that of network "lab"`)
	get(b.CreateNetwork(ctx, seedbed.Network{Name: "wire", Kind: seedbed.NetworkBridged, Bridge: "wire0", MAC: newMAC(), Uplink: "ext0"}))(b)
	_, err = b.peered("lab", []string{"wire"}, nil)
	b.want(err, seedbed.ErrInvalid, `network "wire": a bridged network has no peers`)
	_, err = b.peered("wire", []string{"lab"}, nil)
	b.want(err, seedbed.ErrInvalid, `network "wire": a bridged network has no peers`)

	b.equal(get(b.peered("default", nil, []string{"lab"}))(b).Peers, []string(nil))
	b.equal(get(b.Network(ctx, "lab"))(b).Peers, []string{"acme/lan"})
	b.must(b.DeleteNetwork(ctx, "acme/lan"))
	b.equal(get(b.Network(ctx, "lab"))(b).Peers, []string(nil))
	for i := range seedbed.MaxPeers + 1 {
		name := fmt.Sprintf("spoke%d", i)
		isolated(name, name, fmt.Sprintf("10.50.%d.0/24", i))
		_, err = b.peered(name, []string{"lab"}, nil)
	}
	b.want(err, seedbed.ErrInvalid, `network "lab": it would have 17 peers: expected at most 16`)
	b.equal(len(get(b.Network(ctx, "lab"))(b).Peers), seedbed.MaxPeers)
}

// Two networks are peered once, however many ask for it from either side.
func testPeerRace(b *bench) {
	ctx := context.Background()
	b.world()
	b.network("lab", "lab0", "10.98.0.0/24")
	var asked sync.WaitGroup
	for i := range 8 {
		asked.Go(func() {
			one, other := "lab", "default"
			if i%2 == 0 {
				one, other = other, one
			}
			if _, err := b.peered(one, []string{other}, nil); err != nil && !errors.Is(err, seedbed.ErrExists) {
				b.Error(err)
			}
		})
	}
	asked.Wait()
	b.equal(get(b.Network(ctx, "lab"))(b).Peers, []string{"default"})
	b.equal(get(b.Network(ctx, "default"))(b).Peers, []string{"lab"})
}

// ACLs of a network are kept with it, nodes are told, and the groups that they make are shown and not changed.
func testNetworkACLs(b *bench) {
	ctx := context.Background()
	b.world()
	set := func(acls ...seedbed.NetworkACL) (seedbed.Network, error) {
		return b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error { n.ACLs = acls; return nil })
	}
	ssh := seedbed.NetworkACL{Direction: seedbed.DirectionIn, Description: "ssh", Rule: "tcp dport 22 accept", Accepts: rules(b, "in tcp 22")}
	drop := seedbed.NetworkACL{Direction: seedbed.DirectionIn, Description: "no", Rule: "drop", Drop: true}
	b.must(b.SetApplied(ctx, node, 0, time.Now()))
	before := get(b.FeedPage(ctx, node, 0, ""))(b)
	n := get(set(ssh))(b)
	b.equal(n.ACLs, []seedbed.NetworkACL{ssh})
	b.equal(get(b.Network(ctx, "default"))(b), n)
	b.equal(get(set(ssh))(b), n)
	after := get(b.FeedPage(ctx, node, 0, ""))(b)
	if after.Revision != before.Revision+1 || len(after.Networks[0].ACLs) != 1 {
		b.Fatalf("revision %d after %d, with the ACLs %v", after.Revision, before.Revision, after.Networks[0].ACLs)
	}
	b.equal(len(after.Groups), len(before.Groups))
	b.equal(get(b.SecurityGroup(ctx, "acl:default"))(b).Rules, rules(b, "in tcp 22"))
	_, err := b.SecurityGroup(ctx, "open:default")
	b.want(err, seedbed.ErrNotFound, `security group "open:default" does not exist`)
	_, err = b.SecurityGroup(ctx, "acl:none")
	b.want(err, seedbed.ErrNotFound, `security group "acl:none" does not exist`)
	get(set(ssh, drop))(b)
	var names []string
	for _, g := range get(b.SecurityGroups(ctx))(b) {
		names = append(names, g.Name)
	}
	b.equal(names, []string{"acl:default", "open:default"})
	_, err = b.ChangeSecurityGroup(ctx, "acl:default", func(*seedbed.SecurityGroup) error { return nil })
	b.want(err, seedbed.ErrInvalid, `what the ACLs of network "default" make: change these`)
	b.want(b.DeleteSecurityGroup(ctx, "open:default"), seedbed.ErrInvalid, "pvc network acl")
	_, err = b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "acl:default"})
	b.want(err, seedbed.ErrInvalid, "is not usable")
	_, err = set(ssh, ssh)
	b.want(err, seedbed.ErrExists, `an ACL "ssh" already`)
	get(b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error { n.MTU = 1400; return nil }))(b)
	b.equal(get(b.Network(ctx, "default"))(b).ACLs, []seedbed.NetworkACL{ssh, drop})
	b.equal(len(get(set())(b).ACLs), 0)
}

// NICs of a direct network are in no security group and have no rates, and its mode stays.
func testDirect(b *bench) {
	ctx := context.Background()
	b.world()
	lab := seedbed.Network{Name: "lab", Kind: seedbed.NetworkDirect, Bridge: "lab0", MAC: newMAC(), Uplink: "eth1",
		NetworkOptions: seedbed.NetworkOptions{Mode: seedbed.DirectPrivate}, Identity: seedbed.IdentityTap, DNS: []netip.Addr{},
		Prefix: netip.MustParsePrefix("10.99.0.0/24"), Published: &seedbed.Publication{Projects: []string{}}}
	b.equal(get(b.CreateNetwork(ctx, lab))(b), lab)
	other := lab
	other.Name, other.Bridge = "other", "other0"
	_, err := b.CreateNetwork(ctx, other)
	b.want(err, seedbed.ErrConflict, "the same VLAN of uplink eth1", `"lab"`)
	bridged := seedbed.Network{Name: "bridged", Kind: seedbed.NetworkBridged, Bridge: "bridged0", MAC: newMAC(), Uplink: "eth1"}
	_, err = b.CreateNetwork(ctx, bridged)
	b.want(err, seedbed.ErrConflict, `share uplink eth1 with the direct network "lab"`, "choose another uplink, or a VLAN")
	bridged.VLAN = 12
	get(b.CreateNetwork(ctx, bridged))(b)
	bridged.Name, bridged.Bridge, bridged.MAC, bridged.Uplink, bridged.VLAN = "bridged2", "bridged1", newMAC(), "eth2", 0
	get(b.CreateNetwork(ctx, bridged))(b)
	other.Uplink = "eth2"
	_, err = b.CreateNetwork(ctx, other)
	b.want(err, seedbed.ErrConflict, `share uplink eth2 with the bridged network "bridged2"`)
	other.Mode = seedbed.DirectSRIOV // its guests have functions of their own
	get(b.CreateNetwork(ctx, other))(b)
	_, err = b.ChangeNetwork(ctx, "lab", func(n *seedbed.Network) error { n.Kind = seedbed.NetworkBridged; return nil })
	b.want(err, seedbed.ErrInvalid)
	get(b.ChangeNetwork(ctx, "lab", func(n *seedbed.Network) error {
		n.Description, n.Mode = "wire", seedbed.DirectVEPA
		return nil
	}))(b)
	lab.Description = "wire"
	b.equal(get(b.Network(ctx, "lab"))(b), lab)

	get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "default"}))(b)
	a := createOf("one")
	a.Instance.NICs = []seedbed.NIC{{MAC: newMAC(), Network: "lab"}}
	get(b.Accept(ctx, a))(b)
	nic := get(b.Instance(ctx, a.Instance.ID))(b).NICs[0]
	b.equal(len(nic.Groups), 0)
	b.equal(nic.Addr.IsValid(), true)
	for _, change := range []func(*seedbed.NIC){
		func(n *seedbed.NIC) { n.Groups = []string{"default"} },
		func(n *seedbed.NIC) { n.BandwidthIn = 5_000_000 },
	} {
		_, err := b.ChangeInstance(ctx, seedbed.InDefault("one"), func(i *seedbed.Instance) error { change(&i.NICs[0]); return nil },
			func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g })
		b.want(err, seedbed.ErrInvalid, `the direct network "lab"`)
		two := createOf("two")
		two.Instance.NICs = []seedbed.NIC{{MAC: newMAC(), Network: "lab"}}
		change(&two.Instance.NICs[0])
		_, err = b.Accept(ctx, two)
		b.want(err, seedbed.ErrInvalid, `the direct network "lab"`)
	}
}

// A reserved address is that of the NIC with its MAC address, and of no other.
func testReservations(b *bench) {
	ctx := context.Background()
	b.world()
	own, other := newMAC(), newMAC()
	addr := func(text string) netip.Addr { return netip.MustParseAddr(text) }
	reserve := func(mac seedbed.MAC, text string, remove ...seedbed.MAC) error {
		_, err := b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error {
			return n.Reserve([]seedbed.Reservation{{MAC: mac, Addr: addr(text)}}, remove)
		})
		return err
	}
	create := func(name string, mac seedbed.MAC, want netip.Addr) (string, error) {
		a := createOf(name)
		a.Instance.NICs = []seedbed.NIC{{MAC: mac, Network: "default", Addr: want}}
		if _, err := b.Accept(ctx, a); err != nil {
			return "", err
		}
		return get(b.Instance(ctx, a.Instance.ID))(b).NICs[0].Addr.String(), nil
	}
	b.must(reserve(own, "10.99.0.2"))
	b.equal(get(create("first", newMAC(), netip.Addr{}))(b), "10.99.0.3")
	b.equal(get(b.FreeAddr(ctx, "default", own, netip.Addr{}))(b), addr("10.99.0.2"))
	b.equal(get(b.FreeAddr(ctx, "default", other, netip.Addr{}))(b), addr("10.99.0.4"))
	_, err := create("second", other, addr("10.99.0.2"))
	b.want(err, seedbed.ErrInvalid, "address 10.99.0.2", "is reserved for the MAC address "+own.String())
	b.want(reserve(own, "10.99.0.9"), seedbed.ErrExists, "a reservation for the MAC address "+own.String())
	b.want(reserve(other, "10.99.0.2"), seedbed.ErrExists, "a reservation of the address 10.99.0.2")
	b.want(reserve(other, "10.99.0.3"), seedbed.ErrInUse, "belongs to the NIC")
	b.want(reserve(other, "10.98.0.3"), seedbed.ErrInvalid, "one of 10.99.0.0/24")
	b.want(reserve(seedbed.MAC{1}, "10.99.0.9"), seedbed.ErrInvalid, "not a unicast MAC address")
	b.want(reserve(other, "10.99.0.9", newMAC()), seedbed.ErrNotFound, "no reservation for the MAC address")
	b.equal(get(create("second", own, netip.Addr{}))(b), "10.99.0.2")

	b.must(reserve(other, "10.99.0.200", own)) // the first is gone, and the NIC keeps its address
	b.equal(get(create("third", other, addr("10.99.0.5")))(b), "10.99.0.5")
	b.equal(get(b.InstanceByName(ctx, seedbed.InDefault("second")))(b).NICs[0].Addr, addr("10.99.0.2"))
	b.equal(get(create("fourth", newMAC(), netip.Addr{}))(b), "10.99.0.4")
	b.equal(get(create("fifth", newMAC(), netip.Addr{}))(b), "10.99.0.6")
}

// A network with an IPv6 prefix lends prefixes of IPv6 addresses, of which a NIC has one besides one of IPv4.
func testFloating6(b *bench) {
	ctx := context.Background()
	b.world()
	keep := func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g }
	allocate := func(addr string) (string, error) {
		a := seedbed.FloatingAddress{Network: "default", Project: "default"}
		if addr != "" {
			a.Addr = netip.MustParseAddr(addr)
		}
		made, err := b.AllocateFloating(ctx, a)
		return made.Addr.String(), err
	}
	change := func(name string, set func(n *seedbed.NIC)) error {
		_, err := b.ChangeInstance(ctx, seedbed.InDefault(name), func(i *seedbed.Instance) error {
			set(&i.NICs[0])
			return nil
		}, keep)
		return err
	}
	floats := func(name, addr string) error {
		return change(name, func(n *seedbed.NIC) { a := netip.MustParseAddr(addr); *n.FloatingOf(a) = a })
	}
	b.want(b.lend("2001:db8:1::/64"), seedbed.ErrInvalid, "are of IPv6, which its guests do not have")
	prefix := func(text string) error {
		_, err := b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error {
			if n.Prefix6 = (netip.Prefix{}); text != "" {
				n.Prefix6 = netip.MustParsePrefix(text)
			}
			return nil
		})
		return err
	}
	b.must(prefix("fd12:3456:789a:1::/64"))
	b.must(b.lend("2001:db8:1::/64", "203.0.113.0/31"))
	b.equal(get(allocate(""))(b), "203.0.113.0")
	b.equal(get(allocate("203.0.113.1"))(b), "203.0.113.1")
	b.equal(get(allocate("::"))(b), "2001:db8:1::1") // not that of all routers
	b.equal(get(allocate("::"))(b), "2001:db8:1::2")
	b.equal(get(allocate("2001:db8:1::ffff"))(b), "2001:db8:1::ffff")
	_, err := allocate("2001:db8:2::1")
	b.want(err, seedbed.ErrInvalid, "does not lend the address 2001:db8:2::1: expected one of 2001:db8:1::/64, 203.0.113.0-203.0.113.1")
	get(b.Accept(ctx, createOf("web1")))(b)
	get(b.Accept(ctx, createOf("web2")))(b)
	b.must(floats("web1", "203.0.113.0"))
	b.must(floats("web1", "2001:db8:1::1"))
	n := get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b).NICs[0]
	b.equal([]string{n.Floating.String(), n.Floating6.String()}, []string{"203.0.113.0", "2001:db8:1::1"})
	all := get(b.FloatingAddresses(ctx, seedbed.AllProjects()))(b)
	has := map[string]string{}
	for _, a := range all {
		has[a.Addr.String()] = a.Instance
	}
	b.equal(has, map[string]string{"203.0.113.0": "web1", "203.0.113.1": "", "2001:db8:1::1": "web1", "2001:db8:1::2": "",
		"2001:db8:1::ffff": ""})
	b.want(floats("web2", "2001:db8:1::1"), seedbed.ErrInUse, "2001:db8:1::1 belongs to instance web1")
	b.want(floats("web1", "2001:db8:1::2"), seedbed.ErrInUse, "NIC 0 of instance web1 has floating address 2001:db8:1::1")
	b.want(floats("web2", "2001:db8:1::3"), seedbed.ErrInvalid, "2001:db8:1::3 is not allocated")
	two := netip.MustParseAddr("2001:db8:1::2")
	for _, wrong := range []func(n *seedbed.NIC){
		func(n *seedbed.NIC) { n.Floating = two },
		func(n *seedbed.NIC) { n.Floating, n.Floating6 = two, two },
		func(n *seedbed.NIC) { n.Floating6 = netip.MustParseAddr("203.0.113.1") },
		func(n *seedbed.NIC) { n.Floating = netip.MustParseAddr("203.0.113.1"); n.Floating6 = n.Floating },
	} {
		b.want(change("web2", wrong), seedbed.ErrInvalid, "expected an IPv4 address as floating, and an IPv6")
	}
	b.want(b.ReleaseFloating(ctx, netip.MustParseAddr("2001:db8:1::1")), seedbed.ErrInUse, "belongs to NIC 0 of instance web1")
	b.want(b.lend("203.0.113.0"), seedbed.ErrInUse, "is allocated: release it first")
	b.want(prefix(""), seedbed.ErrInvalid, "are of IPv6, which its guests do not have")
	b.must(change("web1", func(n *seedbed.NIC) { n.Floating6 = netip.Addr{} }))
	b.must(floats("web2", "2001:db8:1::1"))
	b.equal(get(b.FloatingAddress(ctx, netip.MustParseAddr("203.0.113.0")))(b).Instance, "web1")

	// The addresses of another network's guests are not lent, nor what another lends.
	other := seedbed.Network{Name: "lent", Bridge: "lent0", MAC: newMAC()}
	other.Prefix6, other.FloatingUplink = netip.MustParsePrefix("2001:db8:1::/64"), "ext0"
	_, err = b.CreateNetwork(ctx, other)
	b.want(err, seedbed.ErrInvalid, "floating addresses and floating uplink belong together")
	other.FloatingUplink = ""
	_, err = b.CreateNetwork(ctx, other)
	b.want(err, seedbed.ErrConflict, `would share floating addresses with network "default"`)
	other.Prefix6, other.FloatingUplink = netip.MustParsePrefix("fd12:3456:789a:2::/64"), "ext0"
	lent := get(seedbed.ParseAddrRange("2001:db8::/32"))(b)
	other.Floating = []seedbed.AddrRange{lent}
	_, err = b.CreateNetwork(ctx, other)
	b.want(err, seedbed.ErrConflict, `would share floating addresses with network "default"`)
	other.Floating[0] = get(seedbed.ParseAddrRange("2001:db8:2::5"))(b)
	get(b.CreateNetwork(ctx, other))(b)
	made := get(b.AllocateFloating(ctx, seedbed.FloatingAddress{Network: "lent", Project: "default"}))(b)
	b.equal(made.Addr.String(), "2001:db8:2::5")
	_, err = b.AllocateFloating(ctx, seedbed.FloatingAddress{Network: "lent", Project: "default"})
	b.want(err, seedbed.ErrFull, "no free floating address of IPv6: all of 2001:db8:2::5 are allocated")
}

// Forwards over IPv6 go to the IPv6 address of a NIC, and are others than those over IPv4 at the same port.
func testForwards6(b *bench) {
	ctx := context.Background()
	b.world()
	keep := func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g }
	get(b.Accept(ctx, createOf("web1")))(b)
	get(b.Accept(ctx, createOf("web2")))(b)
	forwards := func(name string, listens ...string) error {
		_, err := b.ChangeInstance(ctx, seedbed.InDefault(name), forwardTo(listens...), keep)
		return err
	}
	prefix := func(p netip.Prefix) error {
		_, err := b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error { n.Prefix6 = p; return nil })
		return err
	}
	b.want(forwards("web1", "tcp:[::]:80"), seedbed.ErrInvalid, `forward tcp:[::]:80: NIC 0 has no IPv6 address, since its network "default"`)
	b.must(prefix(netip.MustParsePrefix("fd12:3456:789a:1::/64")))
	b.must(forwards("web1", "tcp:80", "tcp:[::]:80", "tcp:[2001:db8::1]:80"))
	b.want(forwards("web2", "tcp:[::]:80-90"), seedbed.ErrConflict, "shares ports with tcp:[::]:80, which goes to NIC 0 of instance web1")
	b.must(forwards("web2", "tcp:[2001:db8::2]:80"))
	n := get(b.Network(ctx, "default"))(b)
	var got []string
	for _, f := range get(b.Forwards(ctx, seedbed.AllProjects(), "default"))(b) {
		nic := get(b.InstanceByName(ctx, seedbed.InDefault(f.Instance)))(b).NICs[0]
		want := nic.Addr
		if f.Listen.Addr.Is6() {
			want = n.Addr6(nic.MAC)
		}
		b.equal(f.Addr, want)
		got = append(got, f.Listen.String())
	}
	slices.Sort(got)
	b.equal(got, []string{"tcp:80", "tcp:[2001:db8::1]:80", "tcp:[2001:db8::2]:80", "tcp:[::]:80"})
	b.want(prefix(netip.Prefix{}), seedbed.ErrInUse, `forwards go into network "default", which cannot be without an IPv6 prefix with them`)
	b.must(forwards("web1", "tcp:80"))
	b.must(forwards("web2"))
	b.must(prefix(netip.Prefix{}))
}
