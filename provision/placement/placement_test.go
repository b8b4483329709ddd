package placement

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// fleetOf are three nodes that differ in everything that a selector goes by, all
// of which answer, with a pool of their own each and one that they share.
func fleetOf() snapshot {
	report := func(cpus int, load float64, memory, free seedbed.Bytes, domains int) seedbed.NodeReport {
		return seedbed.NodeReport{CPUs: cpus, Load: load, Memory: memory, MemoryFree: free, Domains: domains,
			Pools: []seedbed.PoolInfo{{Name: "default", Type: "dir"}, {Name: "vms", Type: "ceph", Shared: true}}}
	}
	return snapshot{
		nodes: []seedbed.Node{
			{Name: "hv1", Seen: noon, Report: report(16, 0.5, 64*seedbed.GiB, 20*seedbed.GiB, 3)},
			{Name: "hv2", Seen: noon, Report: report(16, 4, 64*seedbed.GiB, 40*seedbed.GiB, 9)},
			{Name: "hv3", Seen: noon, Report: report(8, 2, 32*seedbed.GiB, 30*seedbed.GiB, 0)},
		},
		use: map[string]seedbed.NodeUse{
			"hv1": {Node: "hv1", Instances: 3, Running: 3, VCPUs: 12, Memory: 40 * seedbed.GiB},
			"hv2": {Node: "hv2", Instances: 2, Running: 2, VCPUs: 4, Memory: 8 * seedbed.GiB},
			"hv3": {Node: "hv3", Instances: 4, VCPUs: 6, Memory: 4 * seedbed.GiB},
		},
	}
}

// told answers a placer's questions from a snapshot.
type told struct {
	snapshot
	err     error
	reads   int
	changes int64
}

func (h *told) NodeChanges() int64 { return h.changes }

func (h *told) GroupMembers(context.Context) ([]seedbed.GroupMember, error) {
	return slices.Collect(maps.Keys(h.members)), nil
}

func (h *told) Nodes(context.Context) ([]seedbed.Node, error) {
	h.reads++
	return h.nodes, h.err
}

func (h *told) NodeUse(context.Context) (all []seedbed.NodeUse, err error) {
	for _, u := range h.use {
		all = append(all, u)
	}
	return all, h.err
}

func (h *told) PoolUse(context.Context) (all []seedbed.PoolUse, err error) {
	for at, size := range h.pools {
		all = append(all, seedbed.PoolUse{Node: at.node, Pool: at.pool, Size: size})
	}
	return all, h.err
}

