package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"time"

	"seedbed"
	"seedbed/internal/feedtest"
)

var feedCases = map[string]func(*bench){
	"publish and retract": testPublish,
	"snapshot":            testSnapshot,
	"blobs":               testBlobs,
	"applied":             testApplied,
	"interleaved":         testInterleaved,
	"another's instance":  testForeignPublish,
	"what a node may see": testNodeDocuments,
	"peers":               testPeers,
	"peers that move":     testMovedPeers,
	"peers of overlays":   testOverlayPeers,
}

func (b *bench) generation() string {
	b.Helper()
	return get(b.FeedPage(context.Background(), "any", 0, ""))(b).Generation
}

func testPublish(b *bench) {
	ctx := context.Background()
	b.world()
	gen := b.generation()
	empty := get(b.FeedPage(ctx, node, 0, gen))(b)
	b.equal([]any{empty.Snapshot, empty.Revision, len(empty.Changes)}, []any{false, int64(0), 0})
	if len(empty.TokenKey) != 32 || len(empty.Generation) < 32 {
		b.Fatalf("token key of %d bytes, generation %q", len(empty.TokenKey), empty.Generation)
	}
	b.equal(empty.Networks, untold(get(b.Networks(ctx))(b)))

	j, i := b.running("web1")
	g := guestOf(i)
	b.equal(get(b.Publish(ctx, j.Ref(), node, g, seedbed.Documents{UserData: []byte("data")}))(b), int64(1))
	b.equal(get(b.Publish(ctx, j.Ref(), node, g, seedbed.Documents{UserData: []byte("data")}))(b), int64(1))
	sum := sha256.Sum256([]byte("data"))
	g.UserData = &seedbed.Blob{SHA256: hex.EncodeToString(sum[:]), Size: 4}
	page := get(b.FeedPage(ctx, node, 0, gen))(b)
	b.equal(feedtest.Changes(b, page), []feedtest.Change{{Revision: 1, Instance: i.ID, Guest: &g}})
	b.equal([]any{page.Snapshot, page.Revision, page.TokenKey}, []any{false, int64(1), empty.TokenKey})
	b.equal(len(feedtest.Changes(b, get(b.FeedPage(ctx, "node2", 0, gen))(b))), 0)

	g.SSHKeys, g.UserData = nil, nil
	b.equal(get(b.Publish(ctx, j.Ref(), node, g, seedbed.Documents{}))(b), int64(2))
	b.equal(feedtest.Changes(b, get(b.FeedPage(ctx, node, 1, gen))(b)), []feedtest.Change{{Revision: 2, Instance: i.ID, Guest: &g}})

	b.equal(get(b.Retract(ctx, j.Ref(), node, i.ID))(b), int64(3))
	b.equal(get(b.Retract(ctx, j.Ref(), node, i.ID))(b), int64(3))
	b.equal(get(b.Retract(ctx, j.Ref(), "node2", i.ID))(b), int64(0))
	b.equal(feedtest.Changes(b, get(b.FeedPage(ctx, node, 2, gen))(b)), []feedtest.Change{{Revision: 3, Instance: i.ID}})
	b.equal(get(b.Publish(ctx, j.Ref(), node, g, seedbed.Documents{}))(b), int64(4))
}

func testSnapshot(b *bench) {
	ctx := context.Background()
	b.world()
	gen := b.generation()
	j, one := b.running("web1")
	get(b.Publish(ctx, j.Ref(), node, guestOf(one), seedbed.Documents{}))(b)
	k, two := b.running("web2")
	get(b.Publish(ctx, k.Ref(), node, guestOf(two), seedbed.Documents{}))(b)
	get(b.Retract(ctx, j.Ref(), node, one.ID))(b)
	g := guestOf(two)
	for name, at := range map[string]struct {
		since int64
		gen   string
	}{
		"another generation": {3, "other"}, "no generation": {0, ""}, "after the head": {4, gen}, "before the start": {-1, gen},
	} {
		page := get(b.FeedPage(ctx, node, at.since, at.gen))(b)
		if !page.Snapshot || page.Revision != 3 {
			b.Errorf("%s: %+v", name, page)
		}
		b.equal(feedtest.Changes(b, page), []feedtest.Change{{Revision: 2, Instance: two.ID, Guest: &g}})
	}
	page := get(b.FeedPage(ctx, node, 3, gen))(b)
	b.equal([]any{page.Snapshot, page.Revision, len(page.Changes)}, []any{false, int64(3), 0})
	_, err := b.FeedPage(ctx, "", 0, gen)
	b.want(err, seedbed.ErrInvalid)
}

