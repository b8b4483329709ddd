package provision

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"seedbed"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// fleetOf are three nodes that differ in everything that a selector goes by, all
// of which answer, with a pool of their own each and one that they share.
func fleetOf() picture {
	report := func(cpus int, load float64, memory, free seedbed.Bytes, domains int) seedbed.NodeReport {
		return seedbed.NodeReport{CPUs: cpus, Load: load, Memory: memory, MemoryFree: free, Domains: domains,
			Pools: []seedbed.PoolInfo{{Name: "default", Type: "dir"}, {Name: "vms", Type: "ceph", Shared: true}}}
	}
	return picture{
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

// told answers a placer's questions from a picture.
type told struct {
	picture
	err   error
	reads int
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

func placerOf(p picture, conf PlacementConfig) *placer {
	placer := newPlacer(&told{picture: p}, "hv1", conf)
	placer.now = func() time.Time { return noon }
	return placer
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	local := seedbed.Image{Name: "debian", Pool: "default", Node: "hv3"}
	shared := seedbed.Image{Name: "debian", Pool: "vms", Node: "hv3"}
	small := demand{name: "web1", vcpus: 1, memory: seedbed.GiB, pools: []string{"default"}}
	with := func(change func(*demand)) demand { d := small; change(&d); return d }
	on := func(name string, change func(*seedbed.Node)) func(*picture) {
		return func(p *picture) {
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
		demand demand
		conf   PlacementConfig
		change func(*picture)
	}{
		{name: "mem", want: "hv2 hv3 hv1", says: "mem: 40.0GiB free", demand: small},
		{name: "mem that is promised", want: "hv3 hv1 hv2", says: "mem: 5.0GiB free", demand: small, change: func(p *picture) {
			p.use["hv2"] = seedbed.NodeUse{Node: "hv2", ComingMemory: 35 * seedbed.GiB}
		}},
		{name: "memprov", want: "hv2 hv3 hv1", says: "memprov: 8.0GiB of 64.0GiB given out", demand: with(func(d *demand) { d.selector = "memprov" })},
		{name: "vcpus", want: "hv2 hv3 hv1", says: "vcpus: 12 given out", demand: with(func(d *demand) { d.selector = "vcpus" })},
		{name: "load", want: "hv1 hv3 hv2", says: "load: 0.50", demand: with(func(d *demand) { d.selector = "load" })},
		{name: "load that is coming", want: "hv3 hv2 hv1", says: "load: 8.50", demand: with(func(d *demand) { d.selector = "load" }), change: func(p *picture) {
			p.use["hv1"] = seedbed.NodeUse{Node: "hv1", ComingVCPUs: 8}
		}},
		{name: "vms, those of others too", want: "hv1 hv3 hv2", says: "vms: 9", demand: with(func(d *demand) { d.selector = "vms" })},
		{name: "the installation's selector", want: "hv1 hv3 hv2", demand: small, conf: PlacementConfig{Selector: "load"}},
		{name: "the template's goes before it", want: "hv2 hv3 hv1", demand: with(func(d *demand) { d.selector = "vcpus" }), conf: PlacementConfig{Selector: "load"}},
		{name: "ties by name", want: "hv1 hv2 hv3", demand: with(func(d *demand) { d.selector = "vcpus" }), change: func(p *picture) { clear(p.use) }},

		{name: "named", want: "hv3", says: "node hv3 was asked for", demand: with(func(d *demand) { d.node = "hv3" })},
		{name: "named, not there", kind: seedbed.ErrInvalid, says: `node "hv9" does not exist: there are hv1, hv2, hv3 (seedbed node list)`, demand: with(func(d *demand) { d.node = "hv9" })},
		{name: "named, cordoned", kind: seedbed.ErrFull, says: `node "hv3" cannot take instance "web1": it is cordoned (seedbed node uncordon hv3)`,
			demand: with(func(d *demand) { d.node = "hv3" }), change: on("hv3", cordoned)},
		{name: "named, without the pool", kind: seedbed.ErrInvalid, says: `node "hv3" cannot take instance "web1": it has no pool "ssd"`,
			demand: with(func(d *demand) { d.node, d.pools = "hv3", []string{"ssd"} })},
		{name: "named, outside the limit", kind: seedbed.ErrInvalid, says: `node "hv3" cannot take instance "web1": the system template "big" keeps its machines to the nodes hv1, hv2`,
			demand: with(func(d *demand) { d.node, d.template, d.limit = "hv3", "big", []string{"hv1", "hv2"} })},
		{name: "named, away", want: "hv3", says: "no route to host", demand: with(func(d *demand) { d.node = "hv3" }), change: on("hv3", away)},

		{name: "limit", want: "hv3 hv1", says: `"big" keeps its machines to the nodes hv1, hv3`, demand: with(func(d *demand) { d.template, d.limit = "big", []string{"hv1", "hv3"} })},
		{name: "limit to what is not there", kind: seedbed.ErrInvalid, says: `no node can take instance "web1": hv2, hv3, hv1: the system template "big" keeps its machines to the nodes hv9`,
			demand: with(func(d *demand) { d.template, d.limit = "big", []string{"hv9"} })},
		{name: "pool of one", want: "hv1", says: `it has no pool "ssd"`, demand: with(func(d *demand) { d.pools = []string{"default", "ssd"} }),
			change: on("hv1", func(n *seedbed.Node) { n.Report.Pools = append(n.Report.Pools, seedbed.PoolInfo{Name: "ssd"}) })},
		{name: "pool of one that has not reported", want: "hv1 hv2", says: "it has not reported yet", demand: with(func(d *demand) { d.pools = []string{"ssd"} }),
			change: func(p *picture) {
				on("hv1", func(n *seedbed.Node) { n.Report.Pools = append(n.Report.Pools, seedbed.PoolInfo{Name: "ssd"}) })(p)
				on("hv2", func(n *seedbed.Node) { n.Seen, n.Report = time.Time{}, seedbed.NodeReport{} })(p)
			}},
		{name: "image of one", want: "hv3", says: `image "debian" is in pool "default" of node hv3 alone`, demand: with(func(d *demand) { d.images = []seedbed.Image{local} })},
		{name: "image of one, in a pool that another calls shared", want: "hv3", says: `image "debian" is in pool "default" of node hv3 alone`,
			demand: with(func(d *demand) { d.images = []seedbed.Image{local} }),
			change: on("hv2", func(n *seedbed.Node) { n.Report.Pools = []seedbed.PoolInfo{{Name: "default", Shared: true}} })},
		{name: "image in a shared pool", want: "hv2 hv3 hv1", demand: with(func(d *demand) { d.images = []seedbed.Image{shared} })},
		{name: "image of nobody knows where", want: "hv2 hv3 hv1", demand: with(func(d *demand) { d.images = []seedbed.Image{{Name: "debian", Pool: "default"}} })},
		{name: "images of two", kind: seedbed.ErrInvalid, says: `hv2, hv1: image "debian" is in pool "default" of node hv3 alone; hv3: image "data" is in pool "default" of node hv1 alone`,
			demand: with(func(d *demand) {
				d.images = []seedbed.Image{local, {Name: "data", Pool: "default", Node: "hv1"}}
			})},

		{name: "cordoned", want: "hv3 hv1", says: "it is cordoned", demand: small, change: on("hv2", cordoned)},
		{name: "all cordoned", kind: seedbed.ErrFull, says: "hv3: it is cordoned (seedbed node uncordon hv3)", demand: small, change: on("*", cordoned)},
		{name: "away comes last", want: "hv3 hv1 hv2", says: "the job would wait for it: no route to host", demand: small, change: on("hv2", away)},
		{name: "silent comes last", want: "hv3 hv1 hv2", says: "has not been heard of", demand: small,
			change: on("hv2", func(n *seedbed.Node) { n.Seen = noon.Add(-2 * time.Minute) })},
		{name: "all away", want: "hv2 hv3 hv1", demand: small, change: on("*", away)},

		{name: "memory that fits", want: "hv2 hv3", says: "40.0GiB of its memory are given out, and placement.memory_overcommit allows 32.0GiB: 1.0GiB more do not fit",
			demand: small, conf: PlacementConfig{MemoryOvercommit: 0.5}},
		{name: "memory to the last byte", want: "hv2 hv1", demand: with(func(d *demand) { d.memory = 56 * seedbed.GiB }), conf: PlacementConfig{MemoryOvercommit: 1.5}},
		{name: "no memory", kind: seedbed.ErrFull, says: `no node can take instance "web1": hv2: 8.0GiB of its memory`, demand: with(func(d *demand) { d.memory = 57 * seedbed.GiB }),
			conf: PlacementConfig{MemoryOvercommit: 1}},
		{name: "vCPUs that fit", want: "hv2 hv1", says: "6 vCPUs are given out, and placement.vcpu_overcommit allows 8: 4 more do not fit",
			demand: with(func(d *demand) { d.vcpus = 4 }), conf: PlacementConfig{VCPUOvercommit: 1}},
		{name: "no bound without a report", want: "hv1 hv2 hv3", demand: with(func(d *demand) { d.memory = seedbed.TiB }), conf: PlacementConfig{MemoryOvercommit: 1, VCPUOvercommit: 1},
			change: on("*", func(n *seedbed.Node) { n.Seen, n.Report = time.Time{}, seedbed.NodeReport{} })},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := fleetOf()
			if test.change != nil {
				test.change(&p)
			}
			node, all, err := placerOf(p, test.conf).explain(t.Context(), test.demand)
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
			seat, chosenErr := placerOf(p, test.conf).choose(t.Context(), test.demand)
			if (chosenErr == nil) != (err == nil) || chosenErr == nil && seat.node != node {
				t.Errorf("explained %q, %v, and chose %v, %v", node, err, seat, chosenErr)
			}
		})
	}
}

// Without any node there is nothing to choose; with none in the database this
// host is the only one.
func TestPlacementWithoutNodes(t *testing.T) {
	t.Parallel()
	none := newPlacer(&told{}, "", PlacementConfig{})
	if _, err := none.choose(t.Context(), demand{name: "web1"}); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "seedbed node add") {
		t.Errorf("no node: %v", err)
	}
	if _, err := none.holder(t.Context(), "default", ""); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), `the pool "default"`) {
		t.Errorf("no node for an image: %v", err)
	}
	own := newPlacer(&told{}, "here", PlacementConfig{})
	if s, err := own.choose(t.Context(), demand{name: "web1", pools: []string{"default"}}); err != nil || s.node != "here" {
		t.Errorf("this host alone: %v, %v", s, err)
	}
	broken := newPlacer(&told{err: seedbed.Errorf(seedbed.ErrUnavailable, "no database")}, "here", PlacementConfig{})
	if _, err := broken.choose(t.Context(), demand{}); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("no picture: %v", err)
	}
}

