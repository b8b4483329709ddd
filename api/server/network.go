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
	if who.Home {
		return nil
	}
	for _, p := range []netip.Prefix{n.Prefix, n.Prefix6} {
		within := func(o netip.Prefix) bool { return o.Bits() <= p.Bits() && o.Contains(p.Addr()) }
		switch {
		case !p.IsValid() || slices.ContainsFunc(r.NetworkPrefixes, within):
		case len(r.NetworkPrefixes) == 0:
			return seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, and projects do not make networks here "+
				"(network.project_prefixes is empty): an administrator of the installation can make one for the project", who.Name, who.Project)
		default:
			return seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, which cannot have the prefix %s: expected one within %s",
				who.Name, who.Project, p, joined(r.NetworkPrefixes))
		}
	}
	return nil
}

// PlacesChange is Places for a network that was another: it refuses only what the change brings.
func (r *Router) PlacesChange(who Caller, was, n seedbed.Network) error {
	switch {
	case n.Kind != was.Kind:
	case n.Prefix6 == was.Prefix6:
		return nil
	default:
		n.Prefix = netip.Prefix{} // stays
	}
	return r.Places(who, n)
}

// Fit is FitOverlay with the nodes of the installation, for a network that is to be made.
func (r *Router) Fit(ctx context.Context, n *seedbed.Network) error {
	if n.VNI == 0 {
		return nil
	}
	nodes, err := r.Store.Nodes(ctx)
	if err != nil {
		return err
	}
	return FitOverlay(n, nodes)
}

// FitOverlay gives an overlay without an MTU the largest that the interfaces of all nodes have room for, and refuses a larger
// one.
func FitOverlay(n *seedbed.Network, nodes []seedbed.Node) error {
	if n.VNI == 0 {
		return nil
	}
	room := 0
	for _, node := range nodes {
		here := node.Report.AddressMTU - seedbed.VXLANOverhead(node.Report.Address)
		switch {
		case node.Report.AddressMTU == 0:
		case n.MTU > here:
			return seedbed.Errorf(seedbed.ErrInvalid, "MTU %d is more than VXLAN leaves of the %d of the interface of node %s: expected at most %d",
				n.MTU, node.Report.AddressMTU, node.Name, here)
		case room == 0 || here < room:
			room = here
		}
	}
	if n.MTU != 0 {
		return nil
	}
	if room == 0 {
		room = seedbed.EthernetMTU - seedbed.VXLANOverhead(netip.IPv4Unspecified())
	}
	n.MTU = max(seedbed.MinMTU, min(room, seedbed.MaxMTU))
	return nil
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