func testBlobs(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	k, two := b.running("web2")
	for _, data := range [][]byte{[]byte("a\x00\xff"), {}} {
		get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{UserData: data}))(b)
		get(b.Publish(ctx, k.Ref(), node, guestOf(two), seedbed.Documents{UserData: data}))(b)
		sum := sha256.Sum256(data)
		b.equal(get(b.Blob(ctx, hex.EncodeToString(sum[:])))(b), data)
		get(b.Retract(ctx, j.Ref(), node, i.ID))(b)
		b.equal(get(b.Blob(ctx, hex.EncodeToString(sum[:])))(b), data)
	}
	_, err := b.Blob(ctx, "none")
	b.want(err, seedbed.ErrNotFound, "none")
	_, err = b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{UserData: make([]byte, seedbed.MaxDocument+1)})
	b.want(err, seedbed.ErrInvalid)
}

// A node may read the documents that its own records refer to, and report about its own guests.
func testNodeDocuments(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	k, two := b.running("web2")
	docs := func(user, vendor string) seedbed.Documents {
		return seedbed.Documents{UserData: []byte(user), VendorData: []byte(vendor)}
	}
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), docs("one", "both")))(b)
	get(b.Publish(ctx, k.Ref(), "node2", guestOf(two), docs("two", "both")))(b)
	sum := func(data string) string {
		s := sha256.Sum256([]byte(data))
		return hex.EncodeToString(s[:])
	}
	for at, want := range map[string]map[string]bool{
		node:    {"one": true, "two": false, "both": true, "none": false},
		"node2": {"one": false, "two": true, "both": true, "none": false},
		"node3": {"one": false, "two": false, "both": false, "none": false},
	} {
		for data, may := range want {
			got, err := b.NodeBlob(ctx, at, sum(data))
			if may {
				b.equal(string(got), data)
				b.want(err, nil)
			} else {
				b.want(err, seedbed.ErrNotFound, sum(data))
			}
		}
	}
	ids := []seedbed.InstanceID{i.ID, two.ID, seedbed.NewInstanceID()}
	b.equal(get(b.NodeGuests(ctx, node, ids))(b), []seedbed.InstanceID{i.ID})
	b.equal(get(b.NodeGuests(ctx, "node2", ids))(b), []seedbed.InstanceID{two.ID})
	b.equal(len(get(b.NodeGuests(ctx, "node3", ids))(b)), 0)
	b.equal(len(get(b.NodeGuests(ctx, node, nil))(b)), 0)
	_, err := b.NodeGuests(ctx, node, make([]seedbed.InstanceID, 100_000))
	b.want(err, seedbed.ErrInvalid)

	// A report about a removed guest may still be on its way, but the node no longer needs its
	// documents.
	get(b.Retract(ctx, j.Ref(), node, i.ID))(b)
	b.equal(get(b.NodeGuests(ctx, node, ids))(b), []seedbed.InstanceID{i.ID})
	_, err = b.NodeBlob(ctx, node, sum("one"))
	b.want(err, seedbed.ErrNotFound)
	// If another node serves the guest now, only that one reports about it.
	get(b.Publish(ctx, j.Ref(), "node2", guestOf(i), docs("one", "both")))(b)
	b.equal(len(get(b.NodeGuests(ctx, node, ids))(b)), 0)
	own := get(b.NodeGuests(ctx, "node2", ids))(b)
	slices.Sort(own)
	both := []seedbed.InstanceID{i.ID, two.ID}
	slices.Sort(both)
	b.equal(own, both)
}

func testApplied(b *bench) {
	ctx := context.Background()
	b.world()
	applied := func() (int64, time.Time) {
		b.Helper()
		r, at, err := b.Applied(ctx, node)
		b.must(err)
		return r, at
	}
	if r, at := applied(); r != 0 || !at.IsZero() {
		b.Fatalf("an unknown node applied %d at %v", r, at)
	}
	b.want(b.SetApplied(ctx, node, 1, day), seedbed.ErrConflict, node, "1")
	b.must(b.SetApplied(ctx, node, 0, day))
	j, i := b.running("web1")
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{}))(b)
	b.must(b.SetApplied(ctx, node, 1, day.Add(time.Second)))
	b.must(b.SetApplied(ctx, node, 0, day.Add(time.Minute)))
	if r, at := applied(); r != 1 || !at.Equal(day.Add(time.Minute)) {
		b.Fatalf("applied %d at %v", r, at)
	}
}