// Images are made where they are asked for, here, or on the first node with the pool.
func TestPlacementOfImages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pool, asked, want, says string
		change                  func([]seedbed.Node)
	}{
		"here":                       {pool: "default", want: "hv1"},
		"here, cordoned":             {pool: "default", want: "hv1", change: func(n []seedbed.Node) { n[0].Cordoned = true }},
		"asked for":                  {pool: "default", asked: "hv3", want: "hv3"},
		"asked for, not there":       {pool: "default", asked: "hv9", says: `node "hv9" does not exist`},
		"asked for, without it":      {pool: "ssd", asked: "hv3", says: `node "hv3" cannot take it: it has no pool "ssd"`},
		"elsewhere":                  {pool: "default", want: "hv2", change: func(n []seedbed.Node) { n[0].Report.Pools = nil }},
		"elsewhere, the first away":  {pool: "default", want: "hv3", change: func(n []seedbed.Node) { n[0].Report.Pools, n[1].Problem = nil, "no route" }},
		"elsewhere, this is no node": {pool: "default", want: "hv2", change: func(n []seedbed.Node) { n[0].Name = "hv9" }},
		"nowhere":                    {pool: "ssd", says: `no node has the pool "ssd"`},
	} {
		p := fleetOf()
		if test.change != nil {
			test.change(p.nodes)
		}
		got, err := placerOf(p, PlacementConfig{}).holder(t.Context(), test.pool, test.asked)
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
		if got, err := placerOf(fleetOf(), PlacementConfig{}).keeper(t.Context(), test.image); err != nil || got != test.want {
			t.Errorf("image %s: %q, %v; want %q", name, got, err, test.want)
		}
	}
}