func placerOf(p snapshot, conf Config) *Placer {
	placer := New(&told{snapshot: p}, "hv1", conf)
	placer.now = func() time.Time { return noon }
	return placer
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	local := seedbed.Image{Name: "debian", Pool: "default", Node: "hv3"}
	shared := seedbed.Image{Name: "debian", Pool: "vms", Node: "hv3"}
	small := Demand{Name: "web1", VCPUs: 1, Memory: seedbed.GiB, Pools: []string{"default"}}
	with := func(change func(*Demand)) Demand { d := small; change(&d); return d }
	on := func(name string, change func(*seedbed.Node)) func(*snapshot) {
		return func(p *snapshot) {
			for i := range p.nodes {
				if name == "*" || p.nodes[i].Name == name {
					change(&p.nodes[i])
				}
			}
		}
	}
	away := func(n *seedbed.Node) { n.Problem = "no route to host" }
	cordoned := func(n *seedbed.Node) { n.Cordoned = true }
	tests := []struct {
		name   string
		want   string // the nodes that can take it, the best first
		says   string // of the error, or of the reasons
		kind   error
		wants  Demand
		conf   Config
		change func(*snapshot)
	}{
		{name: "mem", want: "hv2 hv3 hv1", says: "mem: 40.0GiB free", wants: small},
		{name: "mem that is promised", want: "hv3 hv1 hv2", says: "mem: 5.0GiB free", wants: small, change: func(p *snapshot) {
			p.use["hv2"] = seedbed.NodeUse{Node: "hv2", ComingMemory: 35 * seedbed.GiB}
		}},
		{
			name: "memprov", want: "hv2 hv3 hv1", says: "memprov: 8.0GiB of 64.0GiB allocated",
			wants: with(func(d *Demand) { d.Selector = "memprov" }),
		},
		{name: "vcpus", want: "hv2 hv3 hv1", says: "vcpus: 12 allocated", wants: with(func(d *Demand) { d.Selector = "vcpus" })},
		{name: "load", want: "hv1 hv3 hv2", says: "load: 0.50", wants: with(func(d *Demand) { d.Selector = "load" })},
		{
			name:  "load that is coming",
			want:  "hv3 hv2 hv1",
			says:  "load: 8.50",
			wants: with(func(d *Demand) { d.Selector = "load" }),
			change: func(p *snapshot) {
				p.use["hv1"] = seedbed.NodeUse{Node: "hv1", ComingVCPUs: 8}
			},
		},
		{name: "vms, those of others too", want: "hv1 hv3 hv2", says: "vms: 9", wants: with(func(d *Demand) { d.Selector = "vms" })},
		{name: "the installation's selector", want: "hv1 hv3 hv2", wants: small, conf: Config{Selector: "load"}},
		{
			name: "the template's goes before it", want: "hv2 hv3 hv1", wants: with(func(d *Demand) { d.Selector = "vcpus" }),
			conf: Config{Selector: "load"},
		},
		{
			name: "ties by name", want: "hv1 hv2 hv3", wants: with(func(d *Demand) { d.Selector = "vcpus" }),
			change: func(p *snapshot) { clear(p.use) },
		},

		{name: "named", want: "hv3", says: "node hv3 was asked for", wants: with(func(d *Demand) { d.Node = "hv3" })},
		{
			name:  "named, not there",
			kind:  seedbed.ErrInvalid,
			says:  `node "hv9" does not exist: the nodes are hv1, hv2, hv3 (seedbed node list)`,
			wants: with(func(d *Demand) { d.Node = "hv9" }),
		},
		{
			name:   "named, cordoned",
			kind:   seedbed.ErrFull,
			says:   `node "hv3" cannot take instance "web1": it is cordoned (seedbed node uncordon hv3)`,
			wants:  with(func(d *Demand) { d.Node = "hv3" }),
			change: on("hv3", cordoned),
		},
		{
			name:  "named, without the pool",
			kind:  seedbed.ErrInvalid,
			says:  `node "hv3" cannot take instance "web1": it does not have the pool "ssd"`,
			wants: with(func(d *Demand) { d.Node, d.Pools = "hv3", []string{"ssd"} }),
		},
		{
			name:  "named, outside the limit",
			kind:  seedbed.ErrInvalid,
			says:  `node "hv3" cannot take instance "web1": the system template "big" limits its instances to the nodes hv1, hv2`,
			wants: with(func(d *Demand) { d.Node, d.Template, d.Limit = "hv3", "big", []string{"hv1", "hv2"} }),
		},
		{name: "named, away", want: "hv3", says: "no route to host", wants: with(func(d *Demand) { d.Node = "hv3" }), change: on("hv3", away)},

		{
			name:  "limit",
			want:  "hv3 hv1",
			says:  `"big" limits its instances to the nodes hv1, hv3`,
			wants: with(func(d *Demand) { d.Template, d.Limit = "big", []string{"hv1", "hv3"} }),
		},
		{
			name:  "limit to what is not there",
			kind:  seedbed.ErrInvalid,
			says:  `no node can take instance "web1": hv2, hv3, hv1: the system template "big" limits its instances to the nodes hv9`,
			wants: with(func(d *Demand) { d.Template, d.Limit = "big", []string{"hv9"} }),
		},
		{
			name:   "pool of one",
			want:   "hv1",
			says:   `it does not have the pool "ssd"`,
			wants:  with(func(d *Demand) { d.Pools = []string{"default", "ssd"} }),
			change: on("hv1", func(n *seedbed.Node) { n.Report.Pools = append(n.Report.Pools, seedbed.PoolInfo{Name: "ssd"}) }),
		},
		{
			name:  "pool of one that has not reported",
			want:  "hv1 hv2",
			says:  "it has not reported yet",
			wants: with(func(d *Demand) { d.Pools = []string{"ssd"} }),
			change: func(p *snapshot) {
				on("hv1", func(n *seedbed.Node) { n.Report.Pools = append(n.Report.Pools, seedbed.PoolInfo{Name: "ssd"}) })(p)
				on("hv2", func(n *seedbed.Node) { n.Seen, n.Report = time.Time{}, seedbed.NodeReport{} })(p)
			},
		},
		{
			name:  "image of one",
			want:  "hv3",
			says:  `image "debian" is only in pool "default" of node hv3`,
			wants: with(func(d *Demand) { d.Images = []seedbed.Image{local} }),
		},
		{name: "image of one, in a pool that another calls shared", want: "hv3", says: `image "debian" is only in pool "default" of node hv3`,
			wants:  with(func(d *Demand) { d.Images = []seedbed.Image{local} }),
			change: on("hv2", func(n *seedbed.Node) { n.Report.Pools = []seedbed.PoolInfo{{Name: "default", Shared: true}} })},
		{name: "image in a shared pool", want: "hv2 hv3 hv1", wants: with(func(d *Demand) { d.Images = []seedbed.Image{shared} })},
		{
			name: "image of nobody knows where", want: "hv2 hv3 hv1",
			wants: with(func(d *Demand) { d.Images = []seedbed.Image{{Name: "debian", Pool: "default"}} }),
		},
		{
			name: "images of two",
			kind: seedbed.ErrInvalid,
			says: `hv2, hv1: image "debian" is only in pool "default" of node hv3; hv3: image "data" is only in pool "default" of node hv1`,
			wants: with(func(d *Demand) {
				d.Images = []seedbed.Image{local, {Name: "data", Pool: "default", Node: "hv1"}}
			}),
		},

		{name: "cordoned", want: "hv3 hv1", says: "it is cordoned", wants: small, change: on("hv2", cordoned)},
		{
			name: "all cordoned", kind: seedbed.ErrFull, says: "hv3: it is cordoned (seedbed node uncordon hv3)", wants: small,
			change: on("*", cordoned),
		},
		{
			name: "away comes last", want: "hv3 hv1 hv2", says: "the job would wait for it: no route to host", wants: small, change: on("hv2", away),
		},
		{name: "silent comes last", want: "hv3 hv1 hv2", says: "has not reported", wants: small,
			change: on("hv2", func(n *seedbed.Node) { n.Seen = noon.Add(-2 * time.Minute) })},
		{name: "all away", want: "hv2 hv3 hv1", wants: small, change: on("*", away)},

		{
			name: "memory that fits", want: "hv2 hv3",
			says: "40.0GiB of its memory is allocated, and placement.memory_overcommit allows 32.0GiB: 1.0GiB more does not fit", wants: small,
			conf: Config{MemoryOvercommit: 0.5},
		},
		{
			name: "memory to the last byte", want: "hv2 hv1", wants: with(func(d *Demand) { d.Memory = 56 * seedbed.GiB }),
			conf: Config{MemoryOvercommit: 1.5},
		},
		{
			name:  "no memory",
			kind:  seedbed.ErrFull,
			says:  `no node can take instance "web1": hv2: 8.0GiB of its memory`,
			wants: with(func(d *Demand) { d.Memory = 57 * seedbed.GiB }),
			conf:  Config{MemoryOvercommit: 1},
		},
		{name: "vCPUs that fit", want: "hv2 hv1", says: "6 vCPUs are allocated, and placement.vcpu_overcommit allows 8: 4 more do not fit",
			wants: with(func(d *Demand) { d.VCPUs = 4 }), conf: Config{VCPUOvercommit: 1}},
		{
			name: "no bound without a report", want: "hv1 hv2 hv3", wants: with(func(d *Demand) { d.Memory = seedbed.TiB }),
			conf:   Config{MemoryOvercommit: 1, VCPUOvercommit: 1},
			change: on("*", func(n *seedbed.Node) { n.Seen, n.Report = time.Time{}, seedbed.NodeReport{} }),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := fleetOf()
			if test.change != nil {
				test.change(&p)
			}
			node, all, err := placerOf(p, test.conf).Explain(t.Context(), test.wants)
			said := []string{}
			able := []string{}
			for i, c := range all {
				said = append(said, c.Refused, c.Reason)
				if c.Refused == "" {
					able = append(able, c.Node)
				}
				if c.Chosen != (i == 0 && err == nil) {
					t.Errorf("%s: chosen %v", c.Node, c.Chosen)
				}
			}
			if len(all) != 3 {
				t.Errorf("%d nodes", len(all))
			}
			if err != nil {
				said = []string{err.Error()}
			}
			if got := strings.Join(able, " "); got != test.want || !errors.Is(err, test.kind) && (err != nil || test.kind != nil) {
				t.Errorf("can take it: %q, %v; want %q, %v", got, err, test.want, test.kind)
			}
			if err == nil && node != able[0] {
				t.Errorf("chosen %s of %v", node, able)
			}
			if !strings.Contains(strings.Join(said, "\n"), test.says) {
				t.Errorf("it says\n%s\nand not %q", strings.Join(said, "\n"), test.says)
			}
			reservation, chosenErr := placerOf(p, test.conf).Choose(t.Context(), test.wants)
			if (chosenErr == nil) != (err == nil) || chosenErr == nil && reservation.Node != node {
				t.Errorf("explained %q, %v, and chose %v, %v", node, err, reservation, chosenErr)
			}
		})
	}
}

