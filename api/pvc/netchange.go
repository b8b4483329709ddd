package pvc

import (
	"context"
	"net/netip"
	"strconv"

	"seedbed"
	"seedbed/api/server"
	"seedbed/provision/network"

	"github.com/gofiber/fiber/v2"
)

// createNet makes a network as PVC's client asks for it. Its name is the VNI. A managed one has NAT with a gateway, and
// is isolated without. The VNI of a bridged one is its VLAN on the uplink that the configuration names for them.
func (r *router) createNet(ctx context.Context, c *fiber.Ctx, f *fields) error {
	vni, description := f.must("vni", "A valid VNI must be specified."), f.must("description", "A valid description must be specified.")
	kind := f.must("nettype", "A valid nettype must be specified.")
	if number, err := strconv.Atoi(vni); f.err == nil && (err != nil || number < 1 || number > seedbed.MaxVNI || strconv.Itoa(number) != vni) {
		f.wrong("vni", "A valid VNI must be specified.")
	}
	if f.err == nil && kind != "managed" && kind != "bridged" {
		f.wrong("nettype", "A valid nettype must be specified.")
	}
	n := seedbed.Network{Kind: seedbed.NetworkIsolated, MAC: seedbed.NewMAC(), DHCP: f.flag("dhcp4")}
	n.Description, n.Domain = description, f.text("domain")
	prefix := f.text("ip4_network")
	switch {
	case f.err != nil:
		return f.err
	case kind == "bridged":
		return r.createBridged(ctx, c, n, vni)
	}
	var err error
	if n.Prefix, err = netip.ParsePrefix(prefix); err != nil && prefix != "" {
		return refused(fiber.StatusBadRequest, `ERROR: Failed to add network. The IPv4 network "%s" is not a subnet such as 10.99.1.0/24.`,
			seedbed.Clip(prefix))
	}
	if n.Name, err = server.CallerOf(c).Qualified("network", vni); err != nil {
		return err
	}
	if n.Prefix.IsValid() {
		n.Gateway = n.Prefix.Masked().Addr().Next()
	} else if n.DHCP = f.flag("dhcp6"); f.text("ip6_gateway") != "" {
		n.Kind = seedbed.NetworkRouted
	}
	if f.flag("dhcp4") && (f.text("dhcp4_start") == "" || f.text("dhcp4_end") == "") {
		return refused(fiber.StatusBadRequest, "ERROR: DHCPv4 start and end addresses are required for a DHCPv4-enabled network.")
	}
	n.Bridge = seedbed.BridgeOf(n.Name)
	if err := netFields(f, &n); err != nil {
		return err
	}
	if n.DNS == nil {
		n.DNS = r.Networks().ResolversOf(n)
	}
	n.VNI = overlayNumber(server.CallerOf(c), n.Name, vni)
	if err := network.FitNew(ctx, &n, r.Store.Nodes); err != nil {
		return err
	}
	return r.addNet(ctx, c, n)
}

// overlayNumber returns the VNI of a managed network, which is an overlay: its own, if the caller may choose one. Networks of
// different projects may have the same.
func overlayNumber(who server.Caller, name, vni string) int {
	number, err := strconv.Atoi(vni)
	if err != nil || seedbed.ProjectOf(name) != seedbed.DefaultProject || who.Need(seedbed.ActionNetworkProtect) != nil {
		return seedbed.NewVNI()
	}
	return number
}

// createBridged makes a network on a VLAN, whose addresses come from elsewhere. n has its description.
func (r *router) createBridged(ctx context.Context, c *fiber.Ctx, n seedbed.Network, vni string) (err error) {
	if r.PVCUplink == "" {
		return refused(fiber.StatusBadRequest, "ERROR: Failed to add network. Bridged networks need an uplink: network.pvc_uplink is not set.")
	}
	who := server.CallerOf(c)
	if err := who.Need(seedbed.ActionNetworkProtect); err != nil {
		return err
	}
	n.Kind, n.DHCP, n.Domain, n.DNS, n.Uplink = seedbed.NetworkBridged, false, "", []netip.Addr{}, r.PVCUplink
	if n.VLAN, err = strconv.Atoi(vni); err != nil {
		return err
	}
	if n.Name, err = who.Qualified("network", vni); err != nil {
		return err
	}
	n.Bridge = seedbed.BridgeOf(n.Name)
	return r.addNet(ctx, c, n)
}

func (r *router) addNet(ctx context.Context, c *fiber.Ctx, n seedbed.Network) error {
	if err := r.freeNet(ctx, server.CallerOf(c), n); err != nil {
		return err
	}
	if err := r.Networks().Places(server.CallerOf(c).Asker(), n); err != nil {
		return err
	}
	if _, err := r.Store.CreateNetwork(ctx, n); err != nil {
		return err
	}
	return say(c, "Network '%s' added successfully!", n.Description)
}

// freeNet refuses the name or the description of another network that the caller sees.
func (r *router) freeNet(ctx context.Context, who server.Caller, n seedbed.Network) error {
	all, err := r.nets(ctx, who)
	for _, other := range all {
		switch {
		case shownName(other) == shownName(n):
			return refused(fiber.StatusBadRequest, "ERROR: A network with VNI '%s' already exists!", shownName(n))
		case other.Description == n.Description || shownName(other) == n.Description:
			return refused(fiber.StatusBadRequest, "ERROR: A network with description '%s' already exists!", n.Description)
		}
	}
	return err
}

