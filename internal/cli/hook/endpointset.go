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
	var (
		enable, disable, private, insecure bool
		url                                string
		events                             []string
	)
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
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		var change seedbed.EndpointChange
		for name, set := range map[string]func(){
			"url": func() { change.URL = &url }, "event": func() { change.Events = &events },
			"allow-private": func() { change.AllowPrivate = &private }, "insecure": func() { change.Insecure = &insecure },
			"enable": func() { change.Enabled = &enable }, "disable": func() { change.Enabled = new(!disable) },
		} {
			if c.Flags().Changed(name) {
				set()
			}
		}
		e, err := api.SetEndpoint(ctx, args[0], change)
		if err != nil {
			return err
		}
		return a.ShowPairs(e, endpointPairs(a, e))
	})
	f := c.Flags()
	f.StringVar(&url, "url", "", "`URL` to post to")
	f.StringSliceVar(&events, "event", nil, "event `TYPE` to send (repeatable)")
	f.BoolVar(&private, "allow-private", false, "allow a private, loopback or link-local address")
	f.BoolVar(&insecure, "insecure", false, "allow plain http to any address")
	f.BoolVar(&enable, "enable", false, "enable it and reset its failures")
	f.BoolVar(&disable, "disable", false, "disable it")
	c.MarkFlagsOneRequired("url", "event", "allow-private", "insecure", "enable", "disable")
	c.MarkFlagsMutuallyExclusive("enable", "disable")
	return c
}

func endpointRotate(a *cli.App) *cobra.Command {
	var (
		r       wire.EndpointRotation
		overlap time.Duration
		file    string
	)
	c := &cobra.Command{
		Use: "rotate NAME", Short: "Replace an endpoint's key and print its secret, which is shown only once",
		Long: `Replace an endpoint's key. During the overlap, deliveries are signed with the old keys
and the new one: give the receiver the new secret in that time. With --sign, change to
other signature versions in the same way.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) (err error) {
			if r.Secret, err = cli.GivenSecret(file); err != nil {
				return err
			}
			r.Overlap = &overlap
			made, err := api.RotateEndpoint(ctx, args[0], r)
			if err != nil {
				return err
			}
			return tellEndpointSecret(a, made, file, r.Secret, fmt.Sprintf("endpoint %s has a new key and signs with %d", args[0], len(made.Endpoint.Keys)))
		}),
	}
	c.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the old keys also sign, as `DURATION`")
	c.Flags().StringSliceVar(&r.Sign, "sign", nil, "new signature `VERSION`: v1 or v1a (repeatable; default: unchanged)")
	c.Flags().StringVar(&file, "secret-file", "", "`FILE` with the receiver's own secret, or a private key for v1a (default: generated)")
	return c
}
