package network

import (
	"context"
	"net/netip"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// AddressCommand returns the command address with its subcommands.
func AddressCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "address", Aliases: []string{"addresses"},
		Short: "Manage floating addresses, by which other hosts reach instances, and secondary ones"})
	r := cli.Resource[seedbed.FloatingAddress]{
		Project: func(f seedbed.FloatingAddress) string { return f.Project },
		Some:    cli.Selected((*client.Client).ListAddresses),
		Filters: []cli.Filter{{Name: "network", Usage: "only those that this `NETWORK` lends"},
			{Name: "instance", Usage: "only those of this `VM`"},
			cli.WordFilter("state", "only in this `STATE`", seedbed.FloatingStates())},
		None: "no floating addresses yet: seedbed address allocate NETWORK", Unmatched: "no matching floating addresses",
		Head: []string{"address", "network", "instance", "nic", "description"},
		Row: func(f seedbed.FloatingAddress) []string {
			return []string{f.Addr.String(), f.Network, f.Instance, cli.When(f.Instance != "", strconv.Itoa(f.NIC)), f.Description}
		},
		One: cli.Named((*client.Client).Address),
		Pairs: func(a *cli.App, f seedbed.FloatingAddress) [][2]string {
			return [][2]string{{"address", f.Addr.String()}, {"network", f.Network}, {"project", f.Project}, {"instance", f.Instance},
				{"nic", cli.When(f.Instance != "", strconv.Itoa(f.NIC))}, {"description", f.Description}, {"created", a.Moment(f.Created)}}
		},
	}
	c.AddCommand(allocate(a), r.List(a, "list", "List floating addresses"), r.Show(a, "show ADDRESS", "Show a floating address"),
		associate(a), disassociate(a), assign(a), unassign(a),
		a.Removal("release ADDRESS", "Give a floating address back", "Release floating address %s",
			func(ctx context.Context, api *client.Client, args []string) (string, error) {
				return cli.Done(api.ReleaseAddress(ctx, args[0]), "Released %s.", args[0])
			}, cli.Addresses))
	return c
}