// Two publishers write at the same time, and a follower resumes after each page. It sees every
// revision once, in order, and ends with everything that is served.
func testInterleaved(b *bench) {
	ctx := context.Background()
	b.world()
	gen := b.generation()
	const rounds = 20
	j, one := b.running("web1")
	k, two := b.running("web2")
	done := make(chan struct{})
	go func() {
		defer close(done)
		each(2, func(n int) {
			ref, g := j.Ref(), guestOf(one)
			if n == 1 {
				ref, g = k.Ref(), guestOf(two)
			}
			for range rounds {
				if _, err := b.Publish(ctx, ref, node, g, seedbed.Documents{}); err != nil {
					b.Error(err)
				}
				if _, err := b.Retract(ctx, ref, node, g.ID); err != nil {
					b.Error(err)
				}
			}
			if _, err := b.Publish(ctx, ref, node, g, seedbed.Documents{}); err != nil {
				b.Error(err)
			}
		})
	}()
	defer func() { <-done }()
	served := map[seedbed.InstanceID]bool{}
	var since int64
	b.until("the end of the feed", func() bool {
		page := get(b.FeedPage(ctx, node, since, gen))(b)
		if page.Snapshot {
			b.Fatal("a snapshot came while following")
		}
		for _, c := range feedtest.Changes(b, page) {
			if c.Revision <= since {
				b.Fatalf("revision %d came after %d", c.Revision, since)
			}
			since = c.Revision
			served[c.Instance] = c.Guest != nil
		}
		b.equal(page.Revision, since)
		return since == 2*(2*rounds+1)
	})
	b.equal(served, map[seedbed.InstanceID]bool{one.ID: true, two.ID: true})
}

func testForeignPublish(b *bench) {
	ctx := context.Background()
	b.world()
	_, one := b.running("web1")
	k, _ := b.running("web2")
	_, err := b.Publish(ctx, k.Ref(), node, guestOf(one), seedbed.Documents{})
	b.want(err, seedbed.ErrInvalid, string(one.ID))
	_, err = b.Retract(ctx, k.Ref(), node, one.ID)
	b.want(err, seedbed.ErrInvalid, string(one.ID))
}

// lan creates a network that reaches several nodes.
func (b *bench) lan() {
	b.Helper()
	p := netip.MustParsePrefix("10.88.0.0/24")
	get(b.CreateNetwork(context.Background(), seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Bridge: "lan0", MAC: newMAC(),
		Uplink: "br0", Prefix: p, Gateway: p.Addr().Next(), DHCP: true}))(b)
}

// runningIn is running for an instance with a NIC in each of some networks.
func (b *bench) runningIn(name string, networks ...string) (seedbed.Job, seedbed.Instance) {
	b.Helper()
	a := createOf(name)
	a.Instance.NICs = nil
	for _, n := range networks {
		a.Instance.NICs = append(a.Instance.NICs, seedbed.NIC{MAC: newMAC(), Network: n, Index: len(a.Instance.NICs)})
	}
	get(b.Accept(context.Background(), a))(b)
	return b.claim(), get(b.Instance(context.Background(), a.Instance.ID))(b)
}

// peers are the peers of a node that changed, as "+name" or "-id".
func (b *bench) peers(of string, since int64) (all []string, head int64) {
	b.Helper()
	ctx := context.Background()
	page := get(b.Peers(ctx, of, since, b.generation()))(b)
	for _, c := range feedtest.Changes(b, seedbed.FeedPage{Changes: page.Changes}) {
		if c.Guest == nil {
			all = append(all, "-"+get(b.Instance(ctx, c.Instance))(b).Name)
		} else {
			all = append(all, "+"+c.Guest.Name)
		}
	}
	if page.Snapshot {
		all = append(all, "snapshot")
	}
	return all, page.Revision
}

