package profile

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

func networkTemplateCmd(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "network", Short: "NICs"})
	vni := cli.Group(&cobra.Command{Use: "vni", Short: "Manage the networks of a network template"})
	vni.AddCommand(vniAdd(a), vniRemove(a))
	c.AddCommand(networkTemplateAdd(a),
		removal(a, "network template", (*client.Client).DeleteNetworkTemplate, cli.NetworkTemplates), networkTemplateList(a), vni)
	return c
}

func networkTemplateAdd(a *cli.App) *cobra.Command {
	var r wire.NetworkTemplateRequest
	c := &cobra.Command{
		Use: "add NAME", Short: "Add a network template",
		Long: `Add a network template; "vni add" then adds networks to it. In --mac-template, {prefix}
stands for 52:54:01, {vmid} for the hexadecimal digit of the number at the end of the
instance's name (modulo 16, 0 if it has none) and {netid} for that of the NIC, counted
from 0. Without a MAC template, addresses are generated randomly.`,
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			r.Name = args[0]
			_, err := api.CreateNetworkTemplate(ctx, r)
			return cli.Done(err, "Added new network template %q.", args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.Fill(c, &r, cli.Flag{Field: "mac_template", Short: "m", Usage: "`TEMPLATE` of MAC addresses"})
	return c
}

func networkTemplateList(a *cli.App) *cobra.Command {
	return cli.Resource[wire.NetworkTemplate]{
		Some:      cli.Matching((*client.Client).NetworkTemplates),
		Project:   func(v wire.NetworkTemplate) string { return seedbed.ProjectOf(v.Name) },
		None:      "no network templates yet: seedbed template network add NAME",
		Unmatched: "no network templates with that name",
		Head:      []string{"name", "id", "mac template", "networks", "published"},
		Row: func(t wire.NetworkTemplate) []string {
			return []string{t.Name, cli.Number(int(t.ID)), orDash(string(t.MAC)), strings.Join(t.VNIs, ", "), cli.PublishedTo(t.Published)}
		},
	}.List(a, "list [LIMIT]", "List network templates")
}

func vniAdd(a *cli.App) *cobra.Command {
	var r wire.TemplateNetworkRequest
	c := &cobra.Command{
		Use: "add NAME VNI", Short: "Add a NIC on the network VNI (seedbed network list)",
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			r.VNI = args[1]
			_, err := api.AddTemplateNetwork(ctx, args[0], r)
			return cli.Done(err, "Added new network %q to network template %q.", args[1], args[0])
		}),
		ValidArgsFunction: a.Completion(cli.NetworkTemplates, cli.Networks),
	}
	a.Fill(c, &r, cli.Flag{Field: "permit_duplicate", Short: "d", Usage: "add a second NIC on a network that the template already has"})
	return c
}

func vniRemove(a *cli.App) *cobra.Command {
	return a.Removal("remove NAME VNI", "Remove every NIC on the network VNI", "Remove network %[2]s from network template %[1]s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return cli.Done(api.RemoveTemplateNetwork(ctx, args[0], args[1]), "Removed network %q from network template %q.", args[1], args[0])
		}, cli.NetworkTemplates, cli.TemplateVNIs)
}
