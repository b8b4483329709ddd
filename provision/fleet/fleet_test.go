package fleet_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/fleet"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// directory is the record of the nodes, in memory.
type directory struct {
	mu    sync.Mutex
	nodes []seedbed.Node
}

func (d *directory) Nodes(context.Context) ([]seedbed.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.nodes), nil
}

func (d *directory) NoteNode(_ context.Context, name string, r seedbed.NodeReport, problem string, at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.nodes {
		if n := &d.nodes[i]; n.Name == name {
			if n.Problem = problem; problem == "" {
				n.Report, n.Seen = r, at
			}
			return nil
		}
	}
	return seedbed.Errorf(seedbed.ErrNotFound, "node %q does not exist", name)
}

func (d *directory) set(nodes ...seedbed.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = nodes
}

// fleetLab is a fleet of the nodes hv1 and hv2, whose home is hv1. Each has its own pool "default",
// and both share "rbd"; hv3 is known but has no address.
type fleetLab struct {
	*fleet.Fleet
	dir    *directory
	labs   map[string]*lab
	common *drivertest.Pool
}

func startFleet(t *testing.T) *fleetLab {
	t.Helper()
	l := &fleetLab{dir: &directory{}, labs: map[string]*lab{}, common: drivertest.NewPool()}
	l.common.SetShared("rbd")
	for _, name := range []string{"hv1", "hv2"} {
		l.labs[name] = startNode(t, way, name, map[string]worker.Pool{"rbd": l.common})
	}
	l.dir.set(seedbed.Node{Name: "hv1", Worker: l.labs["hv1"].at}, seedbed.Node{Name: "hv2", Worker: l.labs["hv2"].at})
	l.run(t, 50*time.Millisecond)
	l.eventually(t, "reports of both", func() bool {
		return !slices.ContainsFunc(l.Nodes(), func(n seedbed.Node) bool { return n.Seen.IsZero() })
	})
	return l
}

// run opens the fleet, which requests reports at that interval, and runs it until the end of t.
func (l *fleetLab) run(t *testing.T, report time.Duration) {
	t.Helper()
	var err error
	l.Fleet, err = fleet.Open(t.Context(), fleet.Config{Directory: l.dir, Home: "hv1", Dial: func(n seedbed.Node) (*fleet.Client, error) {
		if n.Worker == "" {
			return nil, seedbed.Errorf(seedbed.ErrUnavailable, "the worker of node %s has no address", n.Name)
		}
		return way.client(n.Worker), nil
	}})
	must(t, "open", err)
	l.Hurry(10*time.Millisecond, report)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestNewNode checks that a node that is added, or gets another address, is asked at once.
func TestNewNode(t *testing.T) {
	t.Parallel()
	l := &fleetLab{dir: &directory{}, labs: map[string]*lab{"hv1": startNode(t, way, "hv1", nil)}}
	l.run(t, time.Hour)
	l.dir.set(seedbed.Node{Name: "hv1"})
	l.eventually(t, "its problem", func() bool { n := l.Nodes(); return len(n) == 1 && strings.Contains(n[0].Problem, "no address") })
	l.dir.set(seedbed.Node{Name: "hv1", Worker: l.labs["hv1"].at})
	l.eventually(t, "its report", func() bool { n := l.Nodes(); return len(n) == 1 && n[0].Report.CPUs > 0 })
}

func (l *fleetLab) eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // between two polls
	}
}

