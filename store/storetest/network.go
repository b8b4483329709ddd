package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"seedbed"
)

var networkCases = map[string]func(*bench){
	"changes": testNetworkChanges,
	"overlap": testNetworkOverlap, "overlap over IPv6": testOverlap6,
	"removal":          testNetworkRemoval,
	"of a project":     testNetworkOfProject,
	"chosen addresses": testChosenAddresses,
	"bridged":          testBridged,
	"overlap race":     testOverlapRace,
	"removal race":     testNetworkRemovalRace,
	"security groups":  testSecurityGroups,
	"joined groups":    testJoinedGroups,
	"group race":       testGroupRace, "peers": testNetworkPeers, "peer race": testPeerRace, "ACLs": testNetworkACLs, "direct": testDirect,
}

// Everything may change but the name, the bridge and the addresses.
func testNetworkChanges(b *bench) {
	ctx := context.Background()
	b.world()
	was := get(b.Network(ctx, "default"))(b)
	r := get(seedbed.ParseAddrRange("10.99.0.100-10.99.0.199"))(b)
	change := func(n *seedbed.Network) error {
		n.Kind, n.DNS, n.DHCP = seedbed.NetworkIsolated, nil, false
		n.Range, n.MTU, n.Domain, n.Search, n.Kept = r, 1400, "lan", []string{"example.org"}, []seedbed.AddrRange{r}
		n.Routes = []seedbed.NetworkRoute{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Via: netip.MustParseAddr("10.99.0.2")}}
		n.NTP, n.BootFile = []netip.Addr{netip.MustParseAddr("10.99.0.3")}, "http://10.99.0.3/boot.efi"
		n.Name, n.Bridge, n.Prefix, n.MAC = "other", "other", netip.MustParsePrefix("10.1.0.0/24"), newMAC()
		return nil
	}
	now := get(b.ChangeNetwork(ctx, "default", change))(b)
	want := was
	_ = change(&want)
	want.Name, want.Bridge, want.Prefix, want.MAC, want.NAT, want.DNS = was.Name, was.Bridge, was.Prefix, was.MAC, false, []netip.Addr{}
	b.equal(now, want)
	b.equal(get(b.Network(ctx, "default"))(b), want)
	_, err := b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error { n.MTU = 10; return nil })
	b.want(err, seedbed.ErrInvalid, "MTU 10")
	_, err = b.ChangeNetwork(ctx, "none", change)
	b.want(err, seedbed.ErrNotFound, `network "none"`)
}

// Prefixes overlap unless both networks reach outside.
func testNetworkOverlap(b *bench) {
	ctx := context.Background()
	b.world()
	n := seedbed.Network{Name: "lab", Kind: seedbed.NetworkRouted, Bridge: "lab0", MAC: newMAC(),
		Prefix: netip.MustParsePrefix("10.99.0.0/25"), Gateway: netip.MustParseAddr("10.99.0.1")}
	_, err := b.CreateNetwork(ctx, n)
	b.want(err, seedbed.ErrConflict, "10.99.0.0/25", `network "lab"`, `network "default" (10.99.0.0/24)`)
	n.Kind = seedbed.NetworkIsolated
	get(b.CreateNetwork(ctx, n))(b)
	_, err = b.ChangeNetwork(ctx, "lab", func(n *seedbed.Network) error {
		n.Kind = seedbed.NetworkNAT
		return nil
	})
	b.want(err, seedbed.ErrConflict, "overlaps")
	b.equal(get(b.Network(ctx, "lab"))(b).Kind, seedbed.NetworkIsolated)
}

