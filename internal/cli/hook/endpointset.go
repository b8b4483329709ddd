package hook

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

func endpointSet(a *cli.App) *cobra.Command {
	var change seedbed.EndpointChange
	c := &cobra.Command{
		Use: "set NAME", Short: "Change, enable or disable an endpoint",
		Long: `Change an endpoint. Settings without a flag are left as they are. Pending deliveries
keep their order; with a new URL they are sent there immediately. A list of event types
replaces the former one, for events from then on.

Events that happen while an endpoint is disabled, and pending ones, are skipped;
"endpoint replay --missed" sends them later.`,
		Example: `  seedbed endpoint set ci --url https://ci2.example/seedbed
  seedbed endpoint set ci --event job.*,instance.*
  seedbed endpoint set ci --enable`,
	}
	a.Fill(c, &change, append(endpointFlags(),
		cli.Flag{Field: "url", Usage: "`URL` to post to"},
		cli.Flag{Field: "enabled", Name: "enable", Usage: "enable it and reset its failures"},
		cli.Flag{Field: "enabled", Name: "disable", Usage: "disable it", Not: true},
	)...)
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		e, err := api.SetEndpoint(ctx, args[0], change)
		return a.ShowPairs(err, e, endpointPairs(a, e))
	})
	c.MarkFlagsOneRequired("url", "event", "allow-private", "insecure", "enable", "disable")
	c.MarkFlagsMutuallyExclusive("enable", "disable")
	return c
}

func endpointRotate(a *cli.App) *cobra.Command {
	r := wire.EndpointRotation{Overlap: new(24 * time.Hour)}
	var f *cli.Bound
	c := &cobra.Command{
		Use: "rotate NAME", Short: "Replace an endpoint's key and print its secret, which is shown only once",
		Long: `Replace an endpoint's key. During the overlap, deliveries are signed with the old keys
and the new one: give the receiver the new secret in that time. With --sign, change to
other signature versions in the same way.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			made, err := api.RotateEndpoint(ctx, args[0], r)
			if err != nil {
				return err
			}
			return tellEndpointSecret(a, made, f.Text("secret-file"), r.Secret,
				fmt.Sprintf("endpoint %s has a new key and signs with %d", args[0], len(made.Endpoint.Keys)))
		}),
	}
	f = a.Fill(c, &r,
		cli.Flag{Field: "overlap", Usage: "how long the old keys also sign, as `DURATION`"},
		cli.Flag{Field: "sign", Usage: "new signature `VERSION`: v1 or v1a (repeatable; default: unchanged)"},
		endpointSecret(),
	)
	return c
}
