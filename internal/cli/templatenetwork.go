package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed/api/client"
)

func (a *App) networkTemplateCmd() *cobra.Command {
	c := Group(&cobra.Command{Use: "network", Short: "NICs"})
	vni := Group(&cobra.Command{Use: "vni", Short: "The networks of a network template"})
	vni.AddCommand(a.vniAdd(), a.vniRemove())
	c.AddCommand(a.networkTemplateAdd(), a.networkTemplateRemove(), a.networkTemplateList(), vni)
	return c
}

func (a *App) networkTemplateAdd() *cobra.Command {
	var mac string
	c := &cobra.Command{
		Use: "add NAME", Short: "Make a network template",
		Long: `Make a network template, without networks yet (vni add). In --mac-template {prefix}
stands for 52:54:01, {vmid} for the hexadecimal digit of the number at the end of
the instance's name (modulo 16, 0 without one) and {netid} for that of the NIC,
counted from 0. Without a MAC template addresses are drawn.`,
		Example: `  seedbed provisioner template network add lan --mac-template '{prefix}:2f:1f:{vmid}{netid}'`,
		Args:    cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return api.AddNetworkTemplate(ctx, args[0], mac)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().StringVarP(&mac, "mac-template", "m", "", "`template` of MAC addresses")
	return c
}

func (a *App) networkTemplateRemove() *cobra.Command {
	return a.Removal("remove NAME", "Remove a network template", "Remove network template %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return api.RemoveNetworkTemplate(ctx, args[0])
		}, networkTemplates)
}

func (a *App) networkTemplateList() *cobra.Command {
	return MatchingCommand(a, "network templates", "no network templates yet: seedbed provisioner template network add NAME",
		(*client.Client).NetworkTemplates, []string{"name", "id", "mac template", "networks"},
		func(t client.NetworkTemplate) []string {
			var vnis []string
			for _, n := range t.Networks {
				vnis = append(vnis, n.VNI)
			}
			return []string{t.Name, strconv.FormatInt(t.ID, 10), orDash(t.MAC), strings.Join(vnis, ", ")}
		})
}

func (a *App) vniAdd() *cobra.Command {
	var again bool
	c := &cobra.Command{
		Use: "add NAME VNI", Short: "Add a NIC on the network VNI (seedbed network list)", Args: cobra.ExactArgs(2),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return api.AddTemplateNetwork(ctx, args[0], args[1], again)
		}),
		ValidArgsFunction: a.Completion(networkTemplates, networks),
	}
	c.Flags().BoolVarP(&again, "permit-duplicate", "d", false, "add a second NIC on a network that the template has")
	return c
}

func (a *App) vniRemove() *cobra.Command {
	return a.Removal("remove NAME VNI", "Remove every NIC on the network VNI", "Remove from network template %s the network %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return api.RemoveTemplateNetwork(ctx, args[0], args[1])
		}, networkTemplates, templateVNIs)
}
