// Package network has the commands that manage networks.
package network

import (
	"context"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// Command returns the command network with its subcommands.
func Command(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "network", Aliases: []string{"networks"}, Short: "Manage networks"})
	r := networks()
	c.AddCommand(add(a), r.List(a, "list", "List networks"), r.Show(a, "show NAME", "Show a network"), change(a), remove(a), leases(a),
		reserve(a), unreserve(a), peer(a), unpeer(a), forwardCommand(a), traceCommand(a))
	return c
}

func networks() cli.Resource[seedbed.Network] {
	return cli.Resource[seedbed.Network]{
		Project: func(n seedbed.Network) string { return seedbed.ProjectOf(n.Name) },
		Some:    cli.Selected((*client.Client).ListNetworks), Filters: []cli.Filter{cli.NameFilter()},
		None: "no networks yet: seedbed network add NAME --prefix PREFIX", Unmatched: "no matching networks",
		Head: []string{"name", "kind", "bridge", "uplink", "prefix", "gateway", "used", "free", "ipv6 prefix", "mtu", "identity",
			"allows", "published", "description"},
		Row: func(n seedbed.Network) []string {
			return []string{n.Name, string(n.Kind), cli.When(n.Kind.Served(), n.Bridge), uplink(n), text(n.Prefix), text(n.Gateway),
				count(n.Addresses, used), count(n.Addresses, free), text(n.Prefix6), cli.Number(n.MTU), n.Identity,
				allowed(n.Allow), cli.PublishedTo(n.Published), n.Description}
		},
		One: cli.Named((*client.Client).Network), Pairs: pairs,
	}
}

func pairs(_ *cli.App, n seedbed.Network) [][2]string {
	return [][2]string{
		{"name", n.Name}, {"description", n.Description}, {"kind", string(n.Kind)}, {"bridge", cli.When(n.Kind.Served(), n.Bridge)},
		{"mac", cli.When(n.Kind.Served(), n.MAC.String())}, {"uplink", n.Uplink}, {"mode", n.Mode}, {"vlan", cli.Number(n.VLAN)},
		{"vni", cli.Number(n.VNI)}, {"prefix", text(n.Prefix)},
		{"gateway", text(n.Gateway)}, {"ipv6 prefix", text(n.Prefix6)}, {"ipv6 gateway", text(n.Gateway6())},
		{"ipv6 range", text(n.Range6)}, {"slaac", cli.When(n.Prefix6.IsValid(), cli.YesNo(n.SLAAC))},
		{"range", n.Range.String()}, {"addresses used", count(n.Addresses, used)}, {"addresses free", count(n.Addresses, free)},
		{"kept", texts(n.Kept)}, {"reservations", reservations(n)},
		{"peers", strings.Join(n.Peers, ", ")},
		{"floating", texts(n.Floating)}, {"floating uplink", n.FloatingUplink}, {"mtu", cli.Number(n.MTU)},
		{"bandwidth in", cli.When(n.BandwidthIn != 0, n.BandwidthIn.String())},
		{"bandwidth out", cli.When(n.BandwidthOut != 0, n.BandwidthOut.String())},
		{"dhcp", cli.YesNo(n.DHCP)}, {"dns", texts(n.DNS)}, {"domain", n.GuestDomain()}, {"search", strings.Join(n.Search, ", ")},
		{"ntp", texts(n.NTP)},
		{"routes", texts(cli.Each(n.Routes, func(r seedbed.NetworkRoute) route { return route(r) }))},
		{"boot file", n.BootFile}, {"boot server", cli.When(n.BootServer.IsValid(), n.BootServer.String())},
		{"no probe", cli.When(n.NoProbe, cli.YesNo(n.NoProbe))},
		{"identity", n.Identity}, {"allows", allowed(n.Allow)}, {"published", cli.PublishedTo(n.Published)},
		{"acls", strings.Join(cli.Each(n.ACLs, acl), "\n")},
	}
}

// count returns one of the counts of a network's addresses. A network that gives no IPv4 addresses has none.
func count(use *seedbed.AddressCount, of func(seedbed.AddressCount) int64) string {
	if use == nil {
		return ""
	}
	return strconv.FormatInt(of(*use), 10)
}

