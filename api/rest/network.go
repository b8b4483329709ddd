package rest

import (
	"context"
	"net/netip"
	"net/url"
	"slices"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) network(ctx context.Context, c *fiber.Ctx) error {
	name, err := r.Visible(ctx, c, seedbed.PublishedNetwork)
	if err != nil {
		return err
	}
	n, err := r.Store.Network(ctx, name)
	if err != nil {
		return err
	}
	return r.tellNetwork(ctx, c, shownTo(server.CallerOf(c), n, ofNetwork))
}

// tellNetwork answers a network. Its entity tag leaves out how many addresses are in use, which a change of the network does not change.
func (r *router) tellNetwork(ctx context.Context, c *fiber.Ctx, n seedbed.Network) error {
	tag, counted := server.ContentTag(n), []seedbed.Network{n}
	if err := r.countAddresses(ctx, c, counted); err != nil {
		r.Log.Warn("a network is shown without how many addresses are used", "network", n.Name, "err", err) // a change was made
	}
	return server.Tagged(c, tag, counted[0])
}

// countAddresses sets how many addresses are in use in networks. Of one that another project has published, the caller does not learn
// what others have.
func (r *router) countAddresses(ctx context.Context, c *fiber.Ctx, networks []seedbed.Network) error {
	var own []*seedbed.Network
	for i, n := range networks {
		if server.CallerOf(c).Learns(n.Name) {
			own = append(own, &networks[i])
		}
	}
	return r.Store.CountAddresses(ctx, own)
}

func (r *router) newNetwork(ctx context.Context, c *fiber.Ctx) error {
	var req wire.NetworkRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	n, err := r.Networks().New(ctx, server.CallerOf(c).Asker(), req, r.Store.Nodes)
	if err != nil {
		return err
	}
	made, err := r.Store.CreateNetwork(ctx, n)
	if err != nil {
		return err
	}
	return server.Created(c, "/networks/"+url.PathEscape(made.Name), made)
}

func (r *router) changeNetwork(ctx context.Context, c *fiber.Ctx) error {
	n, err := r.Owned(ctx, c, seedbed.PublishedNetwork)
	if err != nil {
		return err
	}
	var req wire.NetworkChange
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	who := server.CallerOf(c)
	if req.Peer, err = r.NewPeers(ctx, who, n, req.Peer); err != nil {
		return err
	}
	if req.Unpeer, err = r.PeersNamed(ctx, who, n, req.Unpeer); err != nil {
		return err
	}
	change, err := r.Networks().Change(ctx, who.Asker(), req, r.Store.Nodes)
	if err != nil {
		return err
	}
	changed, err := r.Store.ChangeNetwork(ctx, n, func(n *seedbed.Network) error {
		if err := server.Matches(c, server.ContentTag(*n)); err != nil {
			return err
		}
		return change(n)
	})
	if err != nil {
		return err
	}
	return r.tellNetwork(ctx, c, changed)
}

func (r *router) newSecurityGroup(ctx context.Context, c *fiber.Ctx) error {
	var req wire.SecurityGroupRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	name, err := server.CallerOf(c).Qualified(securityGroup, req.Name)
	if err != nil {
		return err
	}
	g, err := r.Store.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: name, Description: req.Description, Rules: ruled(name, req.Rules)})
	if err != nil {
		return err
	}
	return server.Created(c, "/security-groups/"+url.PathEscape(g.Name), g)
}

// securityGroup is the noun of security groups in messages.
const securityGroup = "security group"

// ruled returns rules of a group, in which the groups of its project may be named without the project.
func ruled(group string, rules []seedbed.SecurityRule) []seedbed.SecurityRule {
	return server.Each(rules, func(r seedbed.SecurityRule) seedbed.SecurityRule {
		if r.Group != "" {
			r.Group = seedbed.QualifiedAll(seedbed.ProjectOf(group), []string{r.Group})[0]
		}
		return r
	})
}

func (r *router) securityGroups() listing[seedbed.SecurityGroup] {
	return listing[seedbed.SecurityGroup]{
		kind: securityGroup, name: func(g seedbed.SecurityGroup) string { return g.Name },
		read: inScope(r.Store.SecurityGroups, func(g seedbed.SecurityGroup) string { return seedbed.ProjectOf(g.Name) }),
	}
}

func (r *router) securityGroup(ctx context.Context, c *fiber.Ctx) error {
	return showTagged(ctx, c, securityGroup, r.Store.SecurityGroup, server.ContentTag)
}

func (r *router) removeSecurityGroup(ctx context.Context, c *fiber.Ctx) error {
	return dropTagged(ctx, c, securityGroup, r.Store.DeleteSecurityGroup, server.ContentTag)
}

