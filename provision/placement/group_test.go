package placement

import (
	"strings"
	"testing"

	"seedbed"
)

// grouped returns the fleet with an instance of the group "web" on each of some nodes, in their order web1, web2 and so on.
func grouped(nodes ...string) snapshot {
	p := fleetOf()
	p.members = map[seedbed.GroupMember]int{{Group: "other", Instance: "other1", Node: "hv2"}: 1}
	for i, n := range nodes {
		p.members[seedbed.GroupMember{Group: "web", Instance: member(i), Node: n}] = 1
	}
	return p
}

func member(i int) seedbed.InstanceID { return seedbed.InstanceID("web" + string(rune('1'+i))) }

func TestPlacementGroups(t *testing.T) {
	t.Parallel()
	const (
		together, apart = seedbed.Affinity, seedbed.AntiAffinity
		near, far       = seedbed.SoftAffinity, seedbed.SoftAntiAffinity
	)
	cordoned := func(p snapshot, node string) snapshot {
		for i := range p.nodes {
			p.nodes[i].Cordoned = p.nodes[i].Cordoned || p.nodes[i].Name == node
		}
		return p
	}
	for _, test := range []struct {
		name   string
		at     snapshot
		want   Demand
		node   string // chosen, or empty
		reason string // why none
	}{
		{"no group", grouped("hv2"), Demand{}, "hv2", ""},
		{"another group", grouped(), Demand{Group: "web", Policy: apart}, "hv2", ""},
		{"apart from one", grouped("hv2"), Demand{Group: "web", Policy: apart}, "hv3", ""},
		{"apart from two", grouped("hv2", "hv3"), Demand{Group: "web", Policy: apart}, "hv1", ""},
		{"apart from all", grouped("hv2", "hv3", "hv1"), Demand{Group: "web", Policy: apart}, "",
			"another instance of the placement group web (anti-affinity) is there"},
		{"apart from itself", grouped("hv2", "hv3", "hv1"), Demand{Group: "web", Policy: apart, ID: member(0)}, "hv2", ""},
		{"apart on a node that is asked for", grouped("hv3"), Demand{Group: "web", Policy: apart, Node: "hv3"}, "", "another instance"},
		{"the first of those together", grouped(), Demand{Group: "web", Policy: together}, "hv2", ""},
		{"together", grouped("hv1"), Demand{Group: "web", Policy: together}, "hv1", ""},
		{"together, and that is cordoned", cordoned(grouped("hv1"), "hv1"), Demand{Group: "web", Policy: together}, "",
			"the other instances of the placement group web (affinity) are on node hv1"},
		{"one of those together leaves", grouped("hv1", "hv1"), Demand{Group: "web", Policy: together, ID: member(0), From: "hv1"}, "",
			"are on node hv1"},
		{"the first leaves a cordoned node", cordoned(grouped("hv1", "hv1"), "hv1"),
			Demand{Group: "web", Policy: together, ID: member(0), From: "hv1"}, "hv2", ""},
		{"the second follows", cordoned(grouped("hv3", "hv1"), "hv1"),
			Demand{Group: "web", Policy: together, ID: member(1), From: "hv1"}, "hv3", ""},
		{"far", grouped("hv2"), Demand{Group: "web", Policy: far}, "hv3", ""},
		{"far, with as many everywhere", grouped("hv1", "hv2", "hv3"), Demand{Group: "web", Policy: far}, "hv2", ""},
		{"near", grouped("hv1"), Demand{Group: "web", Policy: near}, "hv1", ""},
		{"near, and that is cordoned", cordoned(grouped("hv1"), "hv1"), Demand{Group: "web", Policy: near}, "hv2", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := placerOf(test.at, Config{})
			node, _, explained := p.Explain(t.Context(), test.want)
			r, err := p.Choose(t.Context(), test.want)
			switch {
			case test.reason != "" && (err == nil || !strings.Contains(err.Error(), test.reason)):
				t.Errorf("chosen %+v, %v; want an error with %q", r, err, test.reason)
			case test.reason == "" && (err != nil || r.Node != test.node):
				t.Errorf("chosen %+v, %v; want %s", r, err, test.node)
			case (explained == nil) != (err == nil) || node != test.node:
				t.Errorf("explained %s, %v; chosen %v", node, explained, err)
			}
		})
	}
}

// A choice counts for its group at once, until it is given back.
func TestChoicesAreGrouped(t *testing.T) {
	t.Parallel()
	p := placerOf(grouped(), Config{})
	at := map[string]*Reservation{}
	for i := range 3 {
		r, err := p.Choose(t.Context(), Demand{ID: member(i), Group: "web", Policy: seedbed.AntiAffinity})
		if err != nil || at[r.Node] != nil {
			t.Fatalf("choice %d: %+v, %v", i, r, err)
		}
		at[r.Node] = r
	}
	fourth := Demand{ID: member(3), Group: "web", Policy: seedbed.AntiAffinity}
	if r, err := p.Choose(t.Context(), fourth); err == nil {
		t.Fatalf("a fourth choice among three nodes: %s", r.Node)
	}
	at["hv1"].Settle(false)
	if r, err := p.Choose(t.Context(), fourth); err != nil || r.Node != "hv1" {
		t.Errorf("after one was given back: %+v, %v", r, err)
	}
	why, err := p.Apart(t.Context(), Demand{ID: member(4), Group: "web", Policy: seedbed.AntiAffinity, Node: "hv2"})
	if err != nil || !strings.Contains(why, "another instance") {
		t.Errorf("joined on hv2: %q, %v", why, err)
	}
}