func used(use seedbed.AddressCount) int64 { return use.Used }
func free(use seedbed.AddressCount) int64 { return use.Free }

// acl returns a rule of PVC's client in one line.
func acl(a seedbed.NetworkACL) string {
	return string(a.Direction) + " " + a.Description + ": " + a.Rule
}

// text returns a prefix or an address; one that is not valid has no text.
func text[T interface {
	IsValid() bool
	String() string
}](v T) string {
	return cli.When(v.IsValid(), v.String())
}

// uplink returns the uplink of a network with its VLAN, or the number of an overlay.
func uplink(n seedbed.Network) string {
	switch {
	case n.VLAN != 0:
		return strings.TrimSpace(n.Uplink + " VLAN " + strconv.Itoa(n.VLAN) + " " + n.Mode)
	case n.VNI != 0:
		return "overlay " + strconv.Itoa(n.VNI)
	}
	return strings.TrimSpace(n.Uplink + " " + n.Mode)
}

func texts[T interface{ String() string }](all []T) string {
	return strings.Join(cli.Each(all, T.String), ", ")
}

// route is a route as the flag --route gives it.
type route seedbed.NetworkRoute

func (r route) String() string { return r.Prefix.String() + "=" + r.Via.String() }

const kinds = `A network is of one of these kinds:
  nat       guests reach other networks with the address of their node (the default)
  routed    guests reach other networks, and are reached from there, with their own
            addresses; the routers around the nodes must know the way
  isolated  guests reach each other and the services of their node alone; without
            --prefix and --prefix6, it is plain Ethernet, in which nothing of Seedbed gives
            them addresses
  bridged   guests are hosts of the network behind --uplink, a bridge of the node or an
            interface that it does not use itself, tagged with --vlan; without --prefix
            and --prefix6, addresses come from the DHCP server of that network
  direct    as bridged, without a bridge: guests are at --uplink by macvtap, or have a
            virtual function of it (--mode sriov); no node serves or filters them

`

func add(a *cli.App) *cobra.Command {
	var r wire.NetworkRequest
	c := &cobra.Command{
		Use: "add NAME", Short: "Make a network",
		Long: "Make a network; each node makes a bridge for it. " + kinds +
			`Guests of two networks do not reach each other unless "network peer" peers them. The
prefixes of networks may overlap unless both reach outside or peers. The guests of a
network on different nodes do not see each other, unless it is bridged or an overlay:
with --overlay, the bridges of all nodes are one network, by VXLAN over UDP port 4789
between the nodes.`,
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			bare := r.Kind == seedbed.NetworkIsolated || r.Kind.OnWire()
			if r.Name = args[0]; !r.Prefix.IsValid() && !r.Prefix6.IsValid() && !bare {
				return "", cli.Usagef("--prefix is missing: expected the IPv4 subnet of the guests, such as 10.99.1.0/24, or --prefix6 for " +
					"IPv6 alone; only --kind isolated, bridged and direct have networks without addresses")
			}
			_, err := api.CreateNetwork(ctx, r)
			return cli.Done(err, "Added network %q.", args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.Fill(c, &r, append([]cli.Flag{
		{Field: "prefix", Usage: "IPv4 `PREFIX` of the guests, such as 10.99.1.0/24; without one and with --prefix6, they have IPv6 alone, " +
			"and without both, no addresses of Seedbed"},
		{Field: "gateway", Usage: "`ADDRESS` of the bridge (default: the first of the prefix), or of the router of a bridged network"},
		{Field: "uplink", Usage: "`INTERFACE` of the nodes by which a bridged or direct network is reached"},
		{Field: "vlan", Usage: "`TAG` of a bridged network, or of one of mode sriov, on its uplink, 1 to 4094"},
		{Field: "mode", Usage: "`MODE` of a direct network: bridge (the default), vepa, private or passthrough of macvtap, or sriov"},
		{Field: "overlay", Usage: "whether guests of all nodes are in one network, by VXLAN"},
		{Field: "vni", Usage: "`NUMBER` of the overlay, 1 to 16777215 (default with --overlay: chosen)"},
		{Field: "bridge", Usage: "`NAME` of the interface on the nodes (default: chosen)"},
	}, settings()...)...)
	return c
}

func change(a *cli.App) *cobra.Command {
	var change wire.NetworkChange
	c := &cobra.Command{
		Use: "set NAME", Short: "Change a network",
		Long: `Change a network; its nodes apply the change immediately, and guests learn it when they
renew their lease, within half an hour. The prefix, the gateway and the bridge cannot
change. A list replaces the former one. With "none", a list, a text or an address is empty.

--allow lists what guests may do that is prevented by default: addresses (send from
addresses that are not their own), dhcp-server, router-advertisements,
metadata-addresses (claim those of the metadata service); or none.

--identity tap serves only guests whose tap device Seedbed made; mac also serves guests
that are identified only by their MAC in the neighbour table, which another machine on
the bridge can forge.`,
	}
	f := a.Fill(c, &change, settings()...)
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		if !f.Given() {
			return cli.Usagef("nothing to change: give a flag, such as --mtu")
		}
		n, err := api.ChangeNetwork(ctx, args[0], change)
		return a.ShowPairs(err, n, pairs(a, n))
	})
	c.ValidArgsFunction = a.Completion(cli.Networks)
	return c
}

