package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// takes returns what an instance uses of a node.
func (w Demand) takes(node string) seedbed.NodeUse {
	u := seedbed.NodeUse{Node: node, VCPUs: w.VCPUs, Memory: w.Memory}
	if w.Restarts {
		u.Restarts = w.Memory
	}
	return u
}

// shortage is what lacks if some nodes are lost at a time.
type shortage struct {
	lost []string
	// need is the memory of the instances that are started elsewhere then, and free what the other nodes have for them.
	need, free seedbed.Bytes
}

func (s shortage) short() bool { return s.need > s.free }

// without returns what the loss of the n nodes means by which most would lack, of those that answer. What was on nodes that do not answer
// needs its place as well. It counts memory as a whole: whether each instance fits on one node is not looked at.
func (p snapshot) without(n int, conf Config, now time.Time) (s shortage) {
	type left struct {
		name           string
		restarts, free seedbed.Bytes
	}
	var up []left
	for _, node := range p.nodes {
		use := p.use[node.Name]
		if node.Gone(now) {
			s.need += use.Restarts
			continue
		}
		one := left{name: node.Name, restarts: use.Restarts}
		if !node.Cordoned { // a node with no bound of memory has what it has
			one.free = max(0, seedbed.Bytes(bound(conf.MemoryOvercommit)*float64(node.Report.Memory))-use.Memory)
		}
		s.free += one.free
		up = append(up, one)
	}
	slices.SortStableFunc(up, func(a, b left) int { return cmp.Compare(b.restarts+b.free, a.restarts+a.free) })
	for _, one := range up[:min(n, len(up))] {
		s.lost = append(s.lost, one.name)
		s.need, s.free = s.need+one.restarts, s.free-one.free
	}
	return s
}

// unreserved returns why the installation could not lose as many nodes as it is to tolerate once a node has the instance, or "". has is
// what it has of the node already; what does not become more is never refused.
func (p snapshot) unreserved(node string, w Demand, has seedbed.NodeUse, conf Config, now time.Time) string {
	takes := w.takes(node)
	if conf.TolerateFailures == 0 || takes.Memory <= has.Memory && takes.Restarts <= has.Restarts {
		return ""
	}
	with := p
	with.use = maps.Clone(p.use)
	u := with.use[node]
	u.Memory, u.Restarts = u.Memory+takes.Memory-has.Memory, u.Restarts+takes.Restarts-has.Restarts
	with.use[node] = u
	s := with.without(conf.TolerateFailures, conf, now)
	if !s.short() {
		return ""
	}
	return fmt.Sprintf("without %s (placement.tolerate_failures: %d), %s of memory of instances that are started elsewhere would find %s: "+
		"%s lacks", strings.Join(s.lost, ", "), conf.TolerateFailures, s.need.Human(), s.free.Human(), (s.need - s.free).Human())
}

// Check returns the check of how many nodes the installation can lose now.
func Check(hosts Hosts, conf Config) func(context.Context) []seedbed.Check {
	p := New(hosts, "", conf)
	return func(ctx context.Context) []seedbed.Check {
		p, err := p.read(ctx)
		if err != nil || len(p.nodes) < 2 && conf.TolerateFailures == 0 {
			return nil // the check of the database has the error
		}
		return []seedbed.Check{p.failures(conf, time.Now())}
	}
}

// failures says how many nodes may be lost at a time.
func (p snapshot) failures(conf Config, now time.Time) seedbed.Check {
	n := 0
	for n < len(p.nodes)-1 && !p.without(n+1, conf, now).short() {
		n++
	}
	c := seedbed.Check{Name: "lost nodes", OK: true, Detail: fmt.Sprintf("of %d nodes, %d can be lost at a time", len(p.nodes), n)}
	if s := p.without(n+1, conf, now); s.short() && n+1 < len(p.nodes) {
		c.Detail += fmt.Sprintf("; without %s, %s of memory of instances that are started elsewhere would find %s", strings.Join(s.lost, ", "),
			s.need.Human(), s.free.Human())
	}
	if n < conf.TolerateFailures {
		c.OK, c.Hint = false, fmt.Sprintf("placement.tolerate_failures is %d: add a node or memory, uncordon nodes, or remove instances",
			conf.TolerateFailures)
	}
	return c
}