func (r *router) changeSecurityGroup(ctx context.Context, c *fiber.Ctx) error {
	name, err := server.NameOf(c, securityGroup)
	if err != nil {
		return err
	}
	var req wire.SecurityGroupChange
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	g, err := r.Store.ChangeSecurityGroup(ctx, name, func(g *seedbed.SecurityGroup) error {
		if err := server.Matches(c, server.ContentTag(*g)); err != nil {
			return err
		}
		if req.Description != nil {
			g.Description = *req.Description
		}
		if req.Rules != nil {
			g.Rules = ruled(name, *req.Rules)
		}
		for _, r := range ruled(name, req.Revoke) {
			at := slices.IndexFunc(g.Rules, func(o seedbed.SecurityRule) bool { return o.ID() == r.ID() })
			if at < 0 {
				return seedbed.Errorf(seedbed.ErrNotFound, "security group %q has no rule %q", g.Name, r)
			}
			g.Rules = slices.Delete(g.Rules, at, at+1)
		}
		g.Rules = append(g.Rules, ruled(name, req.Allow)...)
		return nil
	})
	if err != nil {
		return err
	}
	return server.Tagged(c, server.ContentTag(g), g)
}

// placementGroup is the noun of placement groups in messages.
const placementGroup = "placement group"

func (r *router) newPlacementGroup(ctx context.Context, c *fiber.Ctx) error {
	var req wire.PlacementGroupRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	name, err := server.CallerOf(c).Qualified(placementGroup, req.Name)
	if err != nil {
		return err
	}
	g, err := r.Store.CreatePlacementGroup(ctx, seedbed.PlacementGroup{Name: name, Policy: req.Policy, Description: req.Description})
	if err != nil {
		return err
	}
	return server.Created(c, "/placement-groups/"+url.PathEscape(g.Name), g)
}

func (r *router) placementGroups() listing[seedbed.PlacementGroup] {
	return listing[seedbed.PlacementGroup]{
		kind: placementGroup, name: func(g seedbed.PlacementGroup) string { return g.Name },
		read: inScope(r.Store.PlacementGroups, func(g seedbed.PlacementGroup) string { return seedbed.ProjectOf(g.Name) }),
	}
}

func (r *router) placementGroup(ctx context.Context, c *fiber.Ctx) error {
	return showTagged(ctx, c, placementGroup, r.Store.PlacementGroup, server.ContentTag)
}

func (r *router) removePlacementGroup(ctx context.Context, c *fiber.Ctx) error {
	return dropTagged(ctx, c, placementGroup, r.Store.DeletePlacementGroup, server.ContentTag)
}

// networkLeases lists the addresses of the network that the path names, as far as the caller sees their instances, and the reservations
// that no instance has, if the caller sees those of the network's project.
func (r *router) networkLeases() listing[seedbed.NetworkLease] {
	return listing[seedbed.NetworkLease]{
		kind: "address", place: placeOfLease, read: inNetwork(r, r.leasesOf),
	}
}

// placeOfLease returns text that sorts addresses of IPv4 first, and then those of IPv6 alone by MAC address.
func placeOfLease(l seedbed.NetworkLease) string {
	version := "4"
	if !l.Addr.IsValid() {
		version = "6"
	}
	return version + string(l.Addr.AsSlice()) + string(l.MAC[:]) + string(l.Addr6.AsSlice())
}

// leasesOf returns the addresses of a network: those that the instances of a scope have, and the reserved ones of the others.
func (r *router) leasesOf(ctx context.Context, in seedbed.Scope, network string) ([]seedbed.NetworkLease, error) {
	all, err := r.Store.NetworkLeases(ctx, in, network)
	if err != nil || !in.Sees(seedbed.ProjectOf(network)) {
		return all, err
	}
	n, err := r.Store.Network(ctx, network)
	if err != nil || len(n.Reservations) == 0 {
		return all, err
	}
	every, err := r.Store.NetworkLeases(ctx, seedbed.AllProjects(), network)
	if err != nil {
		return nil, err
	}
	had := map[netip.Addr]bool{}
	for _, l := range every {
		had[l.Addr], had[l.Addr6] = true, true
	}
	for _, v := range n.Reservations {
		l := seedbed.NetworkLease{Addr: v.Addr, MAC: v.MAC, Reserved: true}
		if v.Addr.Is6() {
			l.Addr, l.Addr6 = netip.Addr{}, v.Addr
		}
		if !had[v.Addr] {
			all = append(all, l)
		}
	}
	return all, nil
}

