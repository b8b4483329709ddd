package network

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

func reserve(a *cli.App) *cobra.Command {
	var r seedbed.Reservation
	c := &cobra.Command{
		Use: "reserve NAME MAC ADDRESS", Short: "Reserve an address of a network for a MAC address",
		Long: `Reserve an address of a network for the NIC with a MAC address, which gets it when it is
made. No other NIC gets it. NICs that exist keep the addresses that they have. "network show"
lists the reservations. A MAC address may have an IPv4 and an IPv6 address reserved. The
latter is the first IPv6 address of the NIC, in place of the one that follows from its MAC
address, and cannot change as long as the NIC is in the network.`,
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (_ string, err error) {
			if r.MAC, err = seedbed.ParseMAC(args[1]); err != nil {
				return "", cli.Usagef("%v", err)
			}
			if r.Addr, err = netip.ParseAddr(args[2]); err != nil {
				return "", cli.Usagef("%q is not an address: expected one such as 10.99.1.20", seedbed.Clip(args[2]))
			}
			_, err = api.ChangeNetwork(ctx, args[0], wire.NetworkChange{Reserve: []seedbed.Reservation{r}})
			return cli.Done(err, "Reserved %s of network %q for %s.", r.Addr, args[0], r.MAC)
		}),
		ValidArgsFunction: a.Completion(cli.Networks),
	}
	c.Flags().StringVar(&r.Description, "description", "", "description as `TEXT`")
	return c
}

func unreserve(a *cli.App) *cobra.Command {
	return a.Removal("unreserve NAME MAC", "Remove the reservations for a MAC address", "Remove the reservations of network %s for %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			mac, err := seedbed.ParseMAC(args[1])
			if err != nil {
				return "", cli.Usagef("%v", err)
			}
			_, err = api.ChangeNetwork(ctx, args[0], wire.NetworkChange{Unreserve: []seedbed.MAC{mac}})
			return cli.Done(err, "Removed the reservations for %s.", mac)
		}, cli.Networks)
}

// reservations returns those of a network, one in a line.
func reservations(n seedbed.Network) string {
	return strings.Join(cli.Each(n.Reservations, func(r seedbed.Reservation) string {
		return fmt.Sprintf("%s for %s", r.Addr, r.MAC) + cli.When(r.Description != "", " # "+r.Description)
	}), "\n")
}

func peer(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "peer NETWORK OTHER", Short: "Let the guests of two networks reach each other",
		Long: `Let the guests of two networks reach each other, with their own addresses, in both
directions, and no others. Security groups still decide what each guest sends and
receives. Running guests of an isolated network learn the way when they renew their
lease, within half an hour. Guests reach those of the other network on all nodes if both
networks are overlays, and otherwise those on the same node. The prefixes of the networks
must differ, and neither network may be bridged.`,
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			_, err := api.ChangeNetwork(ctx, args[0], wire.NetworkChange{Peer: args[1:]})
			return cli.Done(err, "Guests of networks %q and %q reach each other.", args[0], args[1])
		}),
		ValidArgsFunction: a.Completion(cli.Networks, cli.Networks),
	}
}

func unpeer(a *cli.App) *cobra.Command {
	return a.Removal("unpeer NETWORK OTHER", "End the peering of two networks", "End the peering of network %s with %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			_, err := api.ChangeNetwork(ctx, args[0], wire.NetworkChange{Unpeer: args[1:]})
			return cli.Done(err, "Ended the peering of networks %q and %q.", args[0], args[1])
		}, cli.Networks, cli.Networks)
}
