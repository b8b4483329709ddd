// Package placement chooses the node of an instance, and of an image.
package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// Config configures the placement of an installation.
type Config struct {
	// Selector is for instances whose system template does not name one. Default
	// [seedbed.SelectMem].
	Selector string
	// MemoryOvercommit and VCPUOvercommit bound what the instances of a node may have together, as
	// multiples of its memory and of its CPUs; 0 means no bound.
	MemoryOvercommit, VCPUOvercommit float64
	// TolerateFailures is how many nodes may be lost at a time so that the others have the memory for the instances that are started
	// there; 0 means that this is not looked at.
	TolerateFailures int
}

// Demand is what an instance needs of a node.
type Demand struct {
	Name string
	// Node is the node asked for; empty means any.
	Node string
	// Template is the name of the system template that limit and selector come from.
	Template string
	Limit    []string
	Selector string
	VCPUs    int
	Memory   seedbed.Bytes
	Pools    []string
	// Sizes are what its volumes may grow to in each pool.
	Sizes  map[string]seedbed.Bytes
	Images []seedbed.Image
	// From is the node that it is on, for an instance that goes to another one; else empty. Live is true if its guest runs all the time.
	From string
	Live bool
	// ID is the instance. Group is the qualified name of its placement group, with that group's Policy; empty for none.
	ID     seedbed.InstanceID
	Group  string
	Policy seedbed.PlacementPolicy
	// Restarts is true if it is started on another node once its own was fenced.
	Restarts bool
}

// candidate is a node as judged for one instance.
type candidate struct {
	node seedbed.Node
	away bool
	// others is how many other instances of its placement group are there.
	others int
	// weight ranks the node: the more the better.
	weight float64
	// refused is why it cannot take the instance, or ""; passing reports whether that may change.
	refused string
	passing bool
}

// weigh judges every node for the instance. Nodes that can take it come first, the best one in
// front; among them, nodes that are down come after the others.
func (p snapshot) weigh(w Demand, conf Config, now time.Time) []candidate {
	all := make([]candidate, 0, len(p.nodes))
	selector := conf.selector(w)
	for _, n := range p.nodes {
		c := candidate{node: n, away: n.Gone(now), weight: p.weight(n, selector), others: p.others(n.Name, w)}
		c.refused, c.passing = p.refusal(n, w, conf, now)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(
			before(a.refused == "", b.refused == ""),
			before(!a.away, !b.away),
			w.prefer(a, b),
			cmp.Compare(b.weight, a.weight),
			strings.Compare(a.node.Name, b.node.Name))
	})
	return all
}

// selector returns the selector by which an instance is placed.
func (conf Config) selector(w Demand) string {
	return cmp.Or(w.Selector, conf.Selector, seedbed.SelectMem)
}

// before orders true before false.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// weight ranks a node: the more the better.
func (p snapshot) weight(n seedbed.Node, selector string) float64 {
	use, report := p.use[n.Name], n.Report
	switch selector {
	case seedbed.SelectMemProv:
		return float64(report.Memory - use.Memory)
	case seedbed.SelectVCPUs:
		return -float64(use.VCPUs)
	case seedbed.SelectLoad:
		// A new instance counts as busy, because its load is not measured yet.
		return -report.Load - float64(use.ComingVCPUs)
	case seedbed.SelectVMs:
		return -float64(use.Instances + max(0, report.Domains-use.Running))
	}
	return float64(report.MemoryFree - use.ComingMemory)
}

// reason describes what a node is ranked by.
func (p snapshot) reason(c candidate, selector string) string {
	if c.node.Seen.IsZero() {
		return "it has not reported yet"
	}
	text := fmt.Sprintf("%s: %s free", selector, seedbed.Bytes(max(0, c.weight)).Human())
	switch selector {
	case seedbed.SelectMemProv:
		text = fmt.Sprintf("%s: %s of %s allocated", selector, p.use[c.node.Name].Memory.Human(), c.node.Report.Memory.Human())
	case seedbed.SelectVCPUs:
		text = fmt.Sprintf("%s: %.0f allocated", selector, -c.weight)
	case seedbed.SelectLoad:
		text = fmt.Sprintf("%s: %.2f", selector, -c.weight)
	case seedbed.SelectVMs:
		text = fmt.Sprintf("%s: %.0f", selector, -c.weight)
	}
	if c.others > 0 {
		text += fmt.Sprintf("; %d of its placement group", c.others)
	}
	switch {
	case !c.away:
		return text
	case c.node.Problem != "":
		return text + "; its worker does not answer, and the job would wait for it: " + c.node.Problem
	}
	return text + "; its worker has not reported, and the job would wait for it"
}
