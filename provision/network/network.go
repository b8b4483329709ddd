// Package network checks requests to make and change networks, for all who may ask for that: callers of the API, and hooks.
package network

import (
	"context"
	"net/netip"
	"slices"

	"seedbed"
)

// Asker is who asks for a network or for a change of one.
type Asker struct {
	// Name is what messages call it, such as "token ci".
	Name string
	// Project is the project that it acts in. Home reports whether it does so by what it may do in the default project.
	Project string
	Home    bool
	// Protect is why it may not do what needs the action network.protect; nil if it may.
	Protect error
}

// Rules are what an installation says about networks.
type Rules struct {
	// Resolvers are those of a new network with a prefix that names none.
	Resolvers []netip.Addr
	// Prefixes are those in which projects other than the default one may have networks.
	Prefixes []netip.Prefix
}

// Places refuses a network of a project whose addresses the project may not choose: guests of a network take
// these addresses from the nodes. Those of a bridged network without a prefix come from elsewhere. A network that has no addresses is
// refused where projects make none at all.
func (r Rules) Places(who Asker, n seedbed.Network) error {
	none := len(r.Prefixes) == 0
	switch {
	case who.Home:
		return nil
	case n.Bare() && none:
		return refusesAll(who)
	}
	for _, p := range []netip.Prefix{n.Prefix, n.Prefix6} {
		within := func(o netip.Prefix) bool { return o.Bits() <= p.Bits() && o.Contains(p.Addr()) }
		switch {
		case !p.IsValid() || slices.ContainsFunc(r.Prefixes, within):
		case none:
			return refusesAll(who)
		default:
			return seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, which cannot have the prefix %s: expected one within %s",
				who.Name, who.Project, p, joined(r.Prefixes))
		}
	}
	return nil
}

// refusesAll returns the error of a network of a project where projects make none.
func refusesAll(who Asker) error {
	return seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, and projects do not make networks here "+
		"(network.project_prefixes is empty): an administrator of the installation can make one for the project", who.Name, who.Project)
}

// PlacesChange is Places for a network that was another: it refuses only what the change brings. That is also an IPv6 prefix with
// which an ACL of the network would no longer be about all of its guests.
func (r Rules) PlacesChange(who Asker, was, n seedbed.Network) error {
	if n.Prefix6 != was.Prefix6 {
		if err := keepsACLs(n); err != nil {
			return err
		}
	}
	switch {
	case n.Kind != was.Kind:
	case n.Prefix6 == was.Prefix6:
		return nil
	default:
		n.Prefix = netip.Prefix{} // stays
	}
	return r.Places(who, n)
}

// FitNew is Fit for a network that is to be made. It asks for the nodes of the installation only for an overlay.
func FitNew(ctx context.Context, n *seedbed.Network, nodes Nodes) error {
	if n.VNI == 0 {
		return nil
	}
	all, err := nodes(ctx)
	if err != nil {
		return err
	}
	return Fit(n, all)
}

// Fit gives an overlay without an MTU the largest that the interfaces of all nodes have room for, and refuses a larger
// one.
func Fit(n *seedbed.Network, nodes []seedbed.Node) error {
	if n.VNI == 0 {
		return nil
	}
	room := 0
	for _, node := range nodes {
		here := node.Report.AddressMTU - node.Report.OverlayOverhead()
		switch {
		case node.Report.AddressMTU == 0:
		case n.MTU > here:
			return seedbed.Errorf(seedbed.ErrInvalid,
				"MTU %d is more than VXLAN%s leaves of the %d of the interface of node %s: expected at most %d",
				n.MTU, encrypted(node.Report), node.Report.AddressMTU, node.Name, here)
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

// encrypted returns what is said of a node that encrypts overlays.
func encrypted(r seedbed.NodeReport) string {
	if r.Tunnel == (seedbed.Tunnel{}) {
		return ""
	}
	return " with encryption"
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
