package storetest

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/feedtest"
)

var guestCases = map[string]func(*bench){
	"at least once":      testAtLeastOnce,
	"user-data fetched":  testFetched,
	"reported":           testReported,
	"leases":             testLeases,
	"unknown instance":   testUnknownInstance,
	"hostile texts":      testHostile,
	"hint":               testGuestHint,
	"too many in a call": testTooMany,
	"of overlays":        testOverlays,
}

var day = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

func leaseEvent(seq int64, i seedbed.Instance, until time.Time) seedbed.GuestEvent {
	return seedbed.GuestEvent{Seq: seq, Instance: i.ID, Kind: seedbed.GuestLease,
		At: until.Add(-time.Hour), MAC: i.NICs[0].MAC, Addr: i.NICs[0].Addr, Until: until}
}

func access(seq int64, i seedbed.Instance, path string, status int) seedbed.GuestEvent {
	return seedbed.GuestEvent{Seq: seq, Instance: i.ID, Kind: seedbed.GuestAccess,
		At: day.Add(time.Duration(seq) * time.Second), Method: "GET", Path: path, Status: status, Bytes: 7}
}

func testAtLeastOnce(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	first := []seedbed.GuestEvent{access(1, i, "/latest/meta-data/", 200), access(2, i, "/latest/meta-data/mac", 200)}
	b.must(b.AddGuestEvents(ctx, node, "s1", first))
	before := b.Hint()
	b.must(b.AddGuestEvents(ctx, node, "s1", first))
	select {
	case <-before:
		b.Error("a repetition gave the hint")
	default:
	}
	b.must(b.AddGuestEvents(ctx, node, "s1", append(first, access(3, i, "/x", 404))))
	all := get(b.GuestEvents(ctx, i.ID, 0))(b)
	b.equal(all, []seedbed.GuestEvent{access(3, i, "/x", 404), first[1], first[0]})
	b.equal(get(b.GuestEvents(ctx, i.ID, 1))(b), []seedbed.GuestEvent{access(3, i, "/x", 404)})
	b.must(b.AddGuestEvents(ctx, node, "s2", first[:1]))
	b.must(b.AddGuestEvents(ctx, "node2", "s1", first[:1]))
	b.equal(len(get(b.GuestEvents(ctx, i.ID, 0))(b)), 5)
}

func testFetched(b *bench) {
	ctx := context.Background()
	b.world()
	for n, c := range []struct {
		event seedbed.GuestEvent
		want  bool
	}{
		{seedbed.GuestEvent{Kind: seedbed.GuestUserData, Method: "GET", Path: "/latest/user-data", Status: 200}, true},
		{seedbed.GuestEvent{Kind: seedbed.GuestUserData, Status: 404}, true},
		{seedbed.GuestEvent{Kind: seedbed.GuestUserData, Status: 401}, false},
		{seedbed.GuestEvent{Kind: seedbed.GuestUserData, Method: "HEAD", Status: 200}, false},
		{seedbed.GuestEvent{Kind: seedbed.GuestAccess, Method: "GET", Path: "/2021-03-23/user-data", Status: 200}, true},
		{seedbed.GuestEvent{Kind: seedbed.GuestAccess, Method: "GET", Path: "/latest/meta-data/user-data-x", Status: 200}, false},
		{seedbed.GuestEvent{Kind: seedbed.GuestAccess, Method: "GET", Path: "/latest/user-data", Status: 503}, false},
		{seedbed.GuestEvent{Kind: seedbed.GuestReport}, false},
	} {
		i := b.instance(nameN(n))
		c.event.Instance, c.event.At = i.ID, day
		for seq := range int64(2) {
			c.event.Seq = seq
			b.must(b.AddGuestEvents(ctx, node, nameN(n), []seedbed.GuestEvent{c.event}))
			c.event.At = day.Add(time.Hour)
		}
		got := get(b.Instance(ctx, i.ID))(b)
		if got.Fetched.Equal(day) != c.want || got.Fetched.IsZero() == c.want {
			b.Errorf("%+v: fetched at %v", c.event, got.Fetched)
		}
		if c.want && got.Revision != i.Revision+1 {
			b.Errorf("%+v: revision %d after %d", c.event, got.Revision, i.Revision)
		}
	}
}

