package placement

import (
	"strings"
	"testing"

	"seedbed"
)

// TestTolerateFailures places instances so that the memory of the other nodes does once the largest ones are lost. By the fleet, hv1 has
// 24 GiB that no instance was given, hv2 56 and hv3 28.
func TestTolerateFailures(t *testing.T) {
	t.Parallel()
	const gib = seedbed.GiB
	with := func(restarts ...seedbed.Bytes) snapshot {
		p := fleetOf()
		for i, n := range []string{"hv1", "hv2", "hv3"} {
			u := p.use[n]
			u.Restarts = restarts[i]
			p.use[n] = u
		}
		return p
	}
	for _, test := range []struct {
		name     string
		at       snapshot
		tolerate int
		want     Demand
		node     string
		refused  string
	}{
		{"not looked at", with(40*gib, 8*gib, 4*gib), 0, Demand{Memory: 50 * gib, Restarts: true}, "hv2", ""},
		{"nothing is started elsewhere", with(0, 0, 0), 1, Demand{Memory: 20 * gib}, "hv2", ""},
		{"it fits", with(0, 8*gib, 0), 1, Demand{Memory: 20 * gib, Restarts: true}, "hv2", ""},
		// Without hv2, 8 GiB of it and the new 50 find 24 + 28.
		{"it does not fit on the node that is asked for", with(0, 8*gib, 0), 1, Demand{Memory: 50 * gib, Restarts: true, Node: "hv2"}, "",
			"without hv2 (placement.tolerate_failures: 1), 58.0GiB of memory of instances that are started elsewhere would find 52.0GiB: " +
				"6.0GiB lacks"},
		// Wherever it goes, hv2 is free no more: 40 of hv1 find less.
		{"it takes the room of others", with(40*gib, 0, 0), 1, Demand{Memory: 50 * gib}, "", "lacks"},
		{"on another node", with(0, 8*gib, 0), 1, Demand{Memory: 26 * gib, Restarts: true}, "hv2", ""},
		{"two at a time", with(0, 8*gib, 0), 2, Demand{Memory: 20 * gib, Restarts: true}, "", "without hv2, hv3"},
		{"it moves", with(40*gib, 8*gib, 4*gib), 2, Demand{Memory: 20 * gib, Restarts: true, From: "hv1"}, "hv2", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, err := placerOf(test.at, Config{MemoryOvercommit: 1, TolerateFailures: test.tolerate}).Choose(t.Context(), test.want)
			switch {
			case test.refused == "" && (err != nil || r.Node != test.node):
				t.Errorf("chosen %+v, %v; want %s", r, err, test.node)
			case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
				t.Errorf("chosen %+v, %v; want an error with %q", r, err, test.refused)
			}
		})
	}

	// One that grows, or is to be started elsewhere, needs its room as well.
	p := placerOf(with(0, 8*gib, 0), Config{MemoryOvercommit: 1, TolerateFailures: 1})
	grows := Demand{Memory: 60 * gib, Restarts: true}
	err := p.Fits(t.Context(), "hv2", grows, seedbed.NodeUse{Memory: 8 * gib, Restarts: 8 * gib})
	if err == nil || !strings.Contains(err.Error(), "60.0GiB of memory of instances that are started elsewhere would find 52.0GiB") {
		t.Errorf("resized: %v", err)
	}
	if err := p.Fits(t.Context(), "hv1", Demand{Memory: 40 * gib, Restarts: true}, seedbed.NodeUse{Memory: 40 * gib}); err != nil {
		t.Errorf("restarted elsewhere from now on: %v", err)
	}
	if err := p.Fits(t.Context(), "hv2", Demand{Memory: 4 * gib, Restarts: true},
		seedbed.NodeUse{Memory: 8 * gib, Restarts: 8 * gib}); err != nil {
		t.Errorf("made smaller: %v", err)
	}
	// Choices count before the database has them.
	if _, err := p.Choose(t.Context(), Demand{Memory: 40 * gib, Restarts: true, Node: "hv2"}); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Choose(t.Context(), Demand{Memory: 12 * gib, Restarts: true, Node: "hv2"}); err == nil {
		t.Errorf("a second choice: %+v", r)
	}
}

// TestLostNodes checks what is said of how many nodes may be lost.
func TestLostNodes(t *testing.T) {
	t.Parallel()
	restarts := func(p snapshot, node string, size seedbed.Bytes) snapshot {
		u := p.use[node]
		u.Restarts = size
		p.use[node] = u
		return p
	}
	away := fleetOf()
	away.nodes[0].Problem = "connection refused"
	cordoned := restarts(fleetOf(), "hv2", 60*seedbed.GiB)
	cordoned.nodes[0].Cordoned = true
	for _, test := range []struct {
		name     string
		at       snapshot
		tolerate int
		ok       bool
		detail   string
	}{
		{"nothing is started elsewhere", fleetOf(), 0, true, "of 3 nodes, 2 can be lost at a time"},
		{"one", restarts(fleetOf(), "hv2", 30*seedbed.GiB), 1, true,
			"of 3 nodes, 1 can be lost at a time; without hv2, hv3, 30.0GiB of memory"},
		{"fewer than wished", restarts(fleetOf(), "hv2", 8*seedbed.GiB), 3, false, "of 3 nodes, 2 can be lost"},
		{"none", restarts(fleetOf(), "hv2", 60*seedbed.GiB), 1, false,
			"of 3 nodes, 0 can be lost at a time; without hv2, 60.0GiB of memory of instances that are started elsewhere would find 52.0GiB"},
		{"none, and none is asked for", restarts(fleetOf(), "hv2", 60*seedbed.GiB), 0, true, "0 can be lost"},
		{"a node is cordoned", cordoned, 1, false, "would find 28.0GiB"},
		{"a node is away", restarts(away, "hv1", 30*seedbed.GiB), 1, false, "without hv2, 30.0GiB of memory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := test.at.failures(Config{MemoryOvercommit: 1, TolerateFailures: test.tolerate}, noon)
			if c.OK != test.ok || !strings.Contains(c.Detail, test.detail) || c.OK != (c.Hint == "") {
				t.Errorf("%+v; want %v, %q", c, test.ok, test.detail)
			}
		})
	}
}
