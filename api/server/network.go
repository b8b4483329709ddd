package server

import (
	"context"
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

// OverlayMTU returns the largest MTU of an overlay that the interfaces of all nodes have room for.
func (r *Router) OverlayMTU(ctx context.Context) (int, error) {
	nodes, err := r.Store.Nodes(ctx)
	if err != nil {
		return 0, err
	}
	mtu := 0
	for _, n := range nodes {
		if room := n.Report.AddressMTU - seedbed.VXLANOverhead(n.Report.Address); n.Report.AddressMTU != 0 && (mtu == 0 || room < mtu) {
			mtu = room
		}
	}
	if mtu == 0 {
		mtu = seedbed.EthernetMTU - seedbed.VXLANOverhead(netip.IPv4Unspecified())
	}
	return max(seedbed.MinMTU, min(mtu, seedbed.MaxMTU)), nil
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
