package instance

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
	"seedbed/internal/cli/flags"
)

// vmNIC returns the command nic with its subcommands.
func vmNIC(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "nic", Aliases: []string{"nics"}, Short: "Manage the NICs of an instance, even while it runs"})
	c.AddCommand(nicList(a), nicAdd(a), nicSet(a), nicRemove(a))
	return c
}

func nicList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: a.Completion(cli.Instances, cli.NoNames),
		Use:               "list VM", Short: "List the NICs of an instance",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			all, err := api.NICs(ctx, args[0])
			if err != nil {
				return err
			}
			rows := cli.Each(all, func(n seedbed.NIC) []string {
				state := "attached"
				if n.State != seedbed.NICAttached {
					state = string(n.State)
				}
				groups := n.Groups
				if len(groups) == 0 {
					groups = []string{seedbed.OpenGroup}
				}
				var floating []string
				for _, addr := range []netip.Addr{n.Floating, n.Floating6} {
					if addr.IsValid() {
						floating = append(floating, addr.String())
					}
				}
				return []string{strconv.Itoa(n.Index), n.Network, strings.Join(addressesOf(n), ", "), n.MAC.String(), strings.Join(groups, ", "),
					strings.Join(floating, ", "), state}
			})
			return a.ShowTable(all, []string{"nic", "network", "address", "mac", "security groups", "floating", "state"}, rows,
				args[0]+" has no NICs")
		}),
	}
}

// nicArg parses the NIC that an argument describes.
func nicArg(text string) (seedbed.NICRequest, error) {
	all, err := flags.ParseNICs("NIC ", []string{text})
	if err != nil {
		return seedbed.NICRequest{}, err
	}
	return all[0], nil
}

func nicAdd(a *cli.App) *cobra.Command {
	var (
		w   cli.WaitFlags
		dry bool
	)
	c := &cobra.Command{
		Use: "add VM NIC", Short: "Add a NIC to an instance",
		Long: `Add a NIC to an instance, at once if its guest runs. NIC says what it is to have, as for
seedbed create --nic: network=NETWORK, ip=ADDRESS, secondary=ADDRESS+ADDRESS or a count,
secondary6=COUNT, mac=ADDRESS, group=GROUP, in=RATE and out=RATE, separated by commas.
All but the network have a default. Its filters are in place before the guest sees it.`,
		Example: "  seedbed vm nic add web1 network=lab,ip=10.9.0.50,group=web",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			n, err := nicArg(args[1])
			switch {
			case err != nil:
				return err
			case n.Network == "":
				return cli.Usagef("NIC %q: the network is missing: expected network=NETWORK", args[1])
			case dry:
				return a.ShowPlan(api.PlanAddNIC(ctx, args[0], n))
			}
			receipt, err := api.AddNIC(ctx, args[0], n)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
		ValidArgsFunction: a.Completion(cli.Instances, cli.NoNames),
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be added and what prevents it")
	w.AddJob(a, c)
	return c
}

func nicSet(a *cli.App) *cobra.Command {
	var (
		w   cli.WaitFlags
		dry bool
	)
	c := &cobra.Command{
		Use: "set VM NIC CHANGE", Short: "Take a NIC of an instance to another network",
		Long: `Take a NIC of an instance to another network. NIC is its index or its MAC address, and
CHANGE is network=NETWORK or network=NETWORK,ip=ADDRESS. The guest of a running instance
sees the NIC go, and come again with the same MAC address. Security groups, rates and
secondary addresses change at once, without a job: seedbed vm security-groups, vm
bandwidth and address assign.`,
		Example: "  seedbed vm nic set web1 1 network=lab,ip=10.9.0.51",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			n, err := nicArg(args[2])
			if err != nil {
				return err
			}
			change := wire.NICChange{Network: n.Network, Addr: n.Addr}
			only := strings.Count(args[2], ",") == 0 || strings.Count(args[2], ",") == 1 && n.Addr.IsValid()
			switch {
			case n.Network == "" || !only:
				return cli.Usagef("NIC %q: expected network=NETWORK, or network=NETWORK,ip=ADDRESS; seedbed vm security-groups, vm bandwidth "+
					"and address assign change the rest", args[2])
			case dry:
				return a.ShowPlan(api.PlanSetNIC(ctx, args[0], args[1], change))
			}
			receipt, err := api.SetNIC(ctx, args[0], args[1], change)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
		ValidArgsFunction: a.Completion(cli.Instances, cli.NoNames),
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would change and what prevents it")
	w.AddJob(a, c)
	return c
}

func nicRemove(a *cli.App) *cobra.Command {
	var (
		w   cli.WaitFlags
		dry bool
	)
	c := &cobra.Command{
		Use: "remove VM NIC", Short: "Remove a NIC of an instance",
		Long: `Remove a NIC of an instance: the one with that index or MAC address. The guest of a running
instance must let go of it, and if it does not, the NIC stays. Its addresses are free
then, its forwards end, and its floating address stays allocated without an instance.
The only NIC of an instance cannot be removed.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if dry {
				return a.ShowPlan(api.PlanRemoveNIC(ctx, args[0], args[1]))
			}
			receipt, err := api.RemoveNIC(ctx, args[0], args[1])
			return a.Finish(ctx, api, &w, receipt, err)
		}),
		ValidArgsFunction: a.Completion(cli.Instances, cli.NoNames),
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be left and what prevents it")
	w.AddJob(a, c)
	return a.Confirmed("Remove NIC %[2]s of %[1]s", c)
}
