package network

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"seedbed"
	"seedbed/api/wire"
)

// Nodes returns the nodes of the installation.
type Nodes func(context.Context) ([]seedbed.Node, error)

// New returns the network that a request describes, with the defaults of what it leaves open. It returns ErrInvalid for one that
// cannot be, and ErrForbidden if who asks may not make it.
func (r Rules) New(ctx context.Context, who Asker, req wire.NetworkRequest, nodes Nodes) (seedbed.Network, error) {
	n, err := r.requested(ctx, who.Project, req, nodes)
	if err != nil {
		return n, err
	}
	if err := r.Places(who, n); err != nil {
		return n, err
	}
	confines := wire.NetworkChange{Identity: orNil(req.Identity), Allow: orNil(req.Allow)}
	if n.Kind.OnWire() {
		confines.Kind = &n.Kind
	}
	confines.BandwidthIn, confines.BandwidthOut = orNil(req.BandwidthIn), orNil(req.BandwidthOut)
	if n.FloatingUplink != "" {
		confines.FloatingUplink = &n.FloatingUplink
	}
	return n, protects(who, confines, req.Bridge, req.VNI)
}

// requested returns the network that a request in a project asks for, with the defaults of what it leaves open.
func (r Rules) requested(ctx context.Context, project string, req wire.NetworkRequest, nodes Nodes) (seedbed.Network, error) {
	if err := seedbed.CheckName("network", req.Name); err != nil {
		return seedbed.Network{}, err
	}
	n := seedbed.Network{
		Name: seedbed.Qualified(project, req.Name), Kind: cmp.Or(req.Kind, seedbed.NetworkNAT), MAC: seedbed.NewMAC(),
		Prefix: req.Prefix, Gateway: req.Gateway, Bridge: req.Bridge, Uplink: req.Uplink, VLAN: req.VLAN, VNI: req.VNI,
		NetworkOptions: req.NetworkOptions, Identity: req.Identity, Allow: req.Allow,
	}
	n.NAT = n.Kind == seedbed.NetworkNAT
	if n.Kind == seedbed.NetworkDirect {
		if n.Mode = cmp.Or(n.Mode, seedbed.DirectBridge); n.Bridge != "" {
			return n, seedbed.Errorf(seedbed.ErrInvalid, "a direct network has no bridge: expected no name of one")
		}
	}
	if n.DHCP = n.Addressed() && n.Kind.Served(); req.DHCP != nil {
		n.DHCP = *req.DHCP
	}
	if !n.Gateway.IsValid() && !n.Kind.OnWire() && n.Prefix.IsValid() {
		n.Gateway = n.Prefix.Masked().Addr().Next()
	}
	if n.Bridge == "" {
		n.Bridge = seedbed.BridgeOf(n.Name)
	}
	overlay := req.Overlay != nil && *req.Overlay
	switch {
	case req.VNI != 0 && req.Overlay != nil && !overlay:
		return n, seedbed.Errorf(seedbed.ErrInvalid, "overlay is false, and there is a vni: expected one of them")
	case req.VNI == 0 && overlay:
		n.VNI = seedbed.NewVNI()
	}
	if err := FitNew(ctx, &n, nodes); err != nil {
		return n, err
	}
	n.DNS = []netip.Addr{}
	if n.Addressed() && n.Kind.Served() {
		n.DNS = r.ResolversOf(n)
	}
	if req.DNS != nil {
		n.DNS = *req.DNS
	}
	return n, n.Check()
}

// ResolversOf returns those of the installation's resolvers that guests of a new network reach. It is never nil.
func (r Rules) ResolversOf(n seedbed.Network) []netip.Addr {
	all := append([]netip.Addr{}, r.Resolvers...)
	if n.Bare() {
		return []netip.Addr{}
	}
	if n.Prefix.IsValid() {
		return all
	}
	return slices.DeleteFunc(all, func(a netip.Addr) bool { return a.Is4() && a != seedbed.ResolverAddr })
}

// Change returns the function that makes a change to a network, in the transaction of the store. It returns ErrForbidden if who asks
// may not make the change, and so does the function.
func (r Rules) Change(ctx context.Context, who Asker, req wire.NetworkChange, nodes Nodes) (func(*seedbed.Network) error, error) {
	if err := protects(who, req, "", 0); err != nil {
		return nil, err
	}
	all, err := nodes(ctx)
	if err != nil {
		return nil, err
	}
	return func(n *seedbed.Network) error {
		was := *n
		if err := req.Apply(n); err != nil {
			return err
		}
		if req.MTU != nil && *req.MTU != 0 {
			if err := Fit(n, all); err != nil {
				return err
			}
		}
		return r.PlacesChange(who, was, *n)
	}, nil
}

// protects refuses the name of a bridge, the number of an overlay, a network bridged to another, floating addresses, rates,
// and a change of how a network identifies and confines guests, unless who asks may decide that.
func protects(who Asker, change wire.NetworkChange, bridge string, vni int) error {
	opens := change.Kind != nil && change.Kind.OnWire() || change.Floating != nil || change.FloatingUplink != nil ||
		change.BandwidthIn != nil || change.BandwidthOut != nil
	plain := bridge == "" && vni == 0 && !opens && change.Identity == nil && change.Allow == nil
	if plain || who.Home && who.Project != seedbed.DefaultProject {
		return nil
	}
	return who.Protect
}

// orNil returns nil for the zero value.
func orNil[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}