// hostKey and otherHostKey are keys of SSH servers.
const (
	hostKey      = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	otherHostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP8BAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
)

func testReported(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	e := seedbed.GuestEvent{
		Seq: 1, Instance: i.ID, Kind: seedbed.GuestReport, At: day,
		Fields: map[string]string{"hostname": "web1", "fqdn": "", seedbed.HostKeyField: hostKey + " root@web1"},
	}
	b.must(b.AddGuestEvents(ctx, node, "s", []seedbed.GuestEvent{e}))
	again := e
	again.Seq, again.At, again.Fields = 2, day.Add(time.Hour), map[string]string{seedbed.HostKeyField: otherHostKey}
	b.must(b.AddGuestEvents(ctx, node, "s", []seedbed.GuestEvent{again}))
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{now.Reported, now.HostKey}, []any{day, hostKey})
	b.equal(get(b.GuestEvents(ctx, i.ID, 0))(b), []seedbed.GuestEvent{again, e})
}

func testLeases(b *bench) {
	ctx := context.Background()
	b.world()
	i, other := b.instance("web1"), b.instance("web2")
	stranger := leaseEvent(4, other, day)
	stranger.MAC = i.NICs[0].MAC
	b.must(b.AddGuestEvents(ctx, node, "s", []seedbed.GuestEvent{
		leaseEvent(1, i, day), leaseEvent(2, i, day.Add(time.Hour)), leaseEvent(3, i, day.Add(time.Minute)), stranger,
	}))
	kept := seedbed.Lease{MAC: i.NICs[0].MAC, Addr: i.NICs[0].Addr, Instance: i.ID, Until: day.Add(time.Hour)}
	b.equal(get(b.Leases(ctx, seedbed.AllProjects()))(b), []seedbed.Lease{kept})
	b.equal(get(b.Leases(ctx, seedbed.InProject(seedbed.DefaultProject)))(b), []seedbed.Lease{kept})
	b.equal(get(b.Leases(ctx, seedbed.InProject("acme")))(b), []seedbed.Lease{})
	b.equal(get(b.GuestEvents(ctx, i.ID, 1))(b), []seedbed.GuestEvent{leaseEvent(3, i, day.Add(time.Minute))})
	b.equal(get(b.ExpiredLeases(ctx, day.Add(time.Hour-time.Second)))(b), []seedbed.Lease{})
	b.equal(get(b.DropLeases(ctx, day.Add(time.Hour-time.Second)))(b), 0)
	b.equal(get(b.ExpiredLeases(ctx, day.Add(time.Hour)))(b), []seedbed.Lease{kept})
	b.equal(get(b.DropLeases(ctx, day.Add(time.Hour)))(b), 1)
	b.equal(get(b.Leases(ctx, seedbed.AllProjects()))(b), []seedbed.Lease{})
}

func testUnknownInstance(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	b.remove(i.ID)
	b.must(b.AddGuestEvents(ctx, node, "s", []seedbed.GuestEvent{leaseEvent(1, i, day), access(2, i, "/latest/user-data", 200)}))
	b.equal(get(b.Leases(ctx, seedbed.AllProjects()))(b), []seedbed.Lease{})
	b.equal(len(get(b.GuestEvents(ctx, i.ID, 0))(b)), 2)
}

