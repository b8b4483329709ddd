package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

var nodeCases = map[string]func(*bench){
	"nodes":                         testNodes,
	"node of the wrong form":        testBadNode,
	"node that is noted":            testNotedNode,
	"node of two that disagree":     testDisputedNode,
	"nodes with the same address":   testClaimedReach,
	"events of a node":              testNodeEvents,
	"node removed":                  testRemovedNode,
	"node removed, image elsewhere": testRemovedNodeShared,
	"use of nodes":                  testNodeUse,
	"image of a node":               testImageNode,
	"changes of nodes in the audit": testNodeAudit,
}

func testNodes(b *bench) {
	ctx := context.Background()
	b.equal(get(b.Nodes(ctx))(b), []seedbed.Node{})
	b.must(b.EnsureNode(ctx, "node1"))
	here := get(b.Node(ctx, "node1"))(b)
	b.equal(here, seedbed.Node{Name: "node1"}, cmpopts.IgnoreFields(seedbed.Node{}, "Created"))
	if here.Created.IsZero() {
		b.Error("it was made at no time")
	}
	two := get(b.AddNode(ctx, seedbed.Node{Name: "a2", Worker: "https://a2.example:7375", Cordoned: true,
		Problem: "said", Seen: day, Report: seedbed.NodeReport{CPUs: 4}}))(b)
	b.equal(two, seedbed.Node{Name: "a2", Worker: "https://a2.example:7375", Cordoned: true}, cmpopts.IgnoreFields(seedbed.Node{}, "Created"))
	b.equal(get(b.Nodes(ctx))(b), []seedbed.Node{two, here})
	_, err := b.AddNode(ctx, seedbed.Node{Name: "a2"})
	b.want(err, seedbed.ErrExists, `node "a2" exists`)

	changed := get(b.ChangeNode(ctx, "a2", func(n *seedbed.Node) error {
		n.Name, n.Worker, n.Cordoned, n.Problem, n.Seen = "b2", "https://10.0.0.2:7375", false, "x", day
		return nil
	}))(b)
	want := two
	want.Worker, want.Cordoned = "https://10.0.0.2:7375", false
	b.equal(changed, want)
	b.equal(get(b.Node(ctx, "a2"))(b), want)
	b.must(b.EnsureNode(ctx, "a2")) // it does not change
	b.equal(get(b.Node(ctx, "a2"))(b), want)
	_, err = b.ChangeNode(ctx, "a2", func(*seedbed.Node) error { return seedbed.Errorf(seedbed.ErrConflict, "not so") })
	b.want(err, seedbed.ErrConflict, "not so")
	for _, name := range []string{"none", "A2", "\x00"} {
		_, err = b.Node(ctx, name)
		b.want(err, seedbed.ErrNotFound, "does not exist")
		_, err = b.ChangeNode(ctx, name, func(*seedbed.Node) error { return nil })
		b.want(err, seedbed.ErrNotFound, "does not exist")
		b.want(b.RemoveNode(ctx, name), seedbed.ErrNotFound, "does not exist")
		b.want(b.NoteNode(ctx, name, seedbed.NodeReport{}, "", day), seedbed.ErrNotFound, "does not exist")
	}
}

func testBadNode(b *bench) {
	ctx := context.Background()
	b.must(b.EnsureNode(ctx, "node1"))
	b.want(b.EnsureNode(ctx, ""), seedbed.ErrInvalid, "expected 1 to 253")
	_, err := b.AddNode(ctx, seedbed.Node{Name: "a/b"})
	b.want(err, seedbed.ErrInvalid, `node name "a/b"`)
	_, err = b.AddNode(ctx, seedbed.Node{Name: "b", Worker: "hv2:7375"})
	b.want(err, seedbed.ErrInvalid, `worker "hv2:7375"`, "https://")
	_, err = b.ChangeNode(ctx, "node1", func(n *seedbed.Node) error {
		n.Worker = "http://hv2:7375"
		return nil
	})
	b.want(err, seedbed.ErrInvalid, "http://hv2:7375")
	pools := make([]seedbed.PoolInfo, 8192)
	b.want(b.NoteNode(ctx, "node1", seedbed.NodeReport{Pools: pools}, "", day), seedbed.ErrInvalid, "the report")
	b.equal(len(get(b.Nodes(ctx))(b)), 1)
}

