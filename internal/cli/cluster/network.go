package cluster

import (
	"context"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// NetworkCommand returns the command network with its subcommands.
func NetworkCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "network", Aliases: []string{"networks"}, Short: "Manage networks"})
	r := networks()
	c.AddCommand(r.List(a, "list", "List networks"), r.Show(a, "show NAME", "Show a network"), networkSet(a))
	return c
}

func networks() cli.Resource[seedbed.Network] {
	return cli.Resource[seedbed.Network]{
		Project: func(n seedbed.Network) string { return seedbed.ProjectOf(n.Name) },
		Some:    cli.Selected((*client.Client).ListNetworks), Filters: []cli.Filter{cli.NameFilter()},
		None: "no networks yet: seedbedd creates one at its first start", Unmatched: "no matching networks",
		Head: []string{"name", "bridge", "prefix", "gateway", "identity", "allows", "published"},
		Row: func(n seedbed.Network) []string {
			return []string{n.Name, n.Bridge, n.Prefix.String(), n.Gateway.String(), n.Identity, allowed(n.Allow), cli.PublishedTo(n.Published)}
		},
		One: cli.Named((*client.Client).Network), Pairs: networkPairs,
	}
}

func networkPairs(_ *cli.App, n seedbed.Network) [][2]string {
	return [][2]string{
		{"name", n.Name}, {"bridge", n.Bridge}, {"mac", n.MAC.String()}, {"prefix", n.Prefix.String()}, {"gateway", n.Gateway.String()},
		{"dns", strings.Join(cli.Each(n.DNS, netip.Addr.String), ", ")}, {"nat", cli.YesNo(n.NAT)},
		{"dhcp", cli.YesNo(n.DHCP)}, {"identity", n.Identity}, {"allows", allowed(n.Allow)},
		{"published", cli.PublishedTo(n.Published)},
	}
}

// allowances holds the names of what a network can allow.
var allowances = []struct {
	name string
	in   func(*seedbed.NetworkPermissions) *bool
}{
	{"addresses", func(a *seedbed.NetworkPermissions) *bool { return &a.Addresses }},
	{"dhcp-server", func(a *seedbed.NetworkPermissions) *bool { return &a.DHCPServer }},
	{"router-advertisements", func(a *seedbed.NetworkPermissions) *bool { return &a.RouterAdvertisements }},
	{"metadata-addresses", func(a *seedbed.NetworkPermissions) *bool { return &a.MetadataAddresses }},
}

func allowed(a seedbed.NetworkPermissions) string {
	var names []string
	for _, w := range allowances {
		if *w.in(&a) {
			names = append(names, w.name)
		}
	}
	return strings.Join(names, ", ")
}

// parseAllowance parses names. "none" stands for nothing allowed.
func parseAllowance(names []string) (any, error) {
	var allow seedbed.NetworkPermissions
	for _, name := range names {
		found := name == "none" && len(names) == 1
		for _, w := range allowances {
			if w.name == name {
				*w.in(&allow), found = true, true
			}
		}
		if !found {
			return allow, cli.Usagef("--allow %q: expected addresses, dhcp-server, router-advertisements or metadata-addresses, or only none", name)
		}
	}
	return allow, nil
}

func networkSet(a *cli.App) *cobra.Command {
	var change wire.NetworkChange
	c := &cobra.Command{
		Use: "set NAME", Short: "Change a network's identity check and protections",
		Long: `Change a network; its nodes apply the change immediately.

--allow lists what guests may do that is prevented by default: addresses (send from
addresses that are not their own), dhcp-server, router-advertisements,
metadata-addresses (claim those of the metadata service); or none. The list replaces
the former one.

--identity tap serves only guests whose tap device Seedbed made; mac also serves guests
that are identified only by their MAC in the neighbour table, which another machine on
the bridge can forge.`,
	}
	f := a.Fill(c, &change,
		cli.Flag{Field: "allow", Usage: "`PROTECTIONS` to switch off, separated by commas, or none", ParseAll: parseAllowance},
		cli.Flag{Field: "identity", Usage: "`METHOD` to identify guests: tap or mac"},
	)
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		if !f.Given() {
			return cli.Usagef("nothing to change: give --allow or --identity")
		}
		n, err := api.ChangeNetwork(ctx, args[0], change)
		return a.ShowPairs(err, n, networkPairs(a, n))
	})
	return c
}
