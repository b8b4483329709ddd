package hook

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// DeliveryCommand returns the command delivery with its subcommands.
func DeliveryCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "delivery", Aliases: []string{"deliveries"}, Short: "Show received webhooks"})
	var (
		hook string
		most int
	)
	r := deliveries(a, &hook, &most)
	list := r.List(a, "list", "List received webhooks, newest first")
	list.Flags().StringVar(&hook, "hook", "", "only for this `HOOK`")
	list.Flags().IntVar(&most, "limit", 0, "show at most `N` (default 100)")
	c.AddCommand(list, r.Show(a, "show HOOK ID", "Show a delivery with its headers, and its payload if that was stored"), deliveryRedeliver(a))
	return c
}

func deliveries(a *cli.App, hook *string, most *int) cli.Resource[seedbed.Delivery] {
	return cli.Resource[seedbed.Delivery]{
		All: func(c *client.Client, ctx context.Context, _ []string) ([]seedbed.Delivery, error) {
			return c.Deliveries(ctx, *hook, *most)
		},
		None: "no webhooks yet",
		Head: []string{"received", "hook", "id", "decision", "job", "detail"},
		Row: func(d seedbed.Delivery) []string {
			return []string{a.Ago(d.Received), d.Hook, d.ID, string(d.Decision), d.Job.Short(), d.Detail}
		},
		One: func(c *client.Client, ctx context.Context, args []string) (seedbed.Delivery, error) {
			return c.Delivery(ctx, args[0], args[1])
		},
		Pairs: deliveryPairs,
	}
}

func deliveryPairs(a *cli.App, d seedbed.Delivery) [][2]string {
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		headers = append(headers, name+": "+d.Headers[name])
	}
	payload := string(d.Payload)
	if !utf8.ValidString(payload) {
		payload = "not text: see --format json"
	}
	return [][2]string{
		{"hook", d.Hook}, {"id", d.ID}, {"received", a.Moment(d.Received)}, {"from", d.Peer}, {"sha256", d.SHA256.String()},
		{"decision", string(d.Decision)}, {"detail", d.Detail}, {"job", string(d.Job)},
		{"headers", strings.Join(headers, "\n")}, {"payload", payload},
	}
}

func deliveryRedeliver(a *cli.App) *cobra.Command {
	var w cli.WaitFlags
	c := &cobra.Command{
		Use: "redeliver HOOK ID", Short: "Reprocess a stored webhook under the current rules",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			done, err := api.Redeliver(ctx, args[0], args[1])
			if done.Job != "" {
				return a.Finish(ctx, api, &w, seedbed.Receipt{Job: done.Job, State: done.State}, err)
			}
			return a.Tell(err, done, "%s: %s", done.ID, done.Decision)
		}),
	}
	w.Add(c)
	return c
}