var report = seedbed.NodeReport{CPUs: 8, Load: 0.25, Memory: 64 * seedbed.GiB,
	MemoryFree: 60 * seedbed.GiB, Domains: 3, Arch: "x86_64", Hypervisor: "QEMU 7.2.0 (kvm)",
	Pools: []seedbed.PoolInfo{{Name: "default", Type: "dir", Size: seedbed.GiB, Free: seedbed.MiB}, {Name: "vms", Type: "ceph", Shared: true}}}

// about allows for the precision of a converted time, because two clocks are read one after the
// other.
var about = cmpopts.EquateApproxTime(time.Second)

func testNotedNode(b *bench) {
	ctx := context.Background()
	b.must(b.EnsureNode(ctx, "node1"))
	b.must(b.NoteNode(ctx, "node1", report, "", day))
	n := get(b.Node(ctx, "node1"))(b)
	b.equal(n, seedbed.Node{Name: "node1", Report: report, Seen: day}, cmpopts.IgnoreFields(seedbed.Node{}, "Created"), about)
	b.equal(get(b.Nodes(ctx))(b), []seedbed.Node{n}, about)

	// A problem keeps the last report. A late report is ignored.
	later := day.Add(time.Minute)
	b.must(b.NoteNode(ctx, "node1", seedbed.NodeReport{}, "no answer", later))
	b.must(b.NoteNode(ctx, "node1", seedbed.NodeReport{CPUs: 1}, "", day.Add(-time.Second)))
	n.Problem = "no answer"
	b.equal(get(b.Node(ctx, "node1"))(b), n, about)
	b.must(b.NoteNode(ctx, "node1", seedbed.NodeReport{CPUs: 9}, "", later.Add(time.Second)))
	n.Problem, n.Seen, n.Report = "", later.Add(time.Second), seedbed.NodeReport{CPUs: 9}
	b.equal(get(b.Node(ctx, "node1"))(b), n, about)

	changed := get(b.ChangeNode(ctx, "node1", func(n *seedbed.Node) error { n.Cordoned = true; return nil }))(b)
	n.Cordoned = true
	b.equal(changed, n, about)
	b.must(b.NoteNode(ctx, "node1", report, "", later.Add(time.Hour)))
	b.equal(get(b.Node(ctx, "node1"))(b).Cordoned, true)
}

// A problem counts only when no control host has had an answer for a while.
func testDisputedNode(b *bench) {
	ctx := context.Background()
	b.endpoint("all", "node.*")
	b.must(b.EnsureNode(ctx, "node1"))
	at := day
	for range 4 { // one control host reaches it every 15 s, the other never
		b.must(b.NoteNode(ctx, "node1", report, "", at))
		b.must(b.NoteNode(ctx, "node1", seedbed.NodeReport{}, "refused", at.Add(14*time.Second)))
		at = at.Add(15 * time.Second)
	}
	b.equal(get(b.Node(ctx, "node1"))(b).Problem, "")
	b.equal(b.told("all"), []string{"1 node.up node1 pending"})
	b.must(b.NoteNode(ctx, "node1", seedbed.NodeReport{}, "refused", at.Add(11*time.Second)))
	b.equal(get(b.Node(ctx, "node1"))(b).Problem, "refused")
}

