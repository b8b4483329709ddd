package profile

import (
	"context"
	"strconv"
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
	c.AddCommand(networkTemplateAdd(a), networkTemplateRemove(a), networkTemplateList(a), vni)
	return c
}

func networkTemplateAdd(a *cli.App) *cobra.Command {
	var mac string
	c := &cobra.Command{
		Use: "add NAME", Short: "Add a network template",
		Long: `Add a network template; "vni add" then adds networks to it. In --mac-template, {prefix}
stands for 52:54:01, {vmid} for the hexadecimal digit of the number at the end of the
instance's name (modulo 16, 0 if it has none) and {netid} for that of the NIC, counted
from 0. Without a MAC template, addresses are generated randomly.`,
		Example: `  seedbed provisioner template network add lan --mac-template '{prefix}:2f:1f:{vmid}{netid}'`,
		Args:    cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			_, err := api.CreateNetworkTemplate(ctx, wire.NetworkTemplateRequest{Name: args[0], MAC: seedbed.MACTemplate(mac)})
			return cli.Done(err, "Added new network template %q.", args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().StringVarP(&mac, "mac-template", "m", "", "`TEMPLATE` of MAC addresses")
	return c
}

func networkTemplateRemove(a *cli.App) *cobra.Command {
	return a.Removal("remove NAME", "Remove a network template", "Remove network template %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return cli.Done(api.DeleteNetworkTemplate(ctx, args[0]), "Removed network template %q.", args[0])
		}, cli.NetworkTemplates)
}

func networkTemplateList(a *cli.App) *cobra.Command {
	return cli.MatchingCommand(a, "network templates", "no network templates yet: seedbed provisioner template network add NAME",
		(*client.Client).NetworkTemplates, []string{"name", "id", "mac template", "networks"},
		func(t wire.NetworkTemplate) []string {
			return []string{t.Name, strconv.FormatInt(t.ID, 10), orDash(string(t.MAC)), strings.Join(t.VNIs, ", ")}
		})
}

func vniAdd(a *cli.App) *cobra.Command {
	var again bool
	c := &cobra.Command{
		Use: "add NAME VNI", Short: "Add a NIC on the network VNI (seedbed network list)", Args: cobra.ExactArgs(2),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			_, err := api.AddTemplateNetwork(ctx, args[0], wire.TemplateNetworkRequest{VNI: args[1], PermitDuplicate: again})
			return cli.Done(err, "Added new network %q to network template %q.", args[1], args[0])
		}),
		ValidArgsFunction: a.Completion(cli.NetworkTemplates, cli.Networks),
	}
	c.Flags().BoolVarP(&again, "permit-duplicate", "d", false, "add a second NIC on a network that the template already has")
	return c
}

func vniRemove(a *cli.App) *cobra.Command {
	return a.Removal("remove NAME VNI", "Remove every NIC on the network VNI", "Of network template %s remove network %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return cli.Done(api.RemoveTemplateNetwork(ctx, args[0], args[1]), "Removed network %q from network template %q.", args[1], args[0])
		}, cli.NetworkTemplates, cli.TemplateVNIs)
}
