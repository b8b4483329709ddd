package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
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