// The other nodes are told of one node with an address or a key: of the one that had it, until it is down.
func testClaimedReach(b *bench) {
	ctx := context.Background()
	wide := seedbed.Network{Name: "wide", Kind: seedbed.NetworkIsolated, Bridge: "wide0", MAC: newMAC(), VNI: 4711, DHCP: true,
		NetworkOptions: seedbed.NetworkOptions{MTU: 1400}, Identity: seedbed.IdentityTap,
		Prefix: netip.MustParsePrefix("10.98.0.0/24"), Gateway: netip.MustParseAddr("10.98.0.1")}
	get(b.CreateNetwork(ctx, wide))(b)
	for _, name := range []string{"hv1", "hv2", "hv3"} {
		get(b.AddNode(ctx, seedbed.Node{Name: name, Worker: "https://" + name + ":7375"}))(b)
	}
	at := day
	says := func(name, addr string, tunnel seedbed.Tunnel) {
		b.Helper()
		r := seedbed.NodeReport{Tunnel: tunnel}
		if addr != "" {
			r.Address = netip.MustParseAddr(addr)
		}
		at = at.Add(time.Second)
		b.must(b.NoteNode(ctx, name, r, "", at))
	}
	key := func(k byte) seedbed.Tunnel { return seedbed.Tunnel{Key: seedbed.TunnelKey{k}, Port: 51820} }
	unknown := seedbed.Tunnel{Port: 51820}
	told := func(want string) {
		b.Helper()
		page, text := get(b.FeedPage(ctx, "hv1", 0, ""))(b), ""
		for _, name := range slices.Sorted(maps.Keys(page.Nodes)) {
			text += fmt.Sprintf("%s %s %d; ", name, page.Nodes[name], page.Tunnels[name].Key[0])
		}
		b.equal(text, want)
	}
	says("hv1", "192.0.2.1", key(1))
	says("hv2", "192.0.2.2", key(2))
	told("hv1 192.0.2.1 1; hv2 192.0.2.2 2; ")
	for _, claim := range []struct {
		addr string
		key  byte
	}{{"192.0.2.1", 2}, {"192.0.2.2", 1}, {"192.0.2.1", 1}} {
		for range 2 { // it stays so
			says("hv2", claim.addr, key(claim.key))
			told("hv1 192.0.2.1 1; ")
		}
		says("hv2", "192.0.2.2", key(2))
		told("hv1 192.0.2.1 1; hv2 192.0.2.2 2; ")
	}
	says("hv2", "192.0.2.1", seedbed.Tunnel{})
	told("hv1 192.0.2.1 1; ")

	// Two that exchange their addresses are both told of in the end.
	says("hv2", "192.0.2.2", key(2))
	for range 2 {
		says("hv1", "192.0.2.2", key(1))
		says("hv2", "192.0.2.1", key(2))
	}
	told("hv1 192.0.2.2 1; hv2 192.0.2.1 2; ")

	// A key that is not known at present stays. Without one before, nobody is told to send in plain.
	says("hv1", "192.0.2.2", unknown)
	says("hv1", "", unknown)
	says("hv3", "192.0.2.3", unknown)
	told("hv1 192.0.2.2 1; hv2 192.0.2.1 2; ")
	says("hv3", "192.0.2.3", seedbed.Tunnel{})
	told("hv1 192.0.2.2 1; hv2 192.0.2.1 2; hv3 192.0.2.3 0; ")
	says("hv3", "192.0.2.3", unknown)
	told("hv1 192.0.2.2 1; hv2 192.0.2.1 2; ")

	// hv1 is gone, and its host reports as hv3. When it is back, it has neither.
	at = at.Add(time.Hour)
	b.must(b.NoteNode(ctx, "hv1", seedbed.NodeReport{}, "no answer", at))
	told("hv1 192.0.2.2 1; hv2 192.0.2.1 2; ")
	says("hv3", "192.0.2.2", key(3))
	told("hv2 192.0.2.1 2; hv3 192.0.2.2 3; ")
	says("hv1", "192.0.2.2", key(1))
	told("hv2 192.0.2.1 2; hv3 192.0.2.2 3; ")
	says("hv1", "192.0.2.4", key(1))
	told("hv1 192.0.2.4 1; hv2 192.0.2.1 2; hv3 192.0.2.2 3; ")
}

func testNodeEvents(b *bench) {
	ctx := context.Background()
	b.endpoint("all", "node.*")
	b.endpoint("down", seedbed.EventNodeDown)
	b.must(b.EnsureNode(ctx, "node1"))
	get(b.AddNode(ctx, seedbed.Node{Name: "node2", Worker: "https://n2:7375"}))(b)
	note := func(name, problem string, after time.Duration) {
		b.Helper()
		b.must(b.NoteNode(ctx, name, report, problem, day.Add(after)))
	}
	note("node2", "no certificate", 0) // it has never answered, so it cannot stop
	note("node1", "", 0)
	note("node1", "", time.Minute)
	note("node1", "no route", 2*time.Minute)
	note("node1", "no route", 3*time.Minute)
	note("node1", "refused", 4*time.Minute) // another reason is not an event
	note("node2", "", 4*time.Minute)
	note("node1", "", 5*time.Minute)
	b.equal(b.told("all"),
		[]string{"1 node.up node1 pending", "2 node.down node1 pending", "3 node.up node2 pending", "4 node.up node1 pending"})
	b.equal(b.told("down"), []string{"1 node.down node1 pending"})
	b.equal(get(b.Node(ctx, "node1"))(b).Problem, "")
	down := get(b.OutgoingDeliveries(ctx, "down", seedbed.OutgoingQuery{}))(b)[0]
	type told struct {
		Node    string    `json:"node"`
		Problem string    `json:"problem"`
		Seen    time.Time `json:"seen"`
	}
	var got told
	b.must(json.Unmarshal(down.Data, &got))
	b.equal(got, told{"node1", "no route", day.Add(time.Minute)}, about)
}