// settings are the flags of what may change of a network.
func settings() []cli.Flag {
	return []cli.Flag{
		{Field: "kind", Usage: "`KIND`: nat, routed, isolated, bridged or direct"},
		{Field: "description", Usage: "description as `TEXT`"},
		{Field: "dhcp", Usage: "whether guests get their addresses by DHCP"},
		{Field: "dns", Usage: "resolvers that DHCP announces, as `ADDRESSES` separated by commas (default: network.dns, or " +
			"169.254.169.253)",
			ParseAll: list("dns", netip.ParseAddr)},
		{Field: "floating", Usage: "`ADDRESSES`, ranges or prefixes, of IPv4 and IPv6, that the network lends to instances as floating ones, " +
			"separated by commas",
			ParseAll: list("floating", seedbed.ParseAddrRange)},
		{Field: "floating_uplink", Usage: "`INTERFACE` of the nodes that answers for floating addresses",
			Parse: orNone("floating-uplink", plain)},
		{Field: "range", Usage: "`FIRST-LAST` addresses from which NICs get one that do not ask for one (default: the whole prefix)",
			Parse: orNone("range", seedbed.ParseAddrRange)},
		{Field: "kept", Usage: "`ADDRESSES`, ranges or prefixes, of IPv4 and IPv6, that no NIC gets, separated by commas",
			ParseAll: list("kept", seedbed.ParseAddrRange)},
		{Field: "mtu", Usage: "`MTU` of the bridge and the NICs, 1280 to 9216 (default: 1500; of an overlay, what the nodes have room for)"},
		{Field: "bandwidth_in", Usage: "`RATE` at which each NIC may receive, such as 100Mbit; 0 for no limit"},
		{Field: "bandwidth_out", Usage: "`RATE` at which each NIC may send; 0 for no limit"},
		{Field: "prefix6", Usage: "IPv6 `PREFIX` of the guests, a /64 such as fd12:3456:789a:1::/64; none takes it away",
			Parse: orNone("prefix6", parsePrefix6)},
		{Field: "range6", Usage: "IPv6 `PREFIX` of /65 to /80 within --prefix6, in which NICs have their first addresses",
			Parse: orNone("range6", parsePrefix6)},
		{Field: "gateway6", Usage: "IPv6 `ADDRESS` of the nodes (default: the first of --prefix6)", Parse: orNone("gateway6", netip.ParseAddr)},
		{Field: "slaac", Usage: "whether guests choose their IPv6 addresses by router advertisements (default: DHCPv6 has them)"},
		{Field: "no_probe", Usage: "whether guests of a bridged network get addresses without a probe of whether a host uses them"},
		{Field: "domain", Usage: "DNS `DOMAIN` of the guests", Parse: orNone("domain", plain)},
		{Field: "search", Usage: "`DOMAINS` in which guests look up short names, separated by commas",
			ParseAll: list("search", func(s string) (string, error) { return s, nil })},
		{Field: "ntp", Usage: "time servers, as `ADDRESSES` separated by commas", ParseAll: list("ntp", netip.ParseAddr)},
		{Field: "routes", Name: "route", Usage: "further `PREFIX=ROUTER` of the guests, of IPv6 by the IPv6 gateway, separated by commas",
			ParseAll: list("route", parseRoute)},
		{Field: "boot_file", Usage: "`FILE` that firmware loads from the boot server by TFTP, or its URL", Parse: orNone("boot-file", plain)},
		{Field: "boot_server", Usage: "TFTP server, as `ADDRESS`", Parse: orNone("boot-server", netip.ParseAddr)},
		{Field: "identity", Usage: "`METHOD` to identify guests: tap or mac"},
		{Field: "allow", Usage: "`PROTECTIONS` to switch off, separated by commas, or none", ParseAll: parseAllowance},
	}
}

