package storetest

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"seedbed"
)

var changeCases = map[string]func(*bench){
	"what a change sees":          testChangeSees,
	"of many changes of one text": testChangeRace,
	"reservations":                testReservations,
	"reservations of IPv6":        testReservations6,
	"bridged6":                    testBridged6,
	"forwards":                    testForwards,
	"forward race":                testForwardRace,
	"forward of a tunnel's port":  testForwardedTunnel,
	"secondary addresses":         testSecondary,
	"rates of NICs":               testBandwidth,
	"secondary race":              testSecondaryRace,
	"secondary taken":             testSecondaryTaken,
	"secondary at creation":       testSecondaryAtCreation,
	"secondary at creation race":  testSecondaryAtCreationRace,
	"secondary of IPv6":           testSecondary6,
	"secondary race of IPv6":      testSecondary6Race,
	"floating addresses":          testFloating,
	"floating race":               testFloatingRace,
	"floating over IPv6":          testFloating6,
	"forwards over IPv6":          testForwards6,
}

func (b *bench) addNetwork(template, vni string, again bool) error {
	_, err := b.ChangeNetworkTemplate(context.Background(), template,
		func(t *seedbed.NetworkTemplate) error { return t.AddNetwork(vni, again) })
	return err
}

func (b *bench) removeNetwork(template, vni string) error {
	_, err := b.ChangeNetworkTemplate(context.Background(), template,
		func(t *seedbed.NetworkTemplate) error { return t.RemoveNetwork(vni) })
	return err
}

func (b *bench) addDisk(template string, d seedbed.TemplateDisk) error {
	_, err := b.ChangeStorageTemplate(context.Background(), template,
		func(t *seedbed.StorageTemplate) error { return t.AddDisk(d) })
	return err
}

func (b *bench) removeDisk(template, name string) error {
	_, err := b.ChangeStorageTemplate(context.Background(), template,
		func(t *seedbed.StorageTemplate) error { return t.RemoveDisk(name) })
	return err
}

func (b *bench) setUserData(name, data string) error {
	_, err := b.ChangeUserData(context.Background(), name, func(d *seedbed.UserDataDocument) error {
		d.Data = data
		return nil
	})
	return err
}

func (b *bench) setScript(name, text string) error {
	_, err := b.ChangeScript(context.Background(), name, func(s *seedbed.Script) error {
		s.Text = text
		return nil
	})
	return err
}

func (b *bench) setOptions(name string, change func(*seedbed.ScriptOptions)) error {
	_, err := b.ChangeScriptOptions(context.Background(), name, func(s *seedbed.Script) error {
		change(&s.Options)
		return nil
	})
	return err
}

// A change sees the object as it is stored, its revision included, and returns it as it is stored
// then. A change that returns an error changes nothing.
func testChangeSees(b *bench) {
	b.composed()
	changeSees(b, "small", b.SystemTemplates, b.ChangeSystemTemplate,
		func(t *seedbed.SystemTemplate) *seedbed.ObjectMeta { return &t.ObjectMeta },
		func(t *seedbed.SystemTemplate) error { t.VCPUs++; return nil })
	changeSees(b, "lan", b.NetworkTemplates, b.ChangeNetworkTemplate,
		func(t *seedbed.NetworkTemplate) *seedbed.ObjectMeta { return &t.ObjectMeta },
		func(t *seedbed.NetworkTemplate) error { return t.AddNetwork("default", true) })
	changeSees(b, "lan", b.NetworkTemplates, b.ChangeNetworkTemplate,
		func(t *seedbed.NetworkTemplate) *seedbed.ObjectMeta { return &t.ObjectMeta },
		func(t *seedbed.NetworkTemplate) error { return t.RemoveNetwork("default") })
	changeSees(b, "root", b.StorageTemplates, b.ChangeStorageTemplate,
		func(t *seedbed.StorageTemplate) *seedbed.ObjectMeta { return &t.ObjectMeta },
		func(t *seedbed.StorageTemplate) error { return t.AddDisk(diskOf("a0")) })
	changeSees(b, "root", b.StorageTemplates, b.ChangeStorageTemplate,
		func(t *seedbed.StorageTemplate) *seedbed.ObjectMeta { return &t.ObjectMeta },
		func(t *seedbed.StorageTemplate) error { return t.RemoveDisk("sda") })
	changeSees(b, "cloud", b.UserDataDocuments, b.ChangeUserData,
		func(d *seedbed.UserDataDocument) *seedbed.ObjectMeta { return &d.ObjectMeta },
		func(d *seedbed.UserDataDocument) error { d.Data += "a: b\n"; return nil })
	script := func(s *seedbed.Script) *seedbed.ObjectMeta { return &s.ObjectMeta }
	changeSees(b, "install", b.Scripts, b.ChangeScriptOptions, script,
		func(s *seedbed.Script) error { s.Options.Privileged = true; return nil })
	changeSees(b, "install", b.Scripts, b.ChangeScript, script,
		func(s *seedbed.Script) error { s.Text += "#\n"; return nil })
}