func testRemovedNode(b *bench) {
	ctx := context.Background()
	b.must(b.EnsureNode(ctx, node))
	b.network("default", "seedbed0", "10.99.0.0/24")
	a := importOf("debian")
	get(b.Accept(ctx, a))(b)
	j := b.claim()
	b.want(b.RemoveNode(ctx, node), seedbed.ErrConflict, "cordon it first", "seedbed node cordon "+node)
	b.cordon(node)
	b.want(b.RemoveNode(ctx, node), seedbed.ErrInUse, `image "debian"`)
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Image: &seedbed.ImageInfo{Size: seedbed.GiB}}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	i := b.instance("web1")
	b.want(b.RemoveNode(ctx, node), seedbed.ErrInUse, `instance "web1"`, "vm list")
	get(b.Accept(ctx, removeOf(i.ID)))(b)
	j = b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	b.want(b.RemoveNode(ctx, node), seedbed.ErrInUse, `image "debian"`, "no other node", "image remove")

	get(b.AddNode(ctx, seedbed.Node{Name: "node2", Worker: "https://n2:7375"}))(b)
	began := time.Now()
	b.cordon("node2")
	b.must(b.RemoveNode(ctx, "node2"))
	if took := time.Since(began); took < time.Second { // instances that were placed before the cordon may still arrive
		b.Errorf("removed %s after it was cordoned", took)
	}
	_, err := b.Node(ctx, "node2")
	b.want(err, seedbed.ErrNotFound)
	b.equal(len(get(b.Nodes(ctx))(b)), 1)
}

// cordon excludes a node from placement.
func (b *bench) cordon(name string) {
	b.Helper()
	get(b.ChangeNode(context.Background(), name, func(n *seedbed.Node) error { n.Cordoned = true; return nil }))(b)
}

func testRemovedNodeShared(b *bench) {
	ctx := context.Background()
	b.must(b.EnsureNode(ctx, node))
	a := importOf("debian")
	get(b.Accept(ctx, a))(b)
	shared := seedbed.NodeReport{Pools: []seedbed.PoolInfo{{Name: "default", Shared: true}}}
	get(b.AddNode(ctx, seedbed.Node{Name: "node2", Worker: "https://n2:7375"}))(b)
	b.must(b.NoteNode(ctx, "node2", shared, "", day))
	b.cordon(node)
	err := b.RemoveNode(ctx, node)
	b.want(err, seedbed.ErrInUse, "import job "+a.Job.ID.Short())
	b.equal(holder(err), a.Job.ID)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Image: &seedbed.ImageInfo{Size: seedbed.GiB}}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal(get(b.Image(ctx, "debian"))(b).Node, node)
	b.must(b.RemoveNode(ctx, node))
	b.equal(get(b.Image(ctx, "debian"))(b).Node, "")
}

// An image is on the node where its import job runs, and on the first node if that is not known.
func testImageNode(b *bench) {
	ctx := context.Background()
	unknown := importOf("unknown")
	unknown.Job.Node = ""
	get(b.Accept(ctx, unknown))(b)
	get(b.Accept(ctx, importOf("debian")))(b)
	b.must(b.EnsureNode(ctx, "first"))
	late := importOf("late")
	late.Job.Node = ""
	get(b.Accept(ctx, late))(b)
	b.must(b.EnsureNode(ctx, "second"))
	got := map[string]string{}
	for _, i := range get(b.Images(ctx))(b) {
		got[i.Name] = i.Node
	}
	b.equal(got, map[string]string{"debian": node, "late": "", "unknown": "first"})
	b.equal(get(b.Image(ctx, "debian"))(b).Node, node)
}