// none stands for an empty list, and for no text or address.
const none = "none"

// list returns a function that parses each text that a flag lists. "none" alone is the empty list.
func list[T any](flag string, parse func(string) (T, error)) func([]string) (any, error) {
	return func(texts []string) (any, error) {
		all := []T{}
		if len(texts) == 1 && texts[0] == none {
			return all, nil
		}
		for _, text := range texts {
			v, err := parse(text)
			if err != nil {
				return nil, cli.Usagef("--%s: %s", flag, err)
			}
			all = append(all, v)
		}
		return all, nil
	}
}

func parseRoute(text string) (r seedbed.NetworkRoute, err error) {
	to, via, _ := strings.Cut(text, "=")
	if r.Prefix, err = netip.ParsePrefix(to); err == nil {
		r.Via, err = netip.ParseAddr(via)
	}
	if err != nil {
		err = cli.Usagef("%q: expected PREFIX=ROUTER, such as 10.20.0.0/16=10.99.1.2", text)
	}
	return r, err
}

// orNone returns a function that parses the text of a flag. "none" is the zero value, as the empty text is.
func orNone[T any](flag string, parse func(string) (T, error)) func(string) (any, error) {
	return func(text string) (any, error) {
		var v T
		if text == none || text == "" {
			return v, nil
		}
		v, err := parse(text)
		if err != nil {
			return nil, cli.Usagef("--%s: %s, or none", flag, err)
		}
		return v, nil
	}
}

func parsePrefix6(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		err = cli.Usagef("%q: expected an IPv6 prefix such as fd12:3456:789a:1::/64", text)
	}
	return p, err
}

func plain(text string) (string, error) { return text, nil }

func remove(a *cli.App) *cobra.Command {
	return a.Removal("remove NAME", "Remove a network that nothing uses", "Remove network %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return cli.Done(api.DeleteNetwork(ctx, args[0]), "Removed network %q.", args[0])
		}, cli.Networks)
}

func leases(a *cli.App) *cobra.Command {
	r := cli.Resource[seedbed.NetworkLease]{
		Some: func(api *client.Client, ctx context.Context, args []string, s client.Selection) ([]seedbed.NetworkLease, error) {
			return api.NetworkLeases(ctx, args[0], s)
		},
		Head: []string{"address", "ipv6", "mac", "instance", "nic", "lease"}, None: "no instance has a NIC in the network ARG",
		Row: func(l seedbed.NetworkLease) []string {
			until := cli.When(!l.Until.IsZero(), a.Moment(l.Until)) + cli.When(l.Secondary, "secondary") + cli.When(l.Reserved, "reserved")
			nic := cli.When(!l.Reserved, strconv.Itoa(l.NIC))
			return []string{text(l.Addr), text(l.Addr6), l.MAC.String(), l.Instance, nic, until}
		},
	}
	c := r.List(a, "leases NAME", "List the addresses of a network that instances have, and that are reserved")
	c.ValidArgsFunction = a.Completion(cli.Networks)
	return c
}
