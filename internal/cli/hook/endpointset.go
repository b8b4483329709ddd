package hook

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

func endpointSet(a *cli.App) *cobra.Command {
	var (
		enable, disable, private, insecure bool
		url                                string
		events                             []string
	)
	c := &cobra.Command{
		Use: "set NAME", Short: "Change an endpoint, enable it, or disable it; what no flag mentions stays",
		Long: `Change an endpoint. What is on its way to it stays, in its order: with another URL
it is sent there, at once. A list of events replaces the one before, for what
happens from then on.

What happens while an endpoint is disabled, and what was pending then, is skipped;
"endpoint replay --missed" sends it later.`,
		Example: `  seedbed endpoint set ci --url https://ci2.example/seedbed
  seedbed endpoint set ci --event job.*,instance.*
  seedbed endpoint set ci --enable`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = a.Do(func(ctx context.Context, args []string) error {
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
		api, err := a.Client()
		if err != nil {
			return err
		}
		e, err := api.SetEndpoint(ctx, args[0], change)
		if err != nil {
			return err
		}
		return printEndpoint(a, e)
	})
	f := c.Flags()
	f.StringVar(&url, "url", "", "`URL` to post to")
	f.StringSliceVar(&events, "event", nil, "`type` of event that it is told (repeatable)")
	f.BoolVar(&private, "allow-private", false, "it may have an address that is private, loopback or link-local")
	f.BoolVar(&insecure, "insecure", false, "plain http may go to any address")
	f.BoolVar(&enable, "enable", false, "send to it, and forget its failures")
	f.BoolVar(&disable, "disable", false, "send nothing to it")
	c.MarkFlagsOneRequired("url", "event", "allow-private", "insecure", "enable", "disable")
	c.MarkFlagsMutuallyExclusive("enable", "disable")
	return c
}

func endpointRotate(a *cli.App) *cobra.Command {
	var (
		r       client.EndpointRotation
		overlap time.Duration
		file    string
	)
	c := &cobra.Command{
		Use: "rotate NAME", Short: "Give an endpoint a new key and print its secret, this once",
		Long: `Give an endpoint a new key. The keys that it has sign for the time of the
overlap still, beside the new one: give the receiver the new secret meanwhile.
With --sign it goes over to other versions of signatures in the same way.`,
		Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			api, err := a.Client()
			if err != nil {
				return err
			}
			if r.Secret, err = cli.GivenSecret(file); err != nil {
				return err
			}
			r.Overlap = &overlap
			made, err := api.RotateEndpoint(ctx, args[0], r)
			if err != nil {
				return err
			}
			return tellEndpointSecret(a, made, file, r.Secret, fmt.Sprintf("endpoint %s has a new key, and signs with %d", args[0], len(made.Endpoint.Keys)))
		}),
	}
	c.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how `long` the keys before it sign still")
	c.Flags().StringSliceVar(&r.Sign, "sign", nil, "`version` of the signatures from now on: v1 or v1a (repeatable; default: as before)")
	c.Flags().StringVar(&file, "secret-file", "", "`file` with the receiver's own secret, or a private key for v1a (default: a new one)")
	return c
}