func testNodeAudit(b *bench) {
	ctx := seedbed.WithChange(context.Background(), &seedbed.Change{Actor: "token ci", Role: seedbed.RoleAdmin, Request: "POST /api/v1/nodes"})
	get(b.AddNode(ctx, seedbed.Node{Name: "node2", Worker: "https://n2:7375"}))(b)
	get(b.ChangeNode(ctx, "node2", func(n *seedbed.Node) error { n.Cordoned = true; return nil }))(b)
	get(b.ChangeNode(ctx, "node2", func(n *seedbed.Node) error { n.Cordoned = true; return nil }))(b) // no change
	b.must(b.NoteNode(ctx, "node2", report, "", day))                                                 // not requested by anyone
	b.must(b.RemoveNode(ctx, "node2"))
	b.want(b.RemoveNode(ctx, "node2"), seedbed.ErrNotFound)
	var what []string
	for _, e := range get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects()}))(b) {
		what = append(what, e.Actor+": "+e.What)
	}
	b.equal(what, []string{"token ci: remove node", "token ci: change node", "token ci: add node node2"})
}

func testNodeUse(b *bench) {
	ctx := context.Background()
	b.world()
	b.equal(get(b.NodeUse(ctx))(b), []seedbed.NodeUse{})
	made := func(name string, asked time.Time, state seedbed.InstanceState) {
		b.Helper()
		a := createOf(name)
		a.Job.Created = asked
		get(b.Accept(ctx, a))(b)
		j := b.claim()
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: state}))
	}
	made("web1", time.Now().Add(-time.Hour), seedbed.InstanceRunning) // its node's report includes it
	made("web2", time.Time{}, seedbed.InstanceRunning)
	made("web3", time.Now().Add(-time.Hour), seedbed.InstanceStopped)
	other := createOf("web4") // not made yet
	other.Job.Created = time.Now().Add(-time.Hour)
	other.Instance.System.Restart = seedbed.RestartAlways
	other.Instance.Node, other.Instance.VCPUs, other.Instance.Memory = "node2", 5, 3*seedbed.GiB
	get(b.Accept(ctx, other))(b)
	b.equal(get(b.NodeUse(ctx))(b), []seedbed.NodeUse{
		{Node: node, Instances: 3, Running: 2, VCPUs: 6, Memory: 3 * seedbed.GiB, ComingVCPUs: 2, ComingMemory: seedbed.GiB},
		{Node: "node2", Instances: 1, VCPUs: 5, Memory: 3 * seedbed.GiB, ComingVCPUs: 5, ComingMemory: 3 * seedbed.GiB,
			Restarts: 3 * seedbed.GiB},
	})
	size := other.Instance.Volumes[0].Size
	b.equal(get(b.PoolUse(ctx))(b), []seedbed.PoolUse{
		{Node: node, Pool: "default", Size: 3 * size}, {Node: "node2", Pool: "default", Size: size}})
}

// No new forward takes the port at which a node gets encrypted frames of overlays. One that was there before stays, and does not keep
// others from being changed.
func testForwardedTunnel(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.Accept(ctx, createOf("web1")))(b)
	forward := func(listens ...string) error {
		_, err := b.ChangeInstance(ctx, seedbed.InDefault("web1"), forwardTo(listens...),
			func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g })
		return err
	}
	b.must(forward("udp:51820-51830", "tcp:9"))
	get(b.AddNode(ctx, seedbed.Node{Name: "hv7", Worker: "https://hv7:7375"}))(b)
	b.must(b.NoteNode(ctx, "hv7", seedbed.NodeReport{Address: netip.MustParseAddr("192.0.2.2"),
		Tunnel: seedbed.Tunnel{Key: seedbed.TunnelKey{7}, Port: 51821}}, "", day))
	b.must(forward("udp:51820-51830", "udp:51831", "tcp:51821"))
	b.want(forward("udp:51820-51830", "udp:192.0.2.1:51821"), seedbed.ErrInvalid,
		"forward udp:192.0.2.1:51821: at UDP port 51821, node hv7 gets the encrypted frames of overlays")
	b.must(forward("udp:51831"))
	b.want(forward("udp:51820-51830"), seedbed.ErrInvalid, "choose another port")
}
