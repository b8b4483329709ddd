package placement

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"seedbed"
)

// others returns how many instances of the placement group of a demand are on a node, or on their way there, besides its own.
func (p snapshot) others(node string, w Demand) (n int) {
	if w.Group == "" {
		return 0
	}
	for m := range p.members {
		if m.Group == w.Group && m.Node == node && m.Instance != w.ID {
			n++
		}
	}
	return n
}

// prefer orders two nodes by a soft policy of the placement group.
func (w Demand) prefer(a, b candidate) int {
	switch w.Policy {
	case seedbed.SoftAffinity:
		return cmp.Compare(b.others, a.others)
	case seedbed.SoftAntiAffinity:
		return cmp.Compare(a.others, b.others)
	}
	return 0
}

// apart returns why the policy of the placement group does not allow a node, or "".
//
// Instances of a group with affinity follow each other from a node that is cordoned or was fenced.
func (p snapshot) apart(n seedbed.Node, w Demand) string {
	switch w.Policy {
	case seedbed.AntiAffinity:
		if p.others(n.Name, w) > 0 {
			return fmt.Sprintf("another instance of the placement group %s (%s) is there", w.Group, w.Policy)
		}
	case seedbed.Affinity:
		for _, other := range p.nodes {
			if other.Name != n.Name && p.others(other.Name, w) > 0 && !(other.Name == w.From && other.Leaves()) {
				return fmt.Sprintf("the other instances of the placement group %s (%s) are on node %s", w.Group, w.Policy, other.Name)
			}
		}
	}
	return ""
}

// member returns the membership of an instance that comes to the reserved node; false if it has no placement group.
func (r *Reservation) member() (m seedbed.GroupMember, grouped bool) {
	return seedbed.GroupMember{Group: r.group, Instance: r.id, Node: r.Node}, r.group != ""
}

// membersOf returns the members by what they are.
func membersOf(all []seedbed.GroupMember) map[seedbed.GroupMember]int {
	members := make(map[seedbed.GroupMember]int, len(all))
	for m := range slices.Values(all) {
		members[m]++
	}
	return members
}

// Apart returns why the policy of a placement group does not allow the node that is asked for, or "".
func (p *Placer) Apart(ctx context.Context, w Demand) (why string, err error) {
	if err := p.refresh(ctx, w.Node); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot.apart(seedbed.Node{Name: w.Node}, w), nil
}