func changeSees[T any](
	b *bench, name string, list func(context.Context, seedbed.NameMatch) ([]T, error),
	write func(context.Context, string, func(*T) error) (T, error), meta func(*T) *seedbed.ObjectMeta, change func(*T) error,
) {
	b.Helper()
	ctx := context.Background()
	read := func() T {
		b.Helper()
		return get(list(ctx, seedbed.ExactName(name)))(b)[0]
	}
	was := read()
	no := errors.New("no")
	_, err := write(ctx, name, func(t *T) error {
		b.equal(*t, was)
		b.must(change(t))
		return no
	})
	if !errors.Is(err, no) {
		b.Errorf("%s: the error of the change became %v", name, err)
	}
	b.equal(read(), was)
	is := get(write(ctx, name, func(t *T) error {
		b.equal(*t, was)
		return change(t)
	}))(b)
	b.equal(is, read())
	if old, now := *meta(&was), *meta(&is); now.Revision != old.Revision+1 || now.ID != old.ID || !now.Created.Equal(old.Created) ||
		now.Changed.Before(old.Changed) {
		b.Errorf("%s: %+v became %+v", name, old, now)
	}
}

// Of concurrent changes each sees the one before it.
func testChangeRace(b *bench) {
	const n = 12
	get(b.CreateUserData(context.Background(), "doc", ""))(b)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, errs[i] = b.ChangeUserData(context.Background(), "doc", func(d *seedbed.UserDataDocument) error {
				d.Data += "x"
				return nil
			})
		})
	}
	wg.Wait()
	for _, err := range errs {
		b.must(err)
	}
	if d := get(b.UserDataDocuments(context.Background(), seedbed.ExactName("doc")))(b)[0]; len(d.Data) != n || d.Revision != n+1 {
		b.Errorf("%d changes made revision %d with %q", n, d.Revision, d.Data)
	}
}

// forwardTo returns a change that gives the first NIC of an instance forwards, in the text form of their listens.
func forwardTo(listens ...string) func(*seedbed.Instance) error {
	return func(i *seedbed.Instance) error {
		i.NICs[0].Forwards = nil
		for _, text := range listens {
			l, err := seedbed.ParseListen(text)
			if err != nil {
				return err
			}
			i.NICs[0].Forwards = append(i.NICs[0].Forwards, seedbed.Forward{Listen: l, Port: 1000})
		}
		return nil
	}
}

// Forwards are kept with the NIC, listed by network, and no two NICs have the same port.
func testForwards(b *bench) {
	ctx := context.Background()
	b.world()
	keep := func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g }
	b.project("acme")
	get(b.Accept(ctx, createOf("web1")))(b)
	get(b.Accept(ctx, inProject("acme", "web2")))(b)
	web1, web2 := seedbed.InDefault("web1"), seedbed.Named("acme", "web2")
	listens := func(in seedbed.Scope) (all []string) {
		for _, f := range get(b.Forwards(ctx, in, "default"))(b) {
			all = append(all, f.Listen.String()+" "+f.Instance)
		}
		return all
	}
	b.equal(listens(seedbed.AllProjects()), []string(nil))
	i := get(b.ChangeInstance(ctx, web1, forwardTo("udp:53", "tcp:8000-8010", "tcp:192.0.2.1:8005"), keep))(b)
	b.equal(get(b.InstanceByName(ctx, web1))(b).NICs, i.NICs)
	get(b.ChangeInstance(ctx, web2, forwardTo("tcp:192.0.2.2:8005", "tcp:53"), keep))(b)
	b.equal(listens(seedbed.AllProjects()), []string{"tcp:53 web2.acme", "tcp:8000-8010 web1", "tcp:192.0.2.1:8005 web1",
		"tcp:192.0.2.2:8005 web2.acme", "udp:53 web1"})
	b.equal(listens(seedbed.InProject("acme")), []string{"tcp:53 web2.acme", "tcp:192.0.2.2:8005 web2.acme"})
	b.equal(get(b.Forwards(ctx, seedbed.AllProjects(), ""))(b), get(b.Forwards(ctx, seedbed.AllProjects(), "default"))(b))
	b.equal(get(b.Forwards(ctx, seedbed.AllProjects(), "other"))(b), []seedbed.ForwardTo{})
	for _, tt := range []struct {
		listens []string
		kind    error
		says    string
	}{
		{[]string{"tcp:7990-8000"}, seedbed.ErrConflict,
			"the forward tcp:7990-8000 shares ports with tcp:8000-8010, which goes to NIC 0 of instance web1"},
		{[]string{"tcp:192.0.2.1:8005"}, seedbed.ErrConflict, "of instance web1"},
		{[]string{"tcp:1", "tcp:1"}, seedbed.ErrConflict, "NIC 0 has the forward tcp:1 already"},
		{[]string{"tcp:20-30"}, seedbed.ErrInvalid, "SSH"},
		{slices.Repeat([]string{"tcp:1"}, 65), seedbed.ErrInvalid, "expected at most 64"},
	} {
		_, err := b.ChangeInstance(ctx, web2, forwardTo(tt.listens...), keep)
		b.want(err, tt.kind, tt.says)
	}
	_, err := b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error { n.Kind = seedbed.NetworkIsolated; return nil })
	b.want(err, seedbed.ErrInUse, "remove those of instances")
	get(b.ChangeInstance(ctx, web1, forwardTo(), keep))(b)
	get(b.ChangeInstance(ctx, web2, forwardTo(), keep))(b)
	get(b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error { n.Kind = seedbed.NetworkIsolated; return nil }))(b)
	_, err = b.ChangeInstance(ctx, web1, forwardTo("tcp:1"), keep)
	b.want(err, seedbed.ErrInvalid, `network "default", which is isolated: expected a network of kind nat or routed`)
}