// testGuestHint checks that events that no one waits for do not wake the waiters.
func testGuestHint(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	event := func(kind, path string) seedbed.GuestEvent {
		return seedbed.GuestEvent{Instance: i.ID, Kind: kind, At: day, Method: "GET", Path: path,
			Status: 200, MAC: i.NICs[0].MAC, Addr: i.NICs[0].Addr, Until: day}
	}
	plain := event(seedbed.GuestAccess, "/latest/meta-data/")
	var seq int64
	for _, c := range []struct {
		name   string
		events []seedbed.GuestEvent
		want   bool
	}{
		{"access", []seedbed.GuestEvent{plain, plain}, false},
		{"lease", []seedbed.GuestEvent{plain, event(seedbed.GuestLease, ""), plain}, true},
		{"report", []seedbed.GuestEvent{plain, event(seedbed.GuestReport, "")}, true},
		{"user-data", []seedbed.GuestEvent{event(seedbed.GuestUserData, "/latest/user-data"), plain}, true},
		{"access of user-data", []seedbed.GuestEvent{plain, event(seedbed.GuestAccess, "/2021-03-23/user-data")}, true},
	} {
		for n := range c.events {
			seq++
			c.events[n].Seq = seq
		}
		hint := b.Hint()
		b.must(b.AddGuestEvents(ctx, node, "s", c.events))
		woken := false
		select {
		case <-hint:
			woken = true
		default:
		}
		if woken != c.want {
			b.Errorf("%s: woken %v, want %v", c.name, woken, c.want)
		}
	}
	b.equal(len(get(b.GuestEvents(ctx, i.ID, 0))(b)), int(seq))
}

func testHostile(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	e := access(1, i, "/\x00\xff"+strings.Repeat("a", 1<<16), 404)
	e.Method = strings.Repeat("M", 1<<16)
	e.Fields = map[string]string{
		"\x00": "\xff", "long": strings.Repeat("x", 1<<16), "more": strings.Repeat("y", 1<<16), strings.Repeat("z", 1<<16): "",
	}
	b.must(b.AddGuestEvents(ctx, node, "s", []seedbed.GuestEvent{e}))
	got := get(b.GuestEvents(ctx, i.ID, 0))(b)[0]
	size := len(got.Path) + len(got.Method)
	for k, v := range got.Fields {
		size += len(k) + len(v)
	}
	if size > 8<<10 || strings.ContainsAny(got.Path, "\x00") {
		b.Fatalf("%d bytes were kept: %.80q", size, got.Path)
	}
	b.equal(got.Fields["\ufffd"], "\ufffd")
}

func testTooMany(b *bench) {
	ctx := context.Background()
	b.want(b.AddGuestEvents(ctx, node, "s", make([]seedbed.GuestEvent, 10001)), seedbed.ErrInvalid, "10000")
	b.want(b.AddGuestEvents(ctx, "", "s", nil), seedbed.ErrInvalid)
	b.want(b.AddGuestEvents(ctx, node, strings.Repeat("s", 200), nil), seedbed.ErrInvalid)
}

