package placement

import (
	"fmt"
	"slices"
	"strings"

	"seedbed"
)

// refusal is why a node cannot take what is wanted, empty where it can; passing
// reports whether that may change without the request or the catalogue being changed.
func (p picture) refusal(n seedbed.Node, w Demand, conf Config) (why string, passing bool) {
	if w.Node != "" && n.Name != w.Node {
		return "node " + w.Node + " was asked for", false
	}
	if why := p.unfit(n, w); why != "" {
		return why, false
	}
	if n.Cordoned {
		return "it is cordoned (seedbed node uncordon " + n.Name + ")", true
	}
	use := p.use[n.Name]
	if most := conf.MemoryOvercommit * float64(n.Report.Memory); most > 0 && float64(use.Memory+w.Memory) > most {
		return fmt.Sprintf("%s of its memory are given out, and placement.memory_overcommit allows %s: %s more do not fit",
			use.Memory.Human(), seedbed.Bytes(most).Human(), w.Memory.Human()), true
	}
	if most := conf.VCPUOvercommit * float64(n.Report.CPUs); most > 0 && float64(use.VCPUs+w.VCPUs) > most {
		return fmt.Sprintf("%d vCPUs are given out, and placement.vcpu_overcommit allows %.0f: %d more do not fit", use.VCPUs, most, w.VCPUs), true
	}
	return "", false
}

// unfit is why a node can never run what is wanted, empty where it can: the system
// template's limit, the pools of the volumes, and the images in pools of other nodes.
func (p picture) unfit(n seedbed.Node, w Demand) string {
	if len(w.Limit) > 0 && !slices.Contains(w.Limit, n.Name) {
		return fmt.Sprintf("the system template %q keeps its machines to the nodes %s", w.Template, strings.Join(w.Limit, ", "))
	}
	for _, pool := range w.Pools {
		if !has(n, pool) {
			return fmt.Sprintf("it has no pool %q", pool)
		}
	}
	for _, i := range w.Images {
		if i.Node != "" && i.Node != n.Name && !p.shared(i.Pool) {
			return fmt.Sprintf("image %q is in pool %q of node %s alone", i.Name, i.Pool, i.Node)
		}
	}
	return ""
}

// has reports whether a node has a pool, as far as is known: one that has not
// reported yet has any.
func has(n seedbed.Node, pool string) bool {
	_, found := n.Pool(pool)
	return found || n.Seen.IsZero()
}

// shared reports whether the nodes that have the pool see the same volumes in it. Of
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
		return seedbed.Errorf(seedbed.ErrInvalid, "node %q does not exist: there are %s (seedbed node list)", seedbed.Clip(w.Node), strings.Join(names, ", "))
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

func (w Demand) subject() string {
	if w.Name == "" {
		return "it"
	}
	return fmt.Sprintf("instance %q", w.Name)
}

// kindOfRefusal is the error of a refusal: what may pass is no fault of the request.
func kindOfRefusal(c candidate) error {
	if c.passing {
		return seedbed.ErrFull
	}
	return seedbed.ErrInvalid
}