// A network that something uses is not removed, and the error says what uses it.
func testNetworkRemoval(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.CreateProfile(ctx, webProfile()))(b)
	get(b.CreateNetworkTemplate(ctx, "two", ""))(b)
	b.must(b.addNetwork("two", "default", false))
	a := createOf("db1")
	get(b.Accept(ctx, a))(b)
	b.want(b.DeleteNetwork(ctx, "default"), seedbed.ErrInUse,
		`network "default" is used by instance db1 and profile web and network template two: remove`)
	b.must(b.DeleteProfile(ctx, "web"))
	b.must(b.DeleteNetworkTemplate(ctx, "two"))
	b.want(b.DeleteNetwork(ctx, "default"), seedbed.ErrInUse, "used by instance db1:")
	b.must(b.CancelJob(ctx, a.Job.ID))
	refuse := errors.New("no")
	b.want(b.DeleteNetwork(ctx, "default", func(seedbed.Network) error { return refuse }), refuse)
	b.must(b.DeleteNetwork(ctx, "default"))
	b.want(b.DeleteNetwork(ctx, "default"), seedbed.ErrNotFound, `network "default"`)
	_, err := b.Accept(ctx, createOf("db2"))
	b.want(err, seedbed.ErrInvalid, `network "default" does not exist`)
	b.network("default", "seedbed0", "10.99.0.0/24")
	get(b.Accept(ctx, createOf("db2")))(b)
}

// A network of a project counts for its quota, keeps the project from being removed, and is not told to others.
func testNetworkOfProject(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{ObjectQuota: seedbed.ObjectQuota{Networks: 1}})
	n := b.network("acme/lan", "acme0", "10.98.0.0/24")
	b.equal(n.Published, &seedbed.Publication{Projects: []string{}})
	b.equal(get(b.Resolve(ctx, seedbed.PublishedNetwork, "acme", "lan"))(b), "acme/lan")
	b.resolves(seedbed.PublishedNetwork, seedbed.DefaultProject, "lan", "")
	b.want(b.DeleteProject(ctx, "acme"), seedbed.ErrInUse, "network acme/lan")
	b.equal(get(b.ProjectUse(ctx, "acme"))(b).Networks, int64(1))
	other := n
	other.Name, other.Kind = "lan", seedbed.NetworkNAT
	stranger := seedbed.WithChange(ctx, &seedbed.Change{Project: seedbed.DefaultProject})
	_, err := b.CreateNetwork(stranger, other)
	b.want(err, seedbed.ErrExists, `bridge "acme0" is taken`)
	other.Bridge = "lan0"
	_, err = b.CreateNetwork(stranger, other)
	b.want(err, seedbed.ErrConflict, "a network of another project")
	a := inProject("acme", "web1")
	a.Instance.NICs[0].Network = "acme/lan"
	get(b.Accept(ctx, a))(b)
	b.want(b.DeleteNetwork(ctx, "acme/lan"), seedbed.ErrInUse, "used by instance web1.acme:")
	b.want(b.DeleteNetwork(stranger, "acme/lan"), seedbed.ErrInUse, "used by other projects:")
	b.must(b.CancelJob(ctx, a.Job.ID))
	b.must(b.DeleteNetwork(ctx, "acme/lan"))
	b.must(b.DeleteProject(ctx, "acme"))
}

// A NIC has the address that it asks for. One that asks for none never has that of another NIC of its instance.
func testChosenAddresses(b *bench) {
	ctx := context.Background()
	b.world()
	r := get(seedbed.ParseAddrRange("10.99.0.10-10.99.0.12"))(b)
	get(b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error {
		n.Range, n.Kept = r, []seedbed.AddrRange{{First: r.Last, Last: r.Last}}
		return nil
	}))(b)
	at := func(addr string) seedbed.NIC {
		n := seedbed.NIC{MAC: newMAC(), Network: "default"}
		if addr != "" {
			n.Addr = netip.MustParseAddr(addr)
		}
		return n
	}
	accept := func(name string, nics ...seedbed.NIC) ([]string, error) {
		a := createOf(name)
		a.Instance.NICs = nics
		for i := range nics {
			nics[i].Index = i
		}
		if _, err := b.Accept(ctx, a); err != nil {
			return nil, err
		}
		var addrs []string
		for _, n := range get(b.Instance(ctx, a.Instance.ID))(b).NICs {
			addrs = append(addrs, n.Addr.String())
		}
		return addrs, nil
	}
	addrs, err := accept("one", at(""), at("10.99.0.10"), at("10.99.0.77"))
	b.must(err)
	b.equal(addrs, []string{"10.99.0.11", "10.99.0.10", "10.99.0.77"})
	for addr, word := range map[string]string{
		"10.99.0.12": "keeps out 10.99.0.12", "10.99.0.1": "the gateway", "10.98.0.5": "one of 10.99.0.0/24",
	} {
		_, err := accept("two", at(addr))
		b.want(err, seedbed.ErrInvalid, "address "+addr, word)
	}
	_, err = accept("two", at("10.99.0.77"))
	b.want(err, seedbed.ErrExists, `address 10.99.0.77 already belongs to instance "one"`)
	_, err = accept("two", at(""))
	b.want(err, seedbed.ErrFull, "range 10.99.0.10-10.99.0.12")
	_, err = b.FreeAddr(ctx, "default", seedbed.MAC{}, netip.Addr{})
	b.want(err, seedbed.ErrFull)
	_, err = b.FreeAddr(ctx, "default", seedbed.MAC{}, netip.MustParseAddr("10.99.0.77"))
	b.want(err, seedbed.ErrExists, "address 10.99.0.77 is taken")
	_, err = b.FreeAddr(ctx, "default", seedbed.MAC{}, netip.MustParseAddr("10.99.0.12"))
	b.want(err, seedbed.ErrInvalid, "keeps out")
	b.equal(get(b.FreeAddr(ctx, "default", seedbed.MAC{}, netip.MustParseAddr("10.99.0.78")))(b).String(), "10.99.0.78")
}

