package provision

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// PlacementConfig is how an installation places instances.
type PlacementConfig struct {
	// Selector is that of instances whose system template names none. Default [seedbed.SelectMem].
	Selector string
	// MemoryOvercommit and VCPUOvercommit bound what the instances of a node are given
	// together, as multiples of its memory and of its CPUs; 0 is without bound.
	MemoryOvercommit, VCPUOvercommit float64
}

// demand is what an instance needs of a node.
type demand struct {
	name string
	// node is the one that was asked for; empty is any.
	node string
	// template is the name of the system template that limit and selector are of.
	template string
	limit    []string
	selector string
	vcpus    int
	memory   seedbed.Bytes
	pools    []string
	images   []seedbed.Image
}

// demands is what the instance needs that a system template, nil for none, and a
// request, which names a node or not, ask for. The volumes are those of the
// instance; of a scripted one, which has none yet, those of its storage template.
// An image that is known already is not read again.
func (in *Intake) demands(ctx context.Context, inst seedbed.Instance, system *seedbed.SystemTemplate, volumes []seedbed.Volume, node string, known ...seedbed.Image) (demand, error) {
	w := demand{name: inst.Name, node: node, vcpus: inst.VCPUs, memory: inst.Memory, images: known}
	if system != nil {
		w.template, w.limit, w.selector = system.Name, system.NodeLimit, system.NodeSelector
	}
	for _, v := range volumes {
		if !slices.Contains(w.pools, v.Pool) {
			w.pools = append(w.pools, v.Pool)
		}
		if v.Image == "" || slices.ContainsFunc(w.images, func(i seedbed.Image) bool { return i.Name == v.Image }) {
			continue
		}
		image, err := in.store.Image(ctx, v.Image)
		if err != nil {
			return w, err
		}
		w.images = append(w.images, image)
	}
	return w, nil
}

// poolKnown gives seedbed.ErrNotFound for a pool that neither this host's
// configuration nor a node's report has, where there is anything to tell by.
func (in *Intake) poolKnown(ctx context.Context, pool string) error {
	if in.serving.Pools == nil || slices.Contains(in.serving.Pools, pool) {
		return nil
	}
	known, err := in.placer.knows(ctx, pool)
	if err == nil && !known {
		err = seedbed.Errorf(seedbed.ErrNotFound, "no node has the pool %q", clip(pool))
	}
	return err
}

// candidate is a node as it is for one instance.
type candidate struct {
	node seedbed.Node
	away bool
	// weight is by how much it is to be taken: the more the better.
	weight float64
	// refused is why it cannot take it, empty where it can, and passing tells that
	// another day may lift that.
	refused string
	passing bool
}

// weigh judges every node for what is wanted: those that can take it, the best
// first, and then those that cannot. Those that are away come after those that are not.
func (p picture) weigh(w demand, conf PlacementConfig, now time.Time) []candidate {
	all := make([]candidate, 0, len(p.nodes))
	selector := conf.selector(w)
	for _, n := range p.nodes {
		c := candidate{node: n, away: n.State(now) == seedbed.NodeAway, weight: p.weight(n, selector)}
		c.refused, c.passing = p.refusal(n, w, conf)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(
			before(a.refused == "", b.refused == ""),
			before(!a.away, !b.away),
			cmp.Compare(b.weight, a.weight),
			strings.Compare(a.node.Name, b.node.Name))
	})
	return all
}

// selector is what an instance is placed by.
func (conf PlacementConfig) selector(w demand) string {
	return cmp.Or(w.selector, conf.Selector, seedbed.SelectMem)
}

// before orders what is so before what is not.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// weight is what a node is chosen by: the more the better.
func (p picture) weight(n seedbed.Node, selector string) float64 {
	use, report := p.use[n.Name], n.Report
	switch selector {
	case seedbed.SelectMemProv:
		return float64(report.Memory - use.Memory)
	case seedbed.SelectVCPUs:
		return -float64(use.VCPUs)
	case seedbed.SelectLoad:
		// Whoever is new is taken to be busy, since nobody has seen it yet.
		return -report.Load - float64(use.ComingVCPUs)
	case seedbed.SelectVMs:
		return -float64(use.Instances + max(0, report.Domains-use.Running))
	}
	return float64(report.MemoryFree - use.ComingMemory)
}

// reason says what a node is chosen by.
func (p picture) reason(c candidate, selector string) string {
	if c.node.Seen.IsZero() {
		return "it has not reported yet"
	}
	text := fmt.Sprintf("%s: %s free", selector, human(seedbed.Bytes(max(0, c.weight))))
	switch selector {
	case seedbed.SelectMemProv:
		text = fmt.Sprintf("%s: %s of %s given out", selector, human(p.use[c.node.Name].Memory), human(c.node.Report.Memory))
	case seedbed.SelectVCPUs:
		text = fmt.Sprintf("%s: %.0f given out", selector, -c.weight)
	case seedbed.SelectLoad:
		text = fmt.Sprintf("%s: %.2f", selector, -c.weight)
	case seedbed.SelectVMs:
		text = fmt.Sprintf("%s: %.0f", selector, -c.weight)
	}
	switch {
	case !c.away:
		return text
	case c.node.Problem != "":
		return text + "; its worker does not answer, and the job would wait for it: " + c.node.Problem
	}
	return text + "; its worker has not been heard of, and the job would wait for it"
}

// human is a size for people, to a tenth.
func human(b seedbed.Bytes) string {
	if b < seedbed.GiB {
		return fmt.Sprintf("%.1fMiB", float64(b)/float64(seedbed.MiB))
	}
	return fmt.Sprintf("%.1fGiB", float64(b)/float64(seedbed.GiB))
}
