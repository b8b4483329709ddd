package provision

import (
	"fmt"
	"slices"
	"strings"

	"seedbed"
)

// refusal is why a node cannot take what is wanted, empty where it can; passing
// tells whether that may change without the request or the catalogue being changed.
func (p picture) refusal(n seedbed.Node, w demand, conf PlacementConfig) (why string, passing bool) {
	if w.node != "" && n.Name != w.node {
		return "node " + w.node + " was asked for", false
	}
	if why := p.unfit(n, w); why != "" {
		return why, false
	}
	if n.Cordoned {
		return "it is cordoned (seedbed node uncordon " + n.Name + ")", true
	}
	use := p.use[n.Name]
	if most := conf.MemoryOvercommit * float64(n.Report.Memory); most > 0 && float64(use.Memory+w.memory) > most {
		return fmt.Sprintf("%s of its memory are given out, and placement.memory_overcommit allows %s: %s more do not fit",
			human(use.Memory), human(seedbed.Bytes(most)), human(w.memory)), true
	}
	if most := conf.VCPUOvercommit * float64(n.Report.CPUs); most > 0 && float64(use.VCPUs+w.vcpus) > most {
		return fmt.Sprintf("%d vCPUs are given out, and placement.vcpu_overcommit allows %.0f: %d more do not fit", use.VCPUs, most, w.vcpus), true
	}
	return "", false
}

// unfit is why a node can never run what is wanted, empty where it can: the system
// template's limit, the pools of the volumes, and the images in pools of other nodes.
func (p picture) unfit(n seedbed.Node, w demand) string {
	if len(w.limit) > 0 && !slices.Contains(w.limit, n.Name) {
		return fmt.Sprintf("the system template %q keeps its machines to the nodes %s", w.template, strings.Join(w.limit, ", "))
	}
	for _, pool := range w.pools {
		if !has(n, pool) {
			return fmt.Sprintf("it has no pool %q", pool)
		}
	}
	for _, i := range w.images {
		if i.Node != "" && i.Node != n.Name && !p.shared(i.Pool) {
			return fmt.Sprintf("image %q is in pool %q of node %s alone", i.Name, i.Pool, i.Node)
		}
	}
	return ""
}

// has tells whether a node has a pool, as far as is known: one that has not
// reported yet has any.
func has(n seedbed.Node, pool string) bool {
	_, found := n.Pool(pool)
	return found || n.Seen.IsZero()
}

// shared tells whether the nodes that have the pool see the same volumes in it. Of
// those that disagree none is believed.
func (p picture) shared(pool string) (shared bool) {
	for _, n := range p.nodes {
		of, known := n.Pool(pool)
		if known && !of.Shared {
			return false
		}
		shared = shared || known
	}
	return shared
}

// none is the refusal of what no node can take: every node with its reason.
func none(w demand, all []candidate) error {
	if w.node != "" {
		for _, c := range all {
			if c.node.Name == w.node {
				return seedbed.Errorf(kindOfRefusal(c), "node %q cannot take %s: %s", w.node, w.subject(), c.refused)
			}
		}
		var names []string
		for _, c := range all {
			names = append(names, c.node.Name)
		}
		slices.Sort(names)
		return seedbed.Errorf(seedbed.ErrInvalid, "node %q does not exist: there are %s (seedbed node list)", clip(w.node), strings.Join(names, ", "))
	}
	if len(all) == 0 {
		return seedbed.Errorf(seedbed.ErrInvalid, "there is no node to take %s: add one (seedbed node add)", w.subject())
	}
	// Nodes with the same reason are told together.
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

func (w demand) subject() string {
	if w.name == "" {
		return "it"
	}
	return fmt.Sprintf("instance %q", w.name)
}

// kindOfRefusal is the error of a refusal: what may pass is no fault of the request.
func kindOfRefusal(c candidate) error {
	if c.passing {
		return seedbed.ErrFull
	}
	return seedbed.ErrInvalid
}