func TestFleetReports(t *testing.T) {
	t.Parallel()
	l := startFleet(t)
	id := seedbed.NewInstanceID()
	l.labs["hv2"].domain.AddForeign(id, "theirs")
	l.labs["hv2"].domain.SetState(id, seedbed.DomainRunning, "started")
	want := seedbed.NodeReport{CPUs: 4, Load: 0.5, Memory: 8 * seedbed.GiB, MemoryFree: 6 * seedbed.GiB, Domains: 1, Arch: "x86_64",
		Hypervisor: "memory (none)"}
	l.eventually(t, "the domain in the report", func() bool { return l.Nodes()[1].Report.Domains == 1 })
	got := l.Nodes()[1].Report
	pools := got.Pools
	got.Pools = nil
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
	if len(pools) != 2 || pools[0].Name != "default" || pools[0].Shared || pools[1].Name != "rbd" || !pools[1].Shared || pools[1].Size == 0 {
		t.Errorf("pools %+v", pools)
	}
	must(t, "stop", l.labs["hv2"].stop())
	l.eventually(t, "the problem of hv2", func() bool { return strings.Contains(l.Nodes()[1].Problem, "does not answer") })
	if l.Nodes()[0].Problem != "" {
		t.Errorf("hv1: %s", l.Nodes()[0].Problem)
	}
	l.labs["hv2"].serve(t)
	l.eventually(t, "hv2 again", func() bool { return l.Nodes()[1].Problem == "" })

	// New nodes are asked, removed ones are no longer known, and an address may change.
	l.dir.set(seedbed.Node{Name: "hv2", Worker: l.labs["hv1"].at}, seedbed.Node{Name: "hv3"})
	l.eventually(t, "the problem of hv3", func() bool { n := l.Nodes(); return len(n) == 2 && strings.Contains(n[1].Problem, "no address") })
	if _, err := effects.Inventory.Ask(t.Context(), l.Of("hv1"), effects.None{}); !errors.Is(err, seedbed.ErrUnavailable) ||
		!strings.Contains(err.Error(), `"hv1" is not a hypervisor`) || !strings.Contains(err.Error(), "hv2, hv3") {
		t.Errorf("a node that went: %v", err)
	}
	if inv, err := effects.Inventory.Ask(t.Context(), l.Of("hv2"), effects.None{}); err != nil || inv.Node != "hv1" {
		t.Errorf("the worker at the new address: %+v, %v", inv, err)
	}
	if err := l.Of("hv3").Supersede(t.Context(), call(1)); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("a worker without an address: %v", err)
	}
	_, err := l.ReceiveUpload(t.Context(), seedbed.UploadSpec{Pool: "default", Node: "hv3", ID: "u1"}, strings.NewReader("x"))
	if !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("an upload to it: %v", err)
	}
}

func TestFleetUpload(t *testing.T) {
	t.Parallel()
	l, ctx := startFleet(t), t.Context()
	path, _ := drivertest.BootableFile(t)
	disk, err := os.ReadFile(path)
	must(t, "read", err)
	take := func(node, id string) (seedbed.Upload, error) {
		return l.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "default", Node: node, ID: id}, strings.NewReader(string(disk)))
	}
	for node, want := range map[string]string{"": "hv1", "hv2": "hv2"} {
		up, err := take(node, "u"+want)
		must(t, "upload", err)
		if up.Node != want || l.labs[want].pool.Uploads() != 1 {
			t.Errorf("asked of %q: %+v", node, up)
		}
		must(t, "drop", l.DropUpload(ctx, up))
		if l.labs[want].pool.Uploads() != 0 {
			t.Errorf("the upload to %s stays", want)
		}
	}
	if _, err := take("hv9", "u9"); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("to a node that is none: %v", err)
	}
	if _, err := l.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "none", ID: "u"}, strings.NewReader("")); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("into a pool that is none: %v", err)
	}
	must(t, "stop", l.labs["hv1"].stop())
	l.eventually(t, "hv1 is away", func() bool { return l.Nodes()[0].Problem != "" })
	if up, err := take("", "u3"); err != nil || up.Node != "hv2" {
		t.Errorf("while the first is away: %+v, %v", up, err)
	}
}