// An overlay keeps its number, which no other has. The feed says where the nodes get its frames, as they report it, and on
// which node a guest of it is.
func testOverlays(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{}))(b)
	at := func(a string, name string) {
		b.Helper()
		b.must(b.NoteNode(ctx, name, seedbed.NodeReport{Address: netip.MustParseAddr(a), AddressMTU: 1500}, "", time.Now()))
	}
	page := func() seedbed.FeedPage {
		b.Helper()
		return get(b.FeedPage(ctx, node, 0, b.generation()))(b)
	}
	get(b.AddNode(ctx, seedbed.Node{Name: node}))(b)
	at("192.0.2.1", node)
	b.equal(len(page().Nodes), 0) // there is no overlay
	wide := seedbed.Network{Name: "wide", Kind: seedbed.NetworkIsolated, Bridge: "wide0", MAC: newMAC(), VNI: 4711, DHCP: true,
		NetworkOptions: seedbed.NetworkOptions{MTU: 1450},
		Identity:       seedbed.IdentityTap, DNS: []netip.Addr{}, Published: &seedbed.Publication{Projects: []string{}},
		Prefix: netip.MustParsePrefix("10.98.0.0/24"), Gateway: netip.MustParseAddr("10.98.0.1")}
	b.equal(get(b.CreateNetwork(ctx, wide))(b), wide)
	other := wide
	other.Name, other.Bridge = "other", "other0"
	_, err := b.CreateNetwork(ctx, other)
	b.want(err, seedbed.ErrConflict, "VNI 4711", `"wide"`)
	get(b.ChangeNetwork(ctx, "wide", func(n *seedbed.Network) error {
		n.VNI, n.MTU = 4712, 1400
		return nil
	}))(b)
	wide.MTU = 1400
	b.equal(get(b.Network(ctx, "wide"))(b), wide)

	before := page()
	b.equal(before.Nodes, map[string]netip.Addr{node: netip.MustParseAddr("192.0.2.1")})
	get(b.AddNode(ctx, seedbed.Node{Name: "node2", Worker: "https://node2.example:7375"}))(b)
	at("192.0.2.2", "node2")
	after := page()
	b.equal(after.Nodes["node2"], netip.MustParseAddr("192.0.2.2"))
	if after.Revision <= before.Revision {
		b.Errorf("revision %d after a node got an address, %d before", after.Revision, before.Revision)
	}
	at("192.0.2.2", "node2") // nothing new
	tunnel := seedbed.Tunnel{Key: seedbed.TunnelKey{7}, Port: 51820}
	encrypts := seedbed.NodeReport{Address: netip.MustParseAddr("192.0.2.2"), AddressMTU: 1500, Tunnel: tunnel}
	for range 2 { // the second time, it is nothing new
		b.must(b.NoteNode(ctx, "node2", encrypts, "", time.Now()))
		b.equal([]any{page().Tunnels, page().Revision}, []any{map[string]seedbed.Tunnel{"node2": tunnel}, after.Revision + 1})
	}
	b.must(b.NoteNode(ctx, "node2", seedbed.NodeReport{}, "it does not answer", time.Now().Add(time.Hour)))
	b.equal(page().Tunnels["node2"], tunnel) // it may be back soon
	at("192.0.2.2", "node2")
	b.equal(len(page().Tunnels), 0)
	after = page()
	b.must(b.NoteNode(ctx, "node2", seedbed.NodeReport{}, "", time.Now()))
	b.equal([]any{page().Nodes, page().Revision}, []any{after.Nodes, after.Revision})

	k, own := b.runningIn("web2", "wide")
	get(b.Publish(ctx, k.Ref(), node, guestOf(own), seedbed.Documents{}))(b)
	peers := feedtest.Changes(b, seedbed.FeedPage{Changes: get(b.Peers(ctx, "node2", 0, b.generation()))(b).Changes})
	b.equal([]any{len(peers), peers[0].Guest.Name, peers[0].Guest.Node}, []any{1, "web2", node})

	get(b.ChangeNode(ctx, "node2", func(n *seedbed.Node) error { n.Cordoned = true; return nil }))(b)
	b.must(b.RemoveNode(ctx, "node2"))
	gone := page()
	b.equal(gone.Nodes, before.Nodes)
	if gone.Revision <= after.Revision {
		b.Errorf("revision %d after a node went, %d before", gone.Revision, after.Revision)
	}
}

