package server

import (
	"net/netip"
	"slices"

	"seedbed"
)

// Places refuses a network of a project whose addresses the project may not choose: guests of a network take
// these addresses from the nodes. Those of a bridged network without a prefix come from elsewhere.
func (r *Router) Places(who Caller, n seedbed.Network) error {
	within := func(p netip.Prefix) bool { return p.Bits() <= n.Prefix.Bits() && p.Contains(n.Prefix.Addr()) }
	switch {
	case who.Home || !n.Addressed() || slices.ContainsFunc(r.NetworkPrefixes, within):
		return nil
	case len(r.NetworkPrefixes) == 0:
		return seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, and projects do not make networks here "+
			"(network.project_prefixes is empty): an administrator of the installation can make one for the project", who.Name, who.Project)
	}
	return seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, which cannot have the prefix %s: expected one within %s",
		who.Name, who.Project, n.Prefix, joined(r.NetworkPrefixes))
}

func joined(all []netip.Prefix) (text string) {
	for i, p := range all {
		if i > 0 {
			text += ", "
		}
		text += p.String()
	}
	return text
}