func TestFleetDomains(t *testing.T) {
	t.Parallel()
	l, ctx := startFleet(t), t.Context()
	for node, names := range map[string][]string{"hv1": {"only1", "twice"}, "hv2": {"only2", "twice"}} {
		for _, name := range names {
			l.labs[node].domain.AddForeign(seedbed.NewInstanceID(), name)
		}
	}
	all, err := l.ForeignDomains(ctx, "")
	must(t, "list", err)
	var got []string
	for _, d := range all {
		got = append(got, d.Node+" "+d.Name)
	}
	slices.Sort(got)
	if d := cmp.Diff([]string{"hv1 only1", "hv1 twice", "hv2 only2", "hv2 twice"}, got); d != "" {
		t.Errorf("all (-want +got):\n%s", d)
	}
	for _, tt := range []struct {
		node, name, on string
		err            error
		says           string
	}{
		{"", "only2", "hv2", nil, ""},
		{"", "twice", "", seedbed.ErrConflict, "is on hv1 and hv2"},
		{"hv2", "twice", "hv2", nil, ""},
		{"hv1", "only2", "", seedbed.ErrNotFound, "only2"},
		{"", "none", "", seedbed.ErrNotFound, "none"},
		{"hv9", "only1", "", seedbed.ErrNotFound, "hv9"},
	} {
		d, err := l.ForeignDomain(ctx, tt.node, tt.name)
		if d.Node != tt.on || !errors.Is(err, tt.err) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q on %q: on %q, %v", tt.name, tt.node, d.Node, err)
		}
	}
	for name, want := range map[string]bool{"only1": true, "none": false} {
		if there, err := l.HasDomain(ctx, "hv1", name); there != want || err != nil {
			t.Errorf("domain %s on hv1: %v, %v", name, there, err)
		}
	}
	id := seedbed.NewInstanceID()
	must(t, "define", effects.DefineDomain.Do(ctx, l.Of("hv2"), call(1), seedbed.DomainSpec{ID: id, Name: "vm"}))
	l.labs["hv2"].domain.Write(id, "login: ")
	if text, err := l.Console(ctx, "hv2", id, 100); err != nil || string(text) != "login: " {
		t.Errorf("console %q, %v", text, err)
	}
	if _, err := l.Console(ctx, "hv1", id, 100); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("console on the wrong node: %v", err)
	}
	must(t, "stop", l.labs["hv1"].stop())
	if _, err := l.ForeignDomain(ctx, "", "only2"); !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "node hv1: ") {
		t.Errorf("while one is away, which may have one of that name: %v", err)
	}
}

func TestFleetHealth(t *testing.T) {
	t.Parallel()
	l := startFleet(t)
	must(t, "stop", l.labs["hv1"].stop())
	byName := map[string]seedbed.Check{}
	for _, c := range l.Health(t.Context()) {
		byName[c.Name] = c
	}
	if c := byName["hv1: worker"]; c.OK || c.Hint != "start seedbed-worker on this host" {
		t.Errorf("hv1: %+v", c)
	}
	if c := byName["hv2: worker"]; !c.OK || !byName["hv2: hypervisor"].OK {
		t.Errorf("hv2: %+v", byName)
	}
	l.dir.set(seedbed.Node{Name: "hv2", Worker: l.labs["hv2"].at})
	l.eventually(t, "one node", func() bool { return len(l.Nodes()) == 1 })
	if all := l.Health(t.Context()); all[0].Name != "worker" || !all[0].OK { // as on a single host
		t.Errorf("one node: %+v", all)
	}
	l.dir.set(seedbed.Node{Name: "hv3"}) // it is not told to start what it could not call
	l.eventually(t, "another node", func() bool { return len(l.Nodes()) == 1 && l.Nodes()[0].Name == "hv3" })
	if c := l.Health(t.Context())[0]; c.OK || !strings.Contains(c.Detail, "has no address") || !strings.Contains(c.Hint, "cluster.md") {
		t.Errorf("hv3: %+v", c)
	}
}

// TestSupersede checks that a worker that is told that another continues a job ends what it does
// for the job, and accepts no call of an earlier epoch any more.
func TestSupersede(t *testing.T) {
	t.Parallel()
	l, ctx := start(t), t.Context()
	started := gate(l, "CloneVolume")
	spec := volume()
	done := l.clone(ctx, call(1), spec)
	inner := wait(t, "start", started)
	must(t, "supersede", l.Supersede(ctx, call(2)))
	if inner.Err() == nil {
		t.Error("the effect goes on")
	}
	if err := wait(t, "end", done); !errors.Is(err, seedbed.ErrUnavailable) && !errors.Is(err, seedbed.ErrStale) {
		t.Errorf("the call ended with %v", err)
	}
	l.pool.Fail(nil)
	if _, err := effects.CloneVolume.Do(ctx, l, call(1), spec); !errors.Is(err, seedbed.ErrStale) {
		t.Errorf("a call of the epoch before: %v", err)
	}
	if err := l.Supersede(ctx, call(1)); !errors.Is(err, seedbed.ErrStale) {
		t.Errorf("told by who had the job before: %v", err)
	}
	_, err := effects.CloneVolume.Do(ctx, l, call(2), spec)
	must(t, "a call of the epoch", err)
	if err := l.Supersede(ctx, seedbed.Call{Job: "../x", Epoch: 1}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("of what is no job: %v", err)
	}
}