// Of two instances that take the same port at once, one has it.
func testForwardRace(b *bench) {
	ctx := context.Background()
	b.world()
	keep := func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g }
	names := []string{"web1", "web2"}
	for _, name := range names {
		get(b.Accept(ctx, createOf(name)))(b)
	}
	for round := range 10 {
		var refused [2]error
		each(2, func(i int) {
			_, refused[i] = b.turn().ChangeInstance(ctx, seedbed.InDefault(names[i]), forwardTo("tcp:80"), keep)
		})
		if (refused[0] == nil) == (refused[1] == nil) {
			b.Fatalf("round %d: %v, %v: want one of them refused", round, refused[0], refused[1])
		}
		for _, name := range names {
			get(b.ChangeInstance(ctx, seedbed.InDefault(name), forwardTo(), keep))(b)
		}
	}
}

// lend has the network "default" lend some addresses.
func (b *bench) lend(ranges ...string) error {
	_, err := b.ChangeNetwork(context.Background(), "default", func(n *seedbed.Network) error {
		n.Floating, n.FloatingUplink = nil, ""
		for _, text := range ranges {
			r, err := seedbed.ParseAddrRange(text)
			if err != nil {
				return err
			}
			n.Floating, n.FloatingUplink = append(n.Floating, r), "ext0"
		}
		return nil
	})
	return err
}

// floats gives the first NIC of an instance a floating address.
func (b *bench) floats(name seedbed.InstanceName, addr string) error {
	_, err := b.ChangeInstance(context.Background(), name, func(i *seedbed.Instance) error {
		if i.NICs[0].Floating = (netip.Addr{}); addr != "" {
			i.NICs[0].Floating = netip.MustParseAddr(addr)
		}
		return nil
	}, func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g })
	return err
}

