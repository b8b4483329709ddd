package hook

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

func endpointTest(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Send an event of type endpoint.test now and show the answer",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			t, err := api.TestEndpoint(ctx, args[0])
			if err != nil {
				return err
			}
			if a.JSON() {
				if err := a.PrintJSON(t); err != nil {
					return err
				}
			}
			if !t.Delivered {
				return fmt.Errorf("endpoint %s did not accept the event: %s", args[0], t.Error)
			}
			a.Say("endpoint %s accepted the event: %d %s in %s", args[0], t.Status, http.StatusText(t.Status), t.Took.Round(time.Millisecond))
			return nil
		}),
	}
}

func endpointDeliveries(a *cli.App) *cobra.Command {
	return cli.Resource[seedbed.Outgoing]{
		Some:    cli.SelectedOf((*client.Client).ListOutgoing),
		Filters: []cli.Filter{cli.WordFilter("state", "only in this `STATE`", seedbed.OutgoingStates()), cli.SinceFilter()},
		Most:    100, None: "no events for this endpoint yet", Unmatched: "no matching deliveries",
		Head: []string{"id", "seq", "event", "subject", "state", "attempts", "when", "last answer"},
		Row: func(o seedbed.Outgoing) []string {
			seq, attempts := strconv.FormatInt(o.Seq, 10), strconv.Itoa(o.Attempts)
			return []string{o.ID, seq, o.Type, o.Subject, string(o.State), attempts, a.Ago(o.At), outcome(a, o)}
		},
	}.List(a, "deliveries NAME", "List the deliveries to an endpoint")
}

// outcome returns the result of the last attempt, and the time of the next.
func outcome(a *cli.App, o seedbed.Outgoing) string {
	text := o.Error
	if text == "" && o.Status != 0 {
		text = strconv.Itoa(o.Status)
	}
	return text + cli.When(!o.Next.IsZero(), "; again "+a.Ago(o.Next))
}

func endpointResend(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "resend NAME ID", Short: "Send one delivery to an endpoint again",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			o, err := api.Resend(ctx, args[0], args[1])
			return a.Tell(err, o, "%s of %s is being sent to %s again, with the same id", o.Type, o.Subject, args[0])
		}),
	}
}

func endpointReplay(a *cli.App) *cobra.Command {
	var r wire.ReplayRequest
	c := &cobra.Command{
		Use: "replay NAME --since TIME", Short: "Send the events since a time again",
		Long: `Send the events since a time again, with the same ids and in the same order, so that a
receiver can ignore those that it has. TIME is a date and time such as
2026-01-31T12:00:00Z, or a duration before now such as 3h.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			n, err := api.Replay(ctx, args[0], r.Since, r.MissedOnly)
			return a.Tell(err, map[string]int{"deliveries": n}, "%d deliveries are being sent to %s again", n, args[0])
		}),
	}
	a.Fill(c, &r,
		cli.Flag{
			Field: "since", Usage: "`TIME`, or a duration before now", Required: true,
			Parse: func(text string) (any, error) { return cli.ParsePast("since", text, a.Now()) },
		},
		cli.Flag{Field: "missed_only", Name: "missed", Usage: "only events that were not delivered"},
	)
	return c
}
