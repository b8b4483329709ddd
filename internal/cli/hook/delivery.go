package hook

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	var rejected bool
	r := deliveries(a)
	list := r.List(a, "list", "List received webhooks, newest first")
	list.Long = `List received webhooks, newest first: those whose sender was accepted. --rejected counts
the others, such as those with a wrong signature, by hook, sender and reason. Senders are
not told the reason. Of each hook, the 50 latest counts are kept.`
	verified, others := list.RunE, rejections(a).Lister(a, list)
	list.RunE = func(c *cobra.Command, args []string) error {
		if rejected {
			return others(c, args)
		}
		return verified(c, args)
	}
	list.Flags().BoolVar(&rejected, "rejected", false, "count those whose sender was not accepted, with the reason")
	list.MarkFlagsMutuallyExclusive("rejected", "decision")
	show := r.Show(a, "show [HOOK] ID", "Show a delivery with its headers, and its payload if that was stored")
	c.AddCommand(list, show, deliveryRedeliver(a))
	return c
}

// ofHook are the filters of deliveries and of rejections.
func ofHook() []cli.Filter {
	return []cli.Filter{{Name: "hook", Usage: "only for this `HOOK`"}, cli.SinceFilter()}
}

func deliveries(a *cli.App) cli.Resource[seedbed.Delivery] {
	return cli.Resource[seedbed.Delivery]{
		Some:      cli.Selected((*client.Client).ListDeliveries),
		Filters:   append(ofHook(), cli.WordFilter("decision", "only those with this `DECISION`", seedbed.Decisions())),
		Unmatched: "no matching webhooks", Most: 100,
		None:    "no webhooks yet (seedbed delivery list --rejected counts those whose sender was not accepted)",
		Project: func(d seedbed.Delivery) string { return seedbed.ProjectOf(d.Hook) },
		Head:    []string{"received", "hook", "id", "decision", "job", "detail"},
		Row: func(d seedbed.Delivery) []string {
			return []string{a.Ago(d.Received), d.Hook, d.ID, string(d.Decision), d.Job.Short(), d.Detail}
		},
		One: func(c *client.Client, ctx context.Context, args []string) (seedbed.Delivery, error) {
			hook, id, err := deliveryOf(ctx, c, args)
			if err != nil {
				return seedbed.Delivery{}, err
			}
			return c.Delivery(ctx, hook, id)
		},
		Pairs: deliveryPairs,
	}
}

// deliveryOf returns the hook and the ID of the delivery that the arguments [HOOK] ID name.
func deliveryOf(ctx context.Context, api *client.Client, args []string) (hook, id string, err error) {
	if len(args) == 2 {
		return args[0], args[1], nil
	}
	all, err := api.DeliveriesOf(ctx, args[0])
	switch {
	case err != nil:
		return "", "", err
	case len(all) == 0:
		return "", "", seedbed.Errorf(seedbed.ErrNotFound, "delivery %q does not exist: see seedbed delivery list", args[0])
	case len(all) > 1:
		hooks := cli.Each(all, func(d seedbed.Delivery) string { return d.Hook })
		slices.Sort(hooks)
		return "", "", seedbed.Errorf(seedbed.ErrConflict, "several hooks have a delivery %q: give HOOK, one of %s", args[0],
			strings.Join(hooks, ", "))
	}
	return all[0].Hook, all[0].ID, nil
}

func rejections(a *cli.App) cli.Resource[seedbed.Rejection] {
	return cli.Resource[seedbed.Rejection]{
		Some: cli.Selected(func(c *client.Client, ctx context.Context, s client.Selection) ([]seedbed.Rejection, error) {
			all, err := c.ListRejections(ctx, s)
			if err == nil && len(all) > 0 && !a.JSON() && !a.Flags.Quiet {
				fmt.Fprintf(a.Err, "to try the rules of a hook without a signature: seedbed hook test %s --file FILE\n", all[0].Hook)
			}
			return all, err
		}),
		Filters: ofHook(), None: "no webhook was rejected",
		Project: func(r seedbed.Rejection) string { return seedbed.ProjectOf(r.Hook) },
		Head:    []string{"last", "hook", "from", "times", "since", "reason"},
		Row: func(r seedbed.Rejection) []string {
			return []string{a.Ago(r.Last), r.Hook, cmp.Or(r.Peer, "several"), strconv.FormatInt(r.Times, 10), a.Ago(r.First), r.Reason}
		},
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
		Use: "redeliver [HOOK] ID", Short: "Reprocess a stored webhook under the current rules",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			hook, id, err := deliveryOf(ctx, api, args)
			if err != nil {
				return err
			}
			done, err := api.Redeliver(ctx, hook, id)
			if done.Job != "" {
				return a.Finish(ctx, api, &w, seedbed.Receipt{Job: done.Job, State: done.State}, err)
			}
			return a.Tell(err, done, "%s: %s", done.ID, done.Decision)
		}),
	}
	w.Add(c)
	return c
}