// Other nodes are told of guests in networks that reach them, of these NICs alone, and of their security groups.
func testPeers(b *bench) {
	ctx := context.Background()
	b.world()
	b.lan()
	j, i := b.runningIn("web1", "default", "lan")
	k, own := b.runningIn("web2", "default")
	g := guestOf(i)
	g.SSHKeys = []string{"ssh-ed25519 AAAA"}
	get(b.Publish(ctx, j.Ref(), node, g, seedbed.Documents{UserData: []byte("data")}))(b)
	get(b.Publish(ctx, k.Ref(), node, guestOf(own), seedbed.Documents{}))(b)
	page := get(b.Peers(ctx, "node2", 0, b.generation()))(b)
	want := seedbed.Guest{ID: i.ID, Name: "web1", Node: node, NICs: guestOf(i).NICs[1:]}
	want.NICs[0].ID = 0
	b.equal(feedtest.Changes(b, seedbed.FeedPage{Changes: page.Changes}), []feedtest.Change{{Revision: 1, Instance: i.ID, Guest: &want}})
	b.equal([]any{page.Snapshot, page.Revision}, []any{false, int64(1)})
	all, head := b.peers(node, 0)
	b.equal([]any{all, head}, []any{[]string{"-web1"}, int64(1)})

	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{}))(b) // nothing that a peer sees
	all, head = b.peers("node2", 1)
	b.equal([]any{len(all), head}, []any{0, int64(1)})
	get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "db"}))(b)
	get(b.ChangeInstance(ctx, seedbed.InDefault("web1"), func(i *seedbed.Instance) error {
		i.NICs[1].Groups = []string{"db"}
		return nil
	}, func(i seedbed.Instance, _ seedbed.Guest) seedbed.Guest { return guestOf(i) }))(b)
	page = get(b.Peers(ctx, "node2", 1, b.generation()))(b)
	want.NICs[0].Groups = []string{"db"}
	b.equal(feedtest.Changes(b, seedbed.FeedPage{Changes: page.Changes}), []feedtest.Change{{Revision: 2, Instance: i.ID, Guest: &want}})

	get(b.Retract(ctx, j.Ref(), node, i.ID))(b)
	all, head = b.peers("node2", 2)
	b.equal([]any{all, head}, []any{[]string{"-web1"}, int64(3)})
	for name, at := range map[string]struct {
		since int64
		gen   string
	}{
		"another generation": {3, "other"}, "after the head": {4, b.generation()}, "before the start": {-1, b.generation()},
	} {
		if page := get(b.Peers(ctx, "node2", at.since, at.gen))(b); !page.Snapshot || page.Revision != 3 || len(page.Changes) != 0 {
			b.Errorf("%s: %+v", name, page)
		}
	}
	_, err := b.Peers(ctx, "", 0, "")
	b.want(err, seedbed.ErrInvalid)
}

// A guest that another node serves is that node's, also if the first node retracts it afterwards, and it is no peer there.
func testMovedPeers(b *bench) {
	ctx := context.Background()
	b.world()
	b.lan()
	j, i := b.runningIn("web1", "lan")
	publish := func(on string) {
		get(b.Publish(ctx, j.Ref(), on, guestOf(i), seedbed.Documents{}))(b)
	}
	publish(node)
	publish("node2")
	get(b.Retract(ctx, j.Ref(), node, i.ID))(b)
	for of, want := range map[string][]string{node: {"+web1"}, "node2": {"-web1"}, "node3": {"+web1"}} {
		all, head := b.peers(of, 0)
		b.equal([]any{of, all, head}, []any{of, want, int64(2)})
	}
	publish(node)
	get(b.Retract(ctx, j.Ref(), node, i.ID))(b) // which node2 has served all the time
	for of, want := range map[string][]string{node: {"+web1"}, "node2": {"-web1"}} {
		all, head := b.peers(of, 2)
		b.equal([]any{of, all, head}, []any{of, want, int64(4)})
	}
}

// A node is told of the guests in overlays that are peers of those of its own, and of both networks.
func testOverlayPeers(b *bench) {
	ctx := context.Background()
	b.world()
	for i, name := range []string{"wide", "deep"} {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 81 + byte(i)}), 24)
		get(b.CreateNetwork(ctx, seedbed.Network{Name: name, Kind: seedbed.NetworkIsolated, Bridge: name + "0", MAC: newMAC(), VNI: 4711 + i,
			Prefix: p, Gateway: p.Addr().Next(), DHCP: true, NetworkOptions: seedbed.NetworkOptions{MTU: 1400}}))(b)
	}
	get(b.peered("wide", []string{"deep"}, nil))(b)
	j, one := b.runningIn("web1", "wide")
	k, two := b.runningIn("web2", "deep")
	get(b.Publish(ctx, j.Ref(), node, guestOf(one), seedbed.Documents{}))(b)
	get(b.Publish(ctx, k.Ref(), "node2", guestOf(two), seedbed.Documents{}))(b)
	for of, want := range map[string][]string{node: {"-web1", "+web2"}, "node2": {"+web1", "-web2"}} {
		all, _ := b.peers(of, 0)
		b.equal([]any{of, all}, []any{of, want})
		page := get(b.FeedPage(ctx, of, 0, ""))(b)
		peers := map[string][]string{}
		for _, n := range page.Networks {
			peers[n.Name] = n.Peers
		}
		b.equal(peers, map[string][]string{"default": nil, "wide": {"deep"}, "deep": {"wide"}})
	}
}
