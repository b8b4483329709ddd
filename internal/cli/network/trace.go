package network

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// traceCommand returns the command that shows the way of a packet.
func traceCommand(a *cli.App) *cobra.Command {
	var q client.TraceQuery
	var nic func() *int
	c := &cobra.Command{
		Use: "trace VM [ADDRESS[:PORT]]", Short: "Show which way a packet of an instance takes, and what stops it",
		Long: `Show which way a packet of an instance takes, hop by hop, and which rule stops it: one to
ADDRESS, by TCP with a PORT and else a ping, or without an address those that every guest
needs. The way is that of Seedbed's records. Whether a node has applied them, and whether
the program at the other end answers, it does not show; see seedbed doctor.`,
		ValidArgsFunction: a.Completion(cli.Instances),
	}
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		if len(args) == 2 {
			if err := destination(args[1], &q); err != nil {
				return err
			}
		}
		q.NIC = nic()
		all, err := api.Trace(ctx, args[0], q)
		if err != nil {
			return err
		}
		var rows [][]string
		for _, t := range all {
			packet := packetOf(t)
			for _, h := range t.Hops {
				rows = append(rows, []string{packet, h.At, map[bool]string{true: "passes", false: "stopped"}[h.Passes], h.Detail})
				packet = ""
			}
		}
		return a.ShowTable(all, []string{"packet", "at", "result", "detail"}, rows, "")
	})
	nic = cli.NICFlag(c, "trace packets of", cli.LowestNIC)
	c.Flags().StringVar(&q.Protocol, "protocol", "", "`PROTOCOL`: tcp, udp or icmp (default: tcp with a port, or else icmp)")
	return c
}

// destination reads an address with an optional port.
func destination(s string, q *client.TraceQuery) error {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		q.To, q.Port = ap.Addr(), ap.Port()
		return nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return cli.Usagef("%q is not an address: expected such as 10.99.0.2 or 10.99.0.2:443", seedbed.Clip(s))
	}
	q.To = a
	return nil
}

// packetOf returns a packet in short: "tcp 10.99.0.2:443", "ping 10.99.0.2" or "DHCP".
func packetOf(t seedbed.Trace) string {
	switch {
	case !t.To.IsValid():
		return "DHCP"
	case t.Protocol == "icmp":
		return "ping " + t.To.String()
	}
	return fmt.Sprintf("%s %s:%s", t.Protocol, t.To, strconv.Itoa(int(t.Port)))
}