func allocate(a *cli.App) *cobra.Command {
	var r wire.AddressRequest
	c := &cobra.Command{
		Use: "allocate NETWORK", Short: "Allocate a floating address",
		Long: `Allocate a floating address of those that a network lends (seedbed network set NETWORK
--floating). The project has it until it is released.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Network = args[0]
			f, err := api.AllocateAddress(ctx, r)
			return a.Tell(err, f, "Allocated %s.", f.Addr)
		}),
		ValidArgsFunction: a.Completion(cli.Networks),
	}
	a.Fill(c, &r, cli.Flag{Field: "addr", Name: "address",
		Usage: "this `ADDRESS` (default: the lowest that is free, of IPv4 if it lends such)"},
		cli.Flag{Field: "ipv6", Usage: "one of IPv6"},
		cli.Flag{Field: "description", Usage: "description as `TEXT`"})
	return c
}

func associate(a *cli.App) *cobra.Command {
	var nic func() *int
	c := &cobra.Command{
		Use: "associate ADDRESS VM", Short: "Give an instance a floating address",
		Long: `Give an instance a floating address: other hosts reach it there, and see it under that
address. The NIC must be in the network that lends it, and has one of IPv4 and one of IPv6 at
most. What its security groups allow comes in. The change takes effect immediately.`,
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			f, err := api.Address(ctx, args[0])
			if err == nil {
				_, err = api.ChangeInstance(ctx, args[1], floats(f.Addr, f.Addr, nic()))
			}
			return cli.Done(err, "%s is reached at %s now.", args[1], args[0])
		}),
		ValidArgsFunction: a.Completion(cli.Addresses, cli.Instances),
	}
	nic = cli.NICFlag(c, "give it to", cli.LowestNIC)
	return c
}

// floats returns the change by which a NIC has a floating address, or the zero Addr, as that of the version of IP of another.
func floats(version, addr netip.Addr, nic *int) wire.InstanceChange {
	if version.Is6() {
		return wire.InstanceChange{Floating6: &addr, NIC: nic}
	}
	return wire.InstanceChange{Floating: &addr, NIC: nic}
}

func disassociate(a *cli.App) *cobra.Command {
	return a.Removal("disassociate ADDRESS", "Take a floating address from its instance", "Take floating address %s from its instance",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			f, err := api.Address(ctx, args[0])
			if err != nil {
				return "", err
			}
			if f.Instance == "" {
				return "", seedbed.Errorf(seedbed.ErrConflict, "no instance has %s", args[0])
			}
			_, err = api.ChangeInstance(ctx, seedbed.ParseInstanceName(f.Instance).Name, floats(f.Addr, netip.Addr{}, &f.NIC))
			return cli.Done(err, "Took %s from %s.", args[0], f.Instance)
		}, cli.Addresses)
}

func assign(a *cli.App) *cobra.Command {
	var count, count6 int
	var nic func() *int
	var take bool
	c := &cobra.Command{
		Use: "assign VM [ADDRESS...]", Short: "Give a NIC secondary addresses",
		Long: `Give a NIC of an instance secondary addresses of its network: those ADDRESSes, or free ones.
The guest may use them at once. Its metadata lists them at local-ipv4s and ipv6s, from which
many guests configure them when they boot; DHCP gives only the first address of a NIC. The node of
the instance asks the hosts of a bridged network first, and an address that one uses is refused.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r := wire.InstanceChange{NIC: nic(), AssignCount: count, AssignCount6: count6, Take: take}
			for _, text := range args[1:] {
				addr, err := netip.ParseAddr(text)
				if err != nil {
					return cli.Usagef("%q is not an address", text)
				}
				r.Assign = append(r.Assign, addr)
			}
			if take && len(r.Assign) == 0 {
				return cli.Usagef("--take: expected the addresses to take")
			}
			if len(r.Assign) == 0 && count == 0 && count6 == 0 {
				r.AssignCount = 1
			}
			before, err := api.Instance(ctx, args[0])
			if err != nil {
				return err
			}
			i, err := api.ChangeInstance(ctx, args[0], r)
			if err != nil {
				return err
			}
			var had []netip.Addr
			var now seedbed.NIC
			if at, err := i.NIC(nic()); err == nil {
				now = i.NICs[at]
			}
			if at := seedbed.NICAt(before.NICs, now.Index); at >= 0 {
				had = before.NICs[at].Secondary
			}
			added := slices.DeleteFunc(slices.Clone(now.Secondary), func(a netip.Addr) bool { return slices.Contains(had, a) })
			return a.Tell(nil, now, "Assigned %s to NIC %d of %s.", texts(added), now.Index, i.Name)
		}),
		ValidArgsFunction: a.Completion(cli.Instances),
	}
	nic = cli.NICFlag(c, "give them to", cli.LowestNIC)
	c.Flags().BoolVar(&take, "take", false,
		"take those ADDRESSes that another NIC of the project has as secondary ones from it, without asking hosts")
	c.Flags().IntVar(&count, "count", 0, "give it `N` that are free, besides those ADDRESSes (default: 1 without any)")
	c.Flags().IntVar(&count6, "count6", 0, "give it `N` IPv6 addresses that are free, besides the others")
	return c
}

func unassign(a *cli.App) *cobra.Command {
	var nic func() *int
	c := a.Removal("unassign VM ADDRESS", "Take a secondary address from a NIC", "Take address %[2]s from %[1]s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			addr, err := netip.ParseAddr(args[1])
			if err != nil {
				return "", cli.Usagef("%q is not an address", args[1])
			}
			_, err = api.ChangeInstance(ctx, args[0], wire.InstanceChange{Unassign: []netip.Addr{addr}, NIC: nic()})
			return cli.Done(err, "Took %s from %s.", addr, args[0])
		}, cli.Instances)
	nic = cli.NICFlag(c, "take it from", cli.LowestNIC)
	return c
}
