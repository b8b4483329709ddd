package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// refusal returns why a node cannot take the instance, or "". passing reports whether that may
// change without a change of the request or of the catalogue.
func (p snapshot) refusal(n seedbed.Node, w Demand, conf Config, now time.Time) (why string, passing bool) {
	if w.Node != "" && n.Name != w.Node {
		return "node " + w.Node + " was asked for", false
	}
	if why := p.unfit(n, w); why != "" {
		return why, false
	}
	if !n.Fencing.Fenced.IsZero() {
		return "it was fenced, and is not back", true
	}
	if n.Name == w.From {
		return "it is there now", false
	}
	if w.Live && n.Report.Migration.URI == "" {
		return "it does not say how guests that run come to it (libvirt.migration in its configuration)", false
	}
	if why := p.apart(n, w); why != "" {
		return why, true
	}
	if n.Cordoned {
		return "it is cordoned (seedbed node uncordon " + n.Name + ")", true
	}
	if why := p.over(n, w, seedbed.NodeUse{}, conf); why != "" {
		return why, true
	}
	if w.From == "" { // what moves needs no more than before
		if why := p.unreserved(n.Name, w, seedbed.NodeUse{}, conf, now); why != "" {
			return why, true
		}
	}
	return "", false
}

// over returns which bound of the node the instance would exceed, or "". has is what it has of the
// node already; what does not become more is never refused.
func (p snapshot) over(n seedbed.Node, w Demand, has seedbed.NodeUse, conf Config) string {
	use := p.use[n.Name]
	memory, vcpus := w.Memory-has.Memory, w.VCPUs-has.VCPUs
	most := seedbed.Bytes(conf.MemoryOvercommit * float64(n.Report.Memory))
	switch {
	case most == 0 || memory <= 0:
	case w.Memory > most:
		return fmt.Sprintf("%s of memory never fits: it has %s, of which placement.memory_overcommit allows %s", w.Memory.Human(),
			n.Report.Memory.Human(), most.Human())
	case use.Memory+memory > most:
		return fmt.Sprintf("%s of its memory is allocated, and placement.memory_overcommit allows %s: %s more does not fit",
			use.Memory.Human(), most.Human(), memory.Human())
	}
	if most := conf.VCPUOvercommit * float64(n.Report.CPUs); most > 0 && vcpus > 0 && float64(use.VCPUs+vcpus) > most {
		return fmt.Sprintf("%d vCPUs are allocated, and placement.vcpu_overcommit allows %.0f: %d more do not fit", use.VCPUs, most, vcpus)
	}
	return ""
}

// unfit returns why a node can never run the instance, or "": the system template's limit, the
// pools of the volumes, or images in pools of other nodes.
func (p snapshot) unfit(n seedbed.Node, w Demand) string {
	if len(w.Limit) > 0 && !slices.Contains(w.Limit, n.Name) {
		of := "its system template limits it"
		if w.Template != "" {
			of = fmt.Sprintf("the system template %q limits its instances", w.Template)
		}
		return of + " to the nodes " + strings.Join(w.Limit, ", ")
	}
	for _, pool := range w.Pools {
		if !has(n, pool) {
			return fmt.Sprintf("it does not have the pool %q", pool)
		}
	}
	for _, i := range w.Images {
		if i.Node != "" && i.Node != n.Name && !p.shared(i.Pool) {
			return fmt.Sprintf("image %q is only in pool %q of node %s", i.Name, i.Pool, i.Node)
		}
	}
	return ""
}

// has reports whether a node has a pool. A node that has not reported yet is assumed to have it.
func has(n seedbed.Node, pool string) bool {
	_, found := n.Pool(pool)
	return found || n.Seen.IsZero()
}

// shared reports whether the nodes that have the pool see the same volumes in it. If they disagree,
// it is not shared.
func (p snapshot) shared(pool string) (shared bool) {
	for _, n := range p.nodes {
		of, known := n.Pool(pool)
		if known && !of.Shared {
			return false
		}
		shared = shared || known
	}
	return shared
}

// Shares returns ErrConflict unless the nodes that have the pool see the same volumes in it.
func (p *Placer) Shares(ctx context.Context, pool string) error {
	if err := p.refresh(ctx, ""); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.snapshot.shared(pool) {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrConflict, "pool %q is not shared by the nodes (shared: true in storage.pools, or a Ceph pool)", pool)
}

// none returns the refusal if no node can take the instance: every node with its reason.
func none(w Demand, all []candidate) error {
	if w.Node != "" {
		for _, c := range all {
			if c.node.Name == w.Node {
				return seedbed.Errorf(kindOfRefusal(c), "node %q cannot take %s: %s", w.Node, w.subject(), c.refused)
			}
		}
		var names []string
		for _, c := range all {
			names = append(names, c.node.Name)
		}
		slices.Sort(names)
		return seedbed.Errorf(seedbed.ErrInvalid, "node %q does not exist: the nodes are %s (seedbed node list)", seedbed.Clip(w.Node),
			strings.Join(names, ", "))
	}
	if len(all) == 0 {
		return seedbed.Errorf(seedbed.ErrInvalid, "no node exists to take %s: add one (seedbed node add)", w.subject())
	}
	// Nodes with the same reason are listed together.
	var reasons []string
	nodes := map[string][]string{}
	kind := seedbed.ErrInvalid
	for _, c := range all {
		if nodes[c.refused] == nil {
			reasons = append(reasons, c.refused)
		}
		nodes[c.refused] = append(nodes[c.refused], c.node.Name)
		if c.passing {
			kind = seedbed.ErrFull
		}
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(nodes[why], ", ") + ": " + why
	}
	return seedbed.Errorf(kind, "no node can take %s: %s", w.subject(), strings.Join(reasons, "; "))
}

func (w Demand) subject() string {
	if w.Name == "" {
		return "it"
	}
	return fmt.Sprintf("instance %q", w.Name)
}

// kindOfRefusal returns the kind of a refusal. A reason that may pass is not a fault of the
// request.
func kindOfRefusal(c candidate) error {
	if c.passing {
		return seedbed.ErrFull
	}
	return seedbed.ErrInvalid
}
