package placement

import (
	"context"
	"maps"
	"slices"

	"seedbed"
)

// Nodes are balanced once their loads differ by less than this.
const (
	alike     = 0.1
	leastGain = 0.001 // of the sum of the squares of the loads, for which no instance moves
)

// Move is a suggestion to take the instance of a demand to a node.
type Move struct {
	Demand int // its place in the list
	To     string
}

// Rebalance suggests which instances to take to other nodes so that the loads of these, by seedbed.BalanceMemory or BalanceVCPUs, differ by
// less than a tenth: at most that many moves, each the one that helps most. Each demand has the node that its instance is on.
func (p *Placer) Rebalance(ctx context.Context, by string, most int, all []Demand) (moves []Move, loads []seedbed.NodeLoad, err error) {
	if err := p.refresh(ctx, ""); err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	s := p.snapshot
	s.use, s.members, s.pools = maps.Clone(s.use), maps.Clone(s.members), maps.Clone(s.pools)
	p.mu.Unlock() // others choose nodes while this looks for moves
	var on []seedbed.Node
	for _, n := range s.nodes {
		if !n.Gone(p.now()) && !n.Cordoned && n.Report.CPUs > 0 && n.Report.Memory > 0 {
			on = append(on, n)
			loads = append(loads, seedbed.NodeLoad{Node: n.Name, Before: 100 * s.load(n, by, p.conf, seedbed.NodeUse{})})
		}
	}
	moved := map[int]bool{}
	for len(moves) < most && s.spread(on, by, p.conf) > alike {
		best, gain := Move{}, float64(leastGain)
		for i, w := range all {
			at := slices.IndexFunc(on, func(n seedbed.Node) bool { return n.Name == w.From })
			if at < 0 || moved[i] {
				continue
			}
			for _, n := range on {
				if g := s.gain(on[at], n, w, by, p.conf); g > gain {
					if why, _ := s.refusal(n, w, p.conf, p.now()); why == "" {
						best, gain = Move{i, n.Name}, g
					}
				}
			}
		}
		if best.To == "" {
			break
		}
		w := all[best.Demand]
		s.add(&Reservation{Node: w.From, takes: w.takes(w.From), id: w.ID, group: w.Group}, -1)
		s.add(&Reservation{Node: best.To, takes: w.takes(best.To), id: w.ID, group: w.Group}, 1)
		moves, moved[best.Demand] = append(moves, best), true
	}
	for i, n := range on {
		loads[i].After = 100 * s.load(n, by, p.conf, seedbed.NodeUse{})
	}
	return moves, loads, nil
}

// load returns which part of what a node may give its instances have, with more.
func (p snapshot) load(n seedbed.Node, by string, conf Config, more seedbed.NodeUse) float64 {
	use := p.use[n.Name]
	if by == seedbed.BalanceVCPUs {
		return float64(use.VCPUs+more.VCPUs) / (bound(conf.VCPUOvercommit) * float64(n.Report.CPUs))
	}
	return float64(use.Memory+more.Memory) / (bound(conf.MemoryOvercommit) * float64(n.Report.Memory))
}

// bound returns a multiple of what a node has; 1 without one.
func bound(overcommit float64) float64 {
	if overcommit == 0 {
		return 1
	}
	return overcommit
}

// spread returns by how much the highest load differs from the lowest.
func (p snapshot) spread(nodes []seedbed.Node, by string, conf Config) float64 {
	low, high := 0.0, 0.0
	for i, n := range nodes {
		l := p.load(n, by, conf, seedbed.NodeUse{})
		if i == 0 {
			low, high = l, l
		}
		low, high = min(low, l), max(high, l)
	}
	return high - low
}

// gain returns by how much the sum of the squares of the loads is lower once an instance is on another node.
func (p snapshot) gain(from, to seedbed.Node, w Demand, by string, conf Config) float64 {
	takes, none := w.takes(to.Name), seedbed.NodeUse{}
	less := seedbed.NodeUse{VCPUs: -takes.VCPUs, Memory: -takes.Memory}
	square := func(n seedbed.Node, more seedbed.NodeUse) float64 {
		l := p.load(n, by, conf, more)
		return l * l
	}
	return square(from, none) + square(to, none) - square(from, less) - square(to, takes)
}
