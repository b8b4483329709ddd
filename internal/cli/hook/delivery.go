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
	c.AddCommand(deliveryList(a), deliveryShow(a), deliveryRedeliver(a))
	return c
}

func deliveryList(a *cli.App) *cobra.Command {
	var (
		hook string
		most int
	)
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List received webhooks, newest first", Args: cobra.NoArgs,
		RunE: a.Do(func(ctx context.Context, _ []string) error {
			read := func(c *client.Client, ctx context.Context) ([]seedbed.Delivery, error) {
				return c.Deliveries(ctx, hook, most)
			}
			return cli.List(ctx, a, read, "no webhooks yet", []string{"received", "hook", "id", "decision", "job", "detail"},
				func(d seedbed.Delivery) []string {
					return []string{a.Ago(d.Received), d.Hook, d.ID, string(d.Decision), d.Job.Short(), d.Detail}
				})
		}),
	}
	c.Flags().StringVar(&hook, "hook", "", "only for this `HOOK`")
	c.Flags().IntVar(&most, "limit", 0, "show at most `N` (default 100)")
	return c
}

func deliveryShow(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "show HOOK ID", Short: "Show a delivery with its headers, and its payload if that was stored", Args: cobra.ExactArgs(2),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			read := func(c *client.Client, ctx context.Context, hook string) (seedbed.Delivery, error) {
				return c.Delivery(ctx, hook, args[1])
			}
			return cli.Show(ctx, a, read, args[0], func(d seedbed.Delivery) [][2]string { return deliveryPairs(a, d) })
		}),
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
		Use: "redeliver HOOK ID", Short: "Reprocess a stored webhook under the current rules", Args: cobra.ExactArgs(2),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			api, err := a.Client()
			if err != nil {
				return err
			}
			done, err := api.Redeliver(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			if done.Job != "" {
				return a.Finish(ctx, api, seedbed.Receipt{Job: done.Job, State: done.State}, &w)
			}
			if a.JSON() {
				return a.PrintJSON(done)
			}
			a.Say("%s: %s", done.ID, done.Decision)
			return nil
		}),
	}
	w.Add(c)
	return c
}