// modifyNet changes what the request has.
func (r *router) modifyNet(ctx context.Context, c *fiber.Ctx, f *fields) error {
	n, err := r.ownNet(ctx, c)
	if err != nil {
		return err
	}
	if n.Kind.OnWire() {
		for _, field := range []string{"ip4_network", "ip4_gateway", "dhcp4_start", "dhcp4_end", "name_servers", "domain"} {
			if f.text(field) != "" {
				return refused(fiber.StatusBadRequest, "ERROR: A bridged network has no %s.", field)
			}
		}
	}
	if prefix := f.text("ip4_network"); f.err == nil && prefix != "" && prefix != n.Prefix.String() {
		return refused(fiber.StatusBadRequest, "ERROR: The IPv4 network cannot be changed: the VMs have addresses of it.")
	}
	if gateway := f.text("ip4_gateway"); f.err == nil && gateway != "" && gateway != n.Gateway.String() {
		return refused(fiber.StatusBadRequest, "ERROR: The IPv4 gateway cannot be another address: the VMs have routes by it.")
	}
	nodes, err := r.Store.Nodes(ctx)
	if err != nil {
		return err
	}
	_, err = r.Store.ChangeNetwork(ctx, n.Name, func(n *seedbed.Network) error {
		if f.has("description") {
			n.Description = f.text("description")
		}
		if f.has("domain") {
			n.Domain = f.text("domain")
		}
		if flag := dhcpField(*n); f.has(flag) {
			n.DHCP = f.flag(flag)
		}
		was := *n
		if err := netFields(f, n); err != nil {
			return err
		}
		if f.has("mtu") {
			if err := network.Fit(n, nodes); err != nil {
				return err
			}
		}
		return r.Networks().PlacesChange(server.CallerOf(c).Asker(), was, *n)
	})
	if err != nil {
		return err
	}
	return say(c, "Network '%s' modified successfully!", server.Param(c, "net"))
}

// dhcpField returns the field that says whether a network has DHCP.
func dhcpField(n seedbed.Network) string {
	if n.Only6() {
		return "dhcp6"
	}
	return "dhcp4"
}

// netFields sets the MTU, the resolvers, the gateway and the range that a request has. An empty gateway isolates the
// network, and a gateway gives an isolated one NAT.
func netFields(f *fields, n *seedbed.Network) error {
	if err := netFields6(f, n); err != nil {
		return err
	}
	if f.text("mtu") != "" {
		n.MTU = f.number("mtu", "ERROR: The MTU must be an integer.")
	}
	if f.has("name_servers") {
		n.DNS = []netip.Addr{}
		for _, text := range f.list("name_servers") {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return refused(fiber.StatusBadRequest, `ERROR: The name server "%s" is not an address.`, seedbed.Clip(text))
			}
			n.DNS = append(n.DNS, a)
		}
	}
	if f.has("ip4_gateway") && n.Prefix.IsValid() && !n.Kind.OnWire() {
		gateway := f.text("ip4_gateway")
		switch a, err := netip.ParseAddr(gateway); {
		case gateway == "":
			n.Kind = seedbed.NetworkIsolated
		case err != nil:
			return refused(fiber.StatusBadRequest, `ERROR: The IPv4 gateway "%s" is not an address.`, seedbed.Clip(gateway))
		case n.Kind == seedbed.NetworkIsolated:
			n.Kind, n.Gateway = seedbed.NetworkNAT, a
		default:
			n.Gateway = a
		}
	}
	n.NAT = n.Kind == seedbed.NetworkNAT
	if first, last := f.text("dhcp4_start"), f.text("dhcp4_end"); first+last != "" {
		r, err := seedbed.ParseAddrRange(first + "-" + last)
		if err != nil {
			return refused(fiber.StatusBadRequest,
				"ERROR: The DHCPv4 start and end addresses are not a range: expected two IPv4 addresses in order.")
		}
		n.Range = r
	}
	return f.err
}

// netFields6 sets the IPv6 prefix and gateway that a request has.
func netFields6(f *fields, n *seedbed.Network) error {
	if f.has("ip6_network") {
		p := netip.Prefix{}
		if text := f.text("ip6_network"); text != "" {
			var err error
			if p, err = netip.ParsePrefix(text); err != nil {
				return refused(fiber.StatusBadRequest, `ERROR: The IPv6 network "%s" is not a prefix such as fd12:3456:789a:1::/64.`,
					seedbed.Clip(text))
			}
		}
		if p != n.Prefix6 { // what belongs to the former goes with it
			n.Prefix6, n.Range6, n.Router6 = p, netip.Prefix{}, netip.Addr{}
		}
		n.SLAAC = n.SLAAC && p.IsValid()
	}
	gateway := f.text("ip6_gateway")
	if gateway == "" || f.err != nil {
		return f.err
	}
	if !n.Gateway6().IsValid() {
		return refused(fiber.StatusBadRequest, "ERROR: An IPv6 gateway needs an IPv6 network.")
	}
	a, err := netip.ParseAddr(gateway)
	if err != nil {
		return refused(fiber.StatusBadRequest, `ERROR: The IPv6 gateway "%s" is not an address.`, seedbed.Clip(gateway))
	}
	if n.Router6 = a; a == n.Prefix6.Addr().Next() {
		n.Router6 = netip.Addr{} // it is without one
	}
	return nil
}