// Of many networks with the same prefix that reach outside, made at once by several programs, one comes about.
func testOverlapRace(b *bench) {
	ctx := context.Background()
	var made atomic.Int64
	each(crowd, func(i int) {
		_, err := b.turn().CreateNetwork(ctx, seedbed.Network{Name: nameN(i), Bridge: fmt.Sprintf("br%d", i), MAC: newMAC(),
			Prefix: netip.MustParsePrefix("10.99.0.0/24"), Gateway: netip.MustParseAddr("10.99.0.1")})
		switch {
		case err == nil:
			made.Add(1)
		case !errors.Is(err, seedbed.ErrConflict):
			b.Error(err)
		}
	})
	b.equal(made.Load(), int64(1))
	b.equal(len(get(b.Networks(ctx))(b)), 1)
}

// A network is removed while instances are accepted in it. Either it is gone and they are refused, or it is in use.
func testNetworkRemovalRace(b *bench) {
	ctx := context.Background()
	b.world()
	for round := range 10 {
		name := fmt.Sprintf("lan%d", round)
		b.network(name, fmt.Sprintf("br%d", round), fmt.Sprintf("10.98.%d.0/24", round))
		var removed error
		var accepted atomic.Int64
		each(5, func(i int) {
			if i == 0 {
				removed = b.turn().DeleteNetwork(ctx, name)
				return
			}
			a := createOf(fmt.Sprintf("web-%d-%d", round, i))
			a.Instance.NICs[0].Network = name
			if _, err := b.Accept(ctx, a); err == nil {
				accepted.Add(1)
			} else if !errors.Is(err, seedbed.ErrInvalid) {
				b.Error(err)
			}
		})
		_, err := b.Network(ctx, name)
		if removed == nil {
			b.want(err, seedbed.ErrNotFound)
			b.equal(accepted.Load(), int64(0))
		} else {
			b.want(removed, seedbed.ErrInUse)
			b.must(err)
		}
	}
}