// networkForwards lists the forwards into the network that the path names, as far as the caller sees their instances.
func (r *router) networkForwards() listing[seedbed.ForwardTo] {
	return listing[seedbed.ForwardTo]{
		kind: "forward", place: func(f seedbed.ForwardTo) string { return f.Listen.Key() }, read: inNetwork(r, r.Store.Forwards),
	}
}

// inNetwork makes a function that reads what instances of a scope have in a network one of the network that the path names.
func inNetwork[T any](
	r *router, read func(context.Context, seedbed.Scope, string) ([]T, error),
) func(context.Context, *fiber.Ctx) ([]T, error) {
	return func(ctx context.Context, c *fiber.Ctx) ([]T, error) {
		n, err := r.Visible(ctx, c, seedbed.PublishedNetwork)
		if err != nil {
			return nil, err
		}
		return read(ctx, server.CallerOf(c).Scope(), n)
	}
}

func (r *router) removeNetwork(ctx context.Context, c *fiber.Ctx) error {
	n, err := r.Owned(ctx, c, seedbed.PublishedNetwork)
	if err != nil {
		return err
	}
	if err := r.Store.DeleteNetwork(ctx, n, server.IfMatch(c, server.ContentTag[seedbed.Network])); err != nil {
		return err
	}
	c.Status(fiber.StatusNoContent)
	return nil
}

func (r *router) addresses() listing[seedbed.FloatingAddress] {
	return listing[seedbed.FloatingAddress]{
		kind: "floating address", place: func(a seedbed.FloatingAddress) string { return a.Addr.String() },
		read: func(ctx context.Context, c *fiber.Ctx) ([]seedbed.FloatingAddress, error) {
			in, err := server.ScopeOf(c)
			if err != nil {
				return nil, err
			}
			return r.Store.FloatingAddresses(ctx, in)
		},
		filters: []filterBy[seedbed.FloatingAddress]{
			byEitherName("network", seedbed.ShortName, func(a seedbed.FloatingAddress) string { return a.Network }),
			byEitherName("instance", func(full string) string { return seedbed.ParseInstanceName(full).Name },
				func(a seedbed.FloatingAddress) string { return a.Instance }),
			byWord("state", seedbed.FloatingStates(), seedbed.FloatingAddress.State),
		},
	}
}

func (r *router) newAddress(ctx context.Context, c *fiber.Ctx) error {
	var req wire.AddressRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	who := server.CallerOf(c)
	network, err := r.Sees(ctx, who, seedbed.PublishedNetwork, req.Network)
	if err != nil {
		return err
	}
	switch {
	case seedbed.AnyFree(req.Addr) && req.Addr.IsValid():
		return server.Invalid("addr %s is no host's: expected one that the network lends, or ipv6 for any IPv6 address", req.Addr)
	case req.IPv6 && req.Addr.Is4():
		return server.Invalid("addr %s is not an IPv6 address, which ipv6 asks for: expected one of them", req.Addr)
	case req.IPv6 && !req.Addr.IsValid():
		req.Addr = seedbed.AnyAddr6
	}
	a, err := r.Store.AllocateFloating(ctx, seedbed.FloatingAddress{Addr: req.Addr, Network: network, Project: who.Project,
		Description: req.Description})
	if err != nil {
		return err
	}
	return server.Created(c, "/addresses/"+a.Addr.String(), a)
}

// addressNamed returns the floating address of the caller's project that the path names.
func (r *router) addressNamed(ctx context.Context, who server.Caller, text string) (seedbed.FloatingAddress, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return seedbed.FloatingAddress{}, server.Invalid("%q is not an address: expected one such as 203.0.113.16", seedbed.Clip(text))
	}
	a, err := r.Store.FloatingAddress(ctx, addr)
	if err == nil && !who.Scope().Sees(a.Project) {
		err = seedbed.Errorf(seedbed.ErrNotFound, "floating address %s is not allocated", addr)
	}
	return a, err
}

func (r *router) address(ctx context.Context, c *fiber.Ctx) error {
	a, err := r.addressNamed(ctx, server.CallerOf(c), c.Params("name"))
	if err != nil {
		return err
	}
	return server.Tagged(c, server.ContentTag(a), a)
}

func (r *router) releaseAddress(ctx context.Context, c *fiber.Ctx) error {
	a, err := r.addressNamed(ctx, server.CallerOf(c), c.Params("name"))
	if err != nil {
		return err
	}
	if err := r.Store.ReleaseFloating(ctx, a.Addr, server.IfMatch(c, server.ContentTag[seedbed.FloatingAddress])); err != nil {
		return err
	}
	c.Status(fiber.StatusNoContent)
	return nil
}
