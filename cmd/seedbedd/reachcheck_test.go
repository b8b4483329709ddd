package main

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"seedbed"
)

// The doctor names nodes that report the same address or key, and says nothing of those that are down.
func TestReachChecks(t *testing.T) {
	t.Parallel()
	node := func(name, addr string, key byte, port uint16, problem string) seedbed.Node {
		return seedbed.Node{Name: name, Problem: problem, Report: seedbed.NodeReport{Address: netip.MustParseAddr(addr),
			Tunnel: seedbed.Tunnel{Key: seedbed.TunnelKey{key}, Port: port}}}
	}
	one := node("hv1", "192.0.2.1", 1, 51820, "")
	for name, c := range map[string]struct {
		vni   int
		nodes []seedbed.Node
		want  []string
	}{
		"each its own": {7, []seedbed.Node{one, node("hv2", "192.0.2.2", 2, 51820, "")}, nil},
		"plain":        {7, []seedbed.Node{node("hv1", "192.0.2.1", 0, 0, ""), node("hv2", "192.0.2.2", 0, 0, "")}, nil},
		"the same address": {7, []seedbed.Node{one, node("hv2", "192.0.2.1", 2, 51820, "")},
			[]string{"hv1, hv2 report the same address 192.0.2.1"}},
		"the same key": {7, []seedbed.Node{one, node("hv2", "192.0.2.2", 1, 51820, "")},
			[]string{"hv1, hv2 report the same overlay key AQ"}},
		"both": {7, []seedbed.Node{one, node("hv2", "192.0.2.1", 1, 51820, "")},
			[]string{"the same address", "the same overlay key"}},
		"one is down": {7, []seedbed.Node{one, node("hv2", "192.0.2.1", 1, 51820, "no answer")}, nil},
		"no key known": {7, []seedbed.Node{one, node("hv2", "192.0.2.2", 0, 51820, "")},
			[]string{"do not know their key now, so a new one would not be told: hv2"}},
		"no overlay": {0, []seedbed.Node{one, node("hv2", "192.0.2.1", 1, 51820, "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := reachChecks(func(context.Context) ([]seedbed.Network, error) { return []seedbed.Network{{VNI: c.vni}}, nil },
				func(context.Context) ([]seedbed.Node, error) { return c.nodes, nil })(t.Context())
			if len(got) != len(c.want) {
				t.Fatalf("%+v", got)
			}
			for i, want := range c.want {
				if got[i].OK || got[i].Hint == "" || !strings.Contains(got[i].Detail, want) {
					t.Errorf("%+v, want %s", got[i], want)
				}
			}
		})
	}
}