// NICs of a bridged network have its addresses, or none if these come from elsewhere. An uplink has one network of each
// VLAN.
func testBridged(b *bench) {
	ctx := context.Background()
	b.world()
	lan := seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Bridge: "lan0", MAC: newMAC(), Uplink: "br0",
		Identity: seedbed.IdentityTap, DNS: []netip.Addr{}, Published: &seedbed.Publication{Projects: []string{}}}
	b.equal(get(b.CreateNetwork(ctx, lan))(b), lan)
	b.equal(get(b.Network(ctx, "lan"))(b), lan)
	storage := lan
	storage.Name, storage.Bridge, storage.MAC, storage.VLAN = "storage", "storage0", newMAC(), 12
	storage.Prefix, storage.DHCP = netip.MustParsePrefix("10.99.0.0/24"), true // as that of the network with NAT
	get(b.CreateNetwork(ctx, storage))(b)
	b.equal(get(b.Network(ctx, "storage"))(b), storage)
	other := storage
	other.Name, other.Bridge = "other", "other0"
	_, err := b.CreateNetwork(ctx, other)
	b.want(err, seedbed.ErrConflict, "the same VLAN of uplink br0", `"storage"`)
	for _, kind := range []seedbed.NetworkKind{seedbed.NetworkNAT, seedbed.NetworkIsolated} {
		_, err = b.ChangeNetwork(ctx, "storage", func(n *seedbed.Network) error {
			n.Kind = kind
			return nil
		})
		b.want(err, seedbed.ErrInvalid, "is bridged and cannot become "+string(kind))
	}
	get(b.ChangeNetwork(ctx, "lan", func(n *seedbed.Network) error {
		n.MTU, n.Uplink, n.VLAN = 1400, "br9", 9
		return nil
	}))(b)
	lan.MTU = 1400
	b.equal(get(b.Network(ctx, "lan"))(b), lan)

	var leases []seedbed.NetworkLease
	for _, name := range []string{"one", "two"} {
		a := createOf(name)
		a.Instance.NICs = []seedbed.NIC{{MAC: newMAC(), Network: "lan"}, {Index: 1, MAC: newMAC(), Network: "storage"}}
		get(b.Accept(ctx, a))(b)
		nics := get(b.Instance(ctx, a.Instance.ID))(b).NICs
		b.equal(nics[0].Addr, netip.Addr{})
		b.equal(nics[1].Addr.IsValid(), true)
		leases = append(leases, seedbed.NetworkLease{MAC: nics[0].MAC, Instance: name})
	}
	slices.SortFunc(leases, func(a, b seedbed.NetworkLease) int { return bytes.Compare(a.MAC[:], b.MAC[:]) })
	b.equal(get(b.NetworkLeases(ctx, seedbed.AllProjects(), "lan"))(b), leases)
	b.equal(len(get(b.NetworkLeases(ctx, seedbed.AllProjects(), "storage"))(b)), 2)
	b.equal(get(b.FreeAddr(ctx, "lan", seedbed.MAC{}, netip.Addr{}))(b), netip.Addr{})
	_, err = b.FreeAddr(ctx, "lan", seedbed.MAC{}, netip.MustParseAddr("10.1.0.5"))
	b.want(err, seedbed.ErrInvalid, "whose addresses come from elsewhere")
	a := createOf("three")
	a.Instance.NICs = []seedbed.NIC{{MAC: newMAC(), Network: "lan", Addr: netip.MustParseAddr("10.1.0.5")}}
	_, err = b.Accept(ctx, a)
	b.want(err, seedbed.ErrInvalid, "whose addresses come from elsewhere")
}

func rules(b *bench, texts ...string) (all []seedbed.SecurityRule) {
	for _, text := range texts {
		all = append(all, get(seedbed.ParseSecurityRule(text))(b))
	}
	return all
}

// A group is made, changed and removed, and its rules name groups of its project alone.
func testSecurityGroups(b *bench) {
	ctx := context.Background()
	b.world()
	b.project("acme")
	b.equal(get(b.SecurityGroup(ctx, "acme/default"))(b).Rules, seedbed.DefaultRules("acme/default"))
	get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "acme/app", Rules: rules(b, "in tcp from group acme/app")}))(b)
	get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "acme/web", Rules: rules(b, "in tcp from group acme/app")}))(b)
	for _, tt := range []struct {
		group, rule string
		kind        error
		says        string
	}{
		{"acme/app", "in tcp", seedbed.ErrExists, `security group "acme/app" exists already`},
		{"beta/app", "in tcp", seedbed.ErrInvalid, `project "beta" does not exist`},
		{"acme/open", "in tcp", seedbed.ErrInvalid, "the built-in group"},
		{"acme/new", "in tcp from group acme/none", seedbed.ErrInvalid, `security group "acme/none" does not exist`},
		{"acme/new", "in tcp from group app", seedbed.ErrInvalid, `the group "app" of another project`},
		{"acme/new", "in tcp from group acme/open", seedbed.ErrInvalid, "in which are all NICs that name none"},
	} {
		_, err := b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: tt.group, Rules: rules(b, tt.rule)})
		b.want(err, tt.kind, tt.says)
	}
	before := get(b.FeedPage(ctx, "n", 0, ""))(b).Revision
	app := get(b.ChangeSecurityGroup(ctx, "acme/app", func(g *seedbed.SecurityGroup) error {
		g.Name, g.Description, g.Rules = "other", "servers", append(g.Rules, rules(b, "out any")...)
		return nil
	}))(b)
	b.equal([]any{app.Name, app.Description, get(b.SecurityGroup(ctx, "acme/app"))(b)}, []any{"acme/app", "servers", app})
	b.want(b.DeleteSecurityGroup(ctx, "acme/app"), seedbed.ErrInUse, "used by security group acme/web")
	b.must(b.DeleteSecurityGroup(ctx, "acme/web"))
	b.must(b.DeleteSecurityGroup(ctx, "acme/app"))
	b.want(b.DeleteSecurityGroup(ctx, "acme/app"), seedbed.ErrNotFound, `security group "acme/app" does not exist`)
	if after := get(b.FeedPage(ctx, "n", 0, ""))(b); after.Revision <= before && before > 0 || len(after.Groups) != 1 {
		b.Errorf("the feed's page before was %d, and then %+v", before, after)
	}
	b.must(b.DeleteProject(ctx, "acme"))
	b.equal(len(get(b.SecurityGroups(ctx))(b)), 0)
}