// Floating addresses are lent by a network, allocated to a project, and of one NIC at a time.
func testFloating(b *bench) {
	ctx := context.Background()
	b.world()
	b.project("acme")
	allocate := func(project, addr string) (string, error) {
		a := seedbed.FloatingAddress{Network: "default", Project: project, Description: "the shop"}
		if addr != "" {
			a.Addr = netip.MustParseAddr(addr)
		}
		made, err := b.AllocateFloating(ctx, a)
		return made.Addr.String(), err
	}
	_, err := allocate("default", "")
	b.want(err, seedbed.ErrInvalid, `network "default" lends no floating addresses`)
	b.must(b.lend("203.0.113.1-203.0.113.2", "198.51.100.7"))
	b.equal(get(allocate("acme", "203.0.113.2"))(b), "203.0.113.2")
	b.equal(get(allocate("default", ""))(b), "203.0.113.1")
	b.equal(get(allocate("default", ""))(b), "198.51.100.7")
	_, err = allocate("acme", "")
	b.want(err, seedbed.ErrFull, "no free floating address of IPv4: all of 203.0.113.1-203.0.113.2, 198.51.100.7 are allocated")
	_, err = allocate("acme", "::")
	b.want(err, seedbed.ErrInvalid, "lends no floating addresses of IPv6")
	_, err = allocate("acme", "203.0.113.2")
	b.want(err, seedbed.ErrExists, "203.0.113.2 is allocated already")
	_, err = allocate("acme", "203.0.113.3")
	b.want(err, seedbed.ErrInvalid, "does not lend the address 203.0.113.3")
	_, err = b.AllocateFloating(ctx, seedbed.FloatingAddress{Network: "default", Project: "acme", Description: "two\nlines"})
	b.want(err, seedbed.ErrInvalid, "is not one line")
	_, err = allocate("none", "")
	b.want(err, seedbed.ErrInvalid, `project "none"`)

	get(b.Accept(ctx, createOf("web1")))(b)
	get(b.Accept(ctx, inProject("acme", "web2")))(b)
	web1, web2 := seedbed.InDefault("web1"), seedbed.Named("acme", "web2")
	b.must(b.floats(web1, "203.0.113.1"))
	b.equal(get(b.InstanceByName(ctx, web1))(b).NICs[0].Floating.String(), "203.0.113.1")
	a := get(b.FloatingAddress(ctx, netip.MustParseAddr("203.0.113.1")))(b)
	b.equal([]any{a.Network, a.Project, a.Instance, a.NIC, a.Description}, []any{"default", "default", "web1", 0, "the shop"})
	b.equal(len(get(b.FloatingAddresses(ctx, seedbed.AllProjects()))(b)), 3)
	b.equal(len(get(b.FloatingAddresses(ctx, seedbed.InProject("acme")))(b)), 1)
	b.want(b.floats(web2, "203.0.113.1"), seedbed.ErrInvalid, "is not allocated") // to its project
	b.want(b.floats(web2, "203.0.113.9"), seedbed.ErrInvalid, "is not allocated")
	get(b.Accept(ctx, createOf("web3")))(b)
	b.want(b.floats(seedbed.InDefault("web3"), "203.0.113.1"), seedbed.ErrInUse, "belongs to instance web1")
	b.want(b.ReleaseFloating(ctx, a.Addr), seedbed.ErrInUse, "belongs to NIC 0 of instance web1")
	b.want(b.lend("203.0.113.1"), seedbed.ErrInUse, "is allocated: release it first")
	b.want(b.lend(), seedbed.ErrInUse, "is allocated: release it first")
	b.want(b.DeleteProject(ctx, "acme"), seedbed.ErrInUse, "floating address 203.0.113.2")

	b.must(b.floats(web1, ""))
	b.must(b.floats(seedbed.InDefault("web3"), "203.0.113.1"))
	b.must(b.floats(seedbed.InDefault("web3"), ""))
	b.must(b.ReleaseFloating(ctx, a.Addr))
	b.want(b.ReleaseFloating(ctx, a.Addr), seedbed.ErrNotFound, "203.0.113.1 is not allocated")
	b.equal(get(allocate("acme", ""))(b), "203.0.113.1")

	other := seedbed.Network{Name: "lent", Bridge: "lent0", MAC: newMAC(), Prefix: netip.MustParsePrefix("10.60.0.0/24"),
		Gateway: netip.MustParseAddr("10.60.0.1")}
	other.Floating, other.FloatingUplink = []seedbed.AddrRange{{First: a.Addr, Last: a.Addr}}, "ext0"
	_, err = b.CreateNetwork(ctx, other)
	b.want(err, seedbed.ErrConflict, `network "lent" would share floating addresses with network "default"`)
	inside := netip.MustParseAddr("10.99.0.50")
	other.Floating = []seedbed.AddrRange{{First: inside, Last: inside}}
	_, err = b.CreateNetwork(ctx, other)
	b.want(err, seedbed.ErrConflict, `network "lent" would share floating addresses with network "default"`)

	// A network stays as long as an address that it lends is allocated, also to no instance.
	lent := netip.MustParseAddr("192.0.2.16")
	other.Floating = []seedbed.AddrRange{{First: lent, Last: lent}}
	get(b.CreateNetwork(ctx, other))(b)
	get(b.AllocateFloating(ctx, seedbed.FloatingAddress{Network: "lent", Project: "acme"}))(b)
	b.want(b.DeleteNetwork(ctx, "lent"), seedbed.ErrInUse, `network "lent" is used by floating address 192.0.2.16`)
	b.must(b.ReleaseFloating(ctx, lent))
	b.must(b.DeleteNetwork(ctx, "lent"))
}

// Of projects that allocate at once, each gets an address of its own.
func testFloatingRace(b *bench) {
	ctx := context.Background()
	b.world()
	b.must(b.lend("203.0.113.1-203.0.113.8"))
	made := make([]netip.Addr, 8)
	each(len(made), func(i int) {
		a, err := b.turn().AllocateFloating(ctx, seedbed.FloatingAddress{Network: "default", Project: "default"})
		if err != nil {
			b.Error(err)
		}
		made[i] = a.Addr
	})
	seen := map[netip.Addr]bool{}
	for _, a := range made {
		seen[a] = true
	}
	b.equal(len(seen), len(made))
}
