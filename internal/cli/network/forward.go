package network

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// forwardCommand returns the command network forward with its subcommands.
func forwardCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "forward", Aliases: []string{"forwards"},
		Short: "Manage forwards: ports of the nodes that go to instances"})
	r := cli.Resource[seedbed.ForwardTo]{
		Some: func(api *client.Client, ctx context.Context, args []string, s client.Selection) ([]seedbed.ForwardTo, error) {
			return api.NetworkForwards(ctx, args[0], s)
		},
		Head: []string{"listen", "instance", "nic", "to", "node", "description"}, None: "no forwards go into the network ARG",
		Row: func(f seedbed.ForwardTo) []string {
			return []string{f.Listen.String(), f.Instance, strconv.Itoa(f.NIC), target(f), f.Node, f.Description}
		},
	}
	list := r.List(a, "list NAME", "List the forwards into a network")
	list.ValidArgsFunction = a.Completion(cli.Networks)
	c.AddCommand(addForward(a), list, removeForward(a))
	return c
}

// target returns where a forward goes: 10.99.0.2:80, or 10.99.0.2:8000-8010.
func target(f seedbed.ForwardTo) string { return fmt.Sprintf("%s:%s", f.Addr, f.Ports()) }

func addForward(a *cli.App) *cobra.Command {
	var nic func() *int
	var f seedbed.Forward
	c := &cobra.Command{
		Use: "add VM LISTEN [PORT]", Short: "Send what comes to a port of the nodes to an instance",
		Long: `Send what comes to a port of the nodes to an instance: to PORT, or else to the port of the
same number. LISTEN is such as tcp:8080, udp:60000-60100, or tcp:192.0.2.1:8080 for one
address of a node. The node on which the instance runs takes the connections. The NIC must be
in a network of kind nat or routed, and its security groups must let them in. The change takes
effect immediately.`,
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (_ string, err error) {
			if f.Listen, err = seedbed.ParseListen(args[1]); err != nil {
				return "", cli.Usagef("%v", err)
			}
			f.Port = f.Listen.First
			if len(args) == 3 {
				if f.Port, err = seedbed.ParsePort(args[2]); err != nil {
					return "", cli.Usagef("%v", err)
				}
			}
			i, err := api.ChangeInstance(ctx, args[0], wire.InstanceChange{Forward: []seedbed.Forward{f}, NIC: nic()})
			if err != nil {
				return "", err
			}
			to := seedbed.ForwardTo{Forward: f}
			if at, err := i.NIC(nic()); err == nil {
				if to.Addr = i.NICs[at].Addr; f.Listen.Addr.Is6() {
					to.Addr = i.NICs[at].Addr6
				}
			}
			return fmt.Sprintf("%s of node %s goes to %s of %s now.", f.Listen, cmp.Or(i.Node, "?"), target(to), args[0]), nil
		}),
		ValidArgsFunction: a.Completion(cli.Instances),
	}
	nic = cli.NICFlag(c, "send it to", cli.LowestNIC)
	c.Flags().StringVar(&f.Description, "description", "", "description as `TEXT`")
	return c
}

func removeForward(a *cli.App) *cobra.Command {
	var nic func() *int
	c := a.Removal("remove VM LISTEN", "Remove a forward to an instance", "End forward %[2]s to %[1]s and its connections",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			l, err := seedbed.ParseListen(args[1])
			if err != nil {
				return "", cli.Usagef("%v", err)
			}
			_, err = api.ChangeInstance(ctx, args[0], wire.InstanceChange{Unforward: []seedbed.Listen{l}, NIC: nic()})
			return cli.Done(err, "Removed forward %s.", l)
		}, cli.Instances)
	nic = cli.NICFlag(c, "that of", cli.LowestNIC)
	return c
}