// A new NIC joins the groups that it asks for, or the group default of its project.
func testJoinedGroups(b *bench) {
	ctx := context.Background()
	b.world()
	joined := func(project, name string, asked ...string) ([]string, error) {
		a := inProject(project, name)
		a.Instance.NICs[0].Groups = asked
		if _, err := b.Accept(ctx, a); err != nil {
			return nil, err
		}
		return get(b.InstanceByName(ctx, seedbed.Named(project, name)))(b).NICs[0].Groups, nil
	}
	keep := func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g }
	b.equal(len(get(joined("default", "web1"))(b)), 0)
	b.project("acme")
	get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "acme/web"}))(b)
	b.equal(get(joined("acme", "web1"))(b), []string{"acme/default"})
	b.equal(get(joined("acme", "web2", "acme/web", "acme/open"))(b), []string{"acme/web", "acme/open"})
	for _, tt := range []struct {
		asked []string
		says  string
	}{
		{[]string{"acme/none"}, `security group "acme/none" does not exist`},
		{[]string{"open"}, `security group "open" of NIC 0 is not one of project acme`},
		{[]string{"acme/web", "acme/web"}, `in security group "acme/web" twice`},
		{[]string{"acme/1", "acme/2", "acme/3", "acme/4", "acme/5", "acme/6"}, "expected at most 5"},
	} {
		_, err := joined("acme", "web3", tt.asked...)
		b.want(err, seedbed.ErrInvalid, tt.says)
		_, err = b.ChangeInstance(ctx, seedbed.Named("acme", "web1"), func(i *seedbed.Instance) error {
			i.NICs[0].Groups = tt.asked
			return nil
		}, keep)
		b.want(err, seedbed.ErrInvalid, tt.says)
	}
	b.want(b.DeleteSecurityGroup(ctx, "acme/default"), seedbed.ErrInUse, "used by instance web1.acme")
	get(b.ChangeInstance(ctx, seedbed.Named("acme", "web1"), func(i *seedbed.Instance) error {
		i.NICs[0].Groups = []string{"acme/web"}
		return nil
	}, keep))(b)
	b.equal(get(b.InstanceByName(ctx, seedbed.Named("acme", "web1")))(b).NICs[0].Groups, []string{"acme/web"})
	get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "acme/w_b"}))(b) // as a pattern, it matches acme/web
	b.must(b.DeleteSecurityGroup(ctx, "acme/w_b"))
	b.must(b.DeleteSecurityGroup(ctx, "acme/default"))
	b.equal(len(get(joined("acme", "web4"))(b)), 0)
}

// A group is not removed while a NIC joins it.
func testGroupRace(b *bench) {
	ctx := context.Background()
	b.world()
	for round := range 10 {
		group := fmt.Sprintf("g%d", round)
		get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: group}))(b)
		var joined, removed error
		each(2, func(i int) {
			if i == 0 {
				removed = b.turn().DeleteSecurityGroup(ctx, group)
				return
			}
			a := createOf(group)
			a.Instance.NICs[0].Groups = []string{group}
			_, joined = b.Accept(ctx, a)
		})
		if (joined == nil) == (removed == nil) {
			b.Fatalf("round %d: joined %v, removed %v: want one of them refused", round, joined, removed)
		}
	}
}