// Networks that reach outside have IPv6 prefixes of their own, and any other may have the same.
func testOverlap6(b *bench) {
	ctx := context.Background()
	b.world()
	prefix6 := func(name string, p netip.Prefix) error {
		_, err := b.ChangeNetwork(ctx, name, func(n *seedbed.Network) error {
			n.Prefix6 = p
			return nil
		})
		return err
	}
	p6 := netip.MustParsePrefix("fd12:3456:789a:1::/64")
	n := seedbed.Network{Name: "lab", Kind: seedbed.NetworkIsolated, Bridge: "lab0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.98.0.0/24"), Gateway: netip.MustParseAddr("10.98.0.1")}
	n.Prefix6 = p6
	get(b.CreateNetwork(ctx, n))(b)
	b.must(prefix6("default", p6)) // the other is isolated
	b.equal(get(b.Network(ctx, "default"))(b).Prefix6, p6)
	n.Name, n.Bridge, n.Kind, n.Prefix, n.Gateway = "more", "more0", seedbed.NetworkRouted, netip.MustParsePrefix("10.97.0.0/24"),
		netip.MustParseAddr("10.97.0.1")
	const overlaps = `prefix fd12:3456:789a:1::/64 of network "more" overlaps that of network "default"`
	_, err := b.CreateNetwork(ctx, n)
	b.want(err, seedbed.ErrConflict, overlaps)
	n.Prefix6 = netip.Prefix{}
	get(b.CreateNetwork(ctx, n))(b)
	b.want(prefix6("more", p6), seedbed.ErrConflict, overlaps)
	b.must(prefix6("default", netip.Prefix{}))
	b.must(prefix6("more", p6))
}

// testCordonMaintenance checks what guests are told while their node is cordoned, after they have left it, and when it is not any more.
func testCordonMaintenance(b *bench) {
	ctx := context.Background()
	b.world()
	b.must(b.EnsureNode(ctx, node))
	get(b.AddNode(ctx, seedbed.Node{Name: "node2", Worker: "https://node2.example:7375"}))(b)
	making, i := b.running("web1")
	get(b.Publish(ctx, making.Ref(), node, guestOf(i), seedbed.Documents{}))(b)
	b.must(b.Finish(ctx, making.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	cordon := func(to bool) {
		b.Helper()
		for range 2 {
			get(b.ChangeNode(ctx, node, func(n *seedbed.Node) error { n.Cordoned = to; return nil }))(b)
		}
	}
	// is checks the codes and states that guests of a node are told, and those of only this instance.
	is := func(of string, all, own []string) {
		b.Helper()
		page := get(b.FeedPage(ctx, of, 0, ""))(b)
		var toAll, toIt []string
		for _, m := range page.Maintenance {
			toAll = append(toAll, m.Code+" "+m.State)
		}
		for _, c := range feedtest.Changes(b, page) {
			if c.Guest != nil && c.Guest.ID == i.ID {
				for _, m := range c.Guest.Maintenance {
					toIt = append(toIt, m.Code+" "+m.State)
				}
			}
		}
		slices.Sort(toIt)
		b.equal([][]string{toAll, toIt}, [][]string{all, own})
	}
	announced := get(b.AddMaintenance(ctx, node, "", reboot(time.Now().Add(time.Hour))))(b)
	cordon(true)
	active := []string{"system-maintenance active", "system-reboot active"}
	is(node, active, nil)
	get(b.Accept(ctx, migrateOf(i, seedbed.InstanceRunning)))(b)
	j := b.claim()
	render := func(i seedbed.Instance, _ seedbed.Guest) seedbed.Guest { return guestOf(i) }
	left := []string{"system-maintenance completed", "system-reboot canceled"}
	for range 2 { // there, and back
		get(b.Arrive(ctx, j.Ref(), "node2", i.ID))(b)
		get(b.Move(ctx, j.Ref(), "node2", node, i.ID, render))(b)
		is("node2", nil, left)
		is(node, active, nil)
		get(b.Move(ctx, j.Ref(), node, "", i.ID, render))(b)
		is(node, active, nil)
	}
	get(b.Move(ctx, j.Ref(), "node2", node, i.ID, render))(b)
	cordon(false)
	is("node2", nil, left)
	is(node, []string{"system-reboot canceled", "system-maintenance completed"}, nil)
	_, err := b.EndMaintenance(ctx, announced.ID, seedbed.MaintenanceCanceled)
	b.want(err, seedbed.ErrConflict, "canceled already")
}