// Without any node there is nothing to choose; with none in the database this
// host is the only one.
func TestPlacementWithoutNodes(t *testing.T) {
	t.Parallel()
	none := New(&told{}, "", Config{})
	if _, err := none.Choose(t.Context(), Demand{Name: "web1"}); !errors.Is(err, seedbed.ErrInvalid) ||
		!strings.Contains(err.Error(), "seedbed node add") {
		t.Errorf("no node: %v", err)
	}
	if _, err := none.Holder(t.Context(), "default", ""); !errors.Is(err, seedbed.ErrInvalid) ||
		!strings.Contains(err.Error(), `the pool "default"`) {
		t.Errorf("no node for an image: %v", err)
	}
	own := New(&told{}, "here", Config{})
	if s, err := own.Choose(t.Context(), Demand{Name: "web1", Pools: []string{"default"}}); err != nil || s.Node != "here" {
		t.Errorf("this host alone: %v, %v", s, err)
	}
	broken := New(&told{err: seedbed.Errorf(seedbed.ErrUnavailable, "no database")}, "here", Config{})
	if _, err := broken.Choose(t.Context(), Demand{}); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("no snapshot: %v", err)
	}
}

// Images are made where they are asked for, here, or on the first node with the pool.
func TestPlacementOfImages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pool, asked, want, says string
		change                  func([]seedbed.Node)
	}{
		"here":                  {pool: "default", want: "hv1"},
		"here, cordoned":        {pool: "default", want: "hv1", change: func(n []seedbed.Node) { n[0].Cordoned = true }},
		"asked for":             {pool: "default", asked: "hv3", want: "hv3"},
		"asked for, not there":  {pool: "default", asked: "hv9", says: `node "hv9" does not exist`},
		"asked for, without it": {pool: "ssd", asked: "hv3", says: `node "hv3" cannot take it: it does not have the pool "ssd"`},
		"elsewhere":             {pool: "default", want: "hv2", change: func(n []seedbed.Node) { n[0].Report.Pools = nil }},
		"elsewhere, the first away": {pool: "default", want: "hv3",
			change: func(n []seedbed.Node) { n[0].Report.Pools, n[1].Problem = nil, "no route" }},
		"elsewhere, this is no node": {pool: "default", want: "hv2", change: func(n []seedbed.Node) { n[0].Name = "hv9" }},
		"nowhere":                    {pool: "ssd", says: `no node has the pool "ssd"`},
	} {
		p := fleetOf()
		if test.change != nil {
			test.change(p.nodes)
		}
		got, err := placerOf(p, Config{}).Holder(t.Context(), test.pool, test.asked)
		if got != test.want || (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, test.want, test.says)
		}
	}
	for name, test := range map[string]struct {
		image seedbed.Image
		want  string
	}{
		"of one":        {seedbed.Image{Pool: "default", Node: "hv3"}, "hv3"},
		"of none":       {seedbed.Image{Pool: "default"}, "hv1"},
		"of all":        {seedbed.Image{Pool: "vms", Node: "hv3"}, "hv1"},
		"of one absent": {seedbed.Image{Pool: "default", Node: "hv9"}, "hv9"},
	} {
		if got, err := placerOf(fleetOf(), Config{}).Keeper(t.Context(), test.image); err != nil || got != test.want {
			t.Errorf("image %s: %q, %v; want %q", name, got, err, test.want)
		}
	}
}
