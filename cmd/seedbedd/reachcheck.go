package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"seedbed"
)

// reachChecks returns the checks of what keeps nodes from getting the frames of overlays: that another node reports the same address
// or key, or that the key of one is not known. They are left out if there is no such node, or no overlay.
func reachChecks(
	networks func(context.Context) ([]seedbed.Network, error), nodes func(context.Context) ([]seedbed.Node, error),
) func(context.Context) []seedbed.Check {
	return func(ctx context.Context) []seedbed.Check {
		check := seedbed.Check{Name: "overlay nodes"}
		all, err := networks(ctx)
		if err == nil && !slices.ContainsFunc(all, func(n seedbed.Network) bool { return n.VNI != 0 }) {
			return nil
		}
		var hosts []seedbed.Node
		if err == nil {
			hosts, err = nodes(ctx)
		}
		if err != nil {
			check.Detail, check.Hint = err.Error(), "follow its message"
			return []seedbed.Check{check}
		}
		return reachProblems(hosts)
	}
}

// reachProblems returns the checks of reachChecks for nodes. Those that are down take nothing from others.
func reachProblems(nodes []seedbed.Node) (checks []seedbed.Check) {
	with, keyless := map[string][]string{}, []string{}
	for _, n := range nodes {
		if n.Problem != "" {
			continue
		}
		r := n.Report
		if r.Address.IsValid() {
			what := "address " + r.Address.String()
			with[what] = append(with[what], n.Name)
		}
		switch {
		case r.Tunnel.Keyed():
			what := "overlay key " + r.Tunnel.Key.String()
			with[what] = append(with[what], n.Name)
		case r.Tunnel != (seedbed.Tunnel{}):
			keyless = append(keyless, n.Name)
		}
	}
	for what, names := range with {
		if len(names) > 1 {
			checks = append(checks, seedbed.Check{Name: "overlay nodes",
				Detail: fmt.Sprintf("nodes %s report the same %s: only the one that had it first gets frames of overlays", listed(names), what),
				Hint: "give each an address of its own (network.address), and a key (remove overlay.key from metadata.state on the others, and " +
					"restart seedbed-metadata). If you cannot explain it, one claims to be the other: docs/security.md"})
		}
	}
	slices.SortFunc(checks, func(a, b seedbed.Check) int { return strings.Compare(a.Detail, b.Detail) })
	if len(keyless) > 0 {
		checks = append(checks, seedbed.Check{Name: "overlay nodes", Detail: "these nodes encrypt overlays and do not know their key now, so a " +
			"new one would not be told: " + listed(keyless), Hint: "look at the logs of seedbed-metadata and seedbed-worker there"})
	}
	return checks
}

func listed(names []string) string { return strings.Join(names, ", ") }
