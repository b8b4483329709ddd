package hook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// EndpointCommand returns the command endpoint with its subcommands.
func EndpointCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "endpoint", Aliases: []string{"endpoints"}, Short: "Manage endpoints, to which Seedbed sends webhooks"})
	r := endpoints(a)
	c.AddCommand(endpointAdd(a), r.List(a, "list", "List endpoints"), r.Show(a, "show NAME", "Show an endpoint"),
		endpointSet(a), endpointRotate(a),
		a.RemoveCommand("remove NAME", "Remove an endpoint and its pending deliveries", "Remove endpoint %s", "endpoint %s removed",
			(*client.Client).DeleteEndpoint),
		endpointTest(a), endpointDeliveries(a), endpointResend(a), endpointReplay(a))
	return c
}

func endpointAdd(a *cli.App) *cobra.Command {
	var (
		r wire.EndpointRequest
		f *cli.Bound
	)
	c := &cobra.Command{
		Use:   "add NAME URL --event TYPE",
		Short: "Add an endpoint and print its secret, which is shown only once",
		Long: `Add an endpoint: from then on Seedbed posts events to URL, signed as in Standard
Webhooks: v1 (HMAC), v1a (Ed25519), or both. An event is a type such as job.succeeded,
all types of a kind such as instance.*, or *. The signing secret of v1 is printed only
once; "endpoint show" prints the public key that verifies v1a.`,
		Example: `  seedbed endpoint add ci https://ci.example/seedbed --event job.succeeded,job.failed,instance.*`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Name, r.URL = args[0], args[1]
			made, err := api.AddEndpoint(ctx, r)
			if err != nil {
				return err
			}
			return tellEndpointSecret(a, made, f.Text("secret-file"), r.Secret, fmt.Sprintf("endpoint %s added", made.Endpoint.Name))
		}),
	}
	f = a.Fill(c, &r, append(endpointFlags(),
		cli.Flag{Field: "cloudevents", Name: "cloudevents", Usage: "send CloudEvents 1.0 (structured JSON)"},
		cli.Flag{Field: "sign", Usage: "signature `VERSION`: v1 (the default) or v1a (repeatable)"},
		endpointSecret(),
	)...)
	_ = c.MarkFlagRequired("event") // the flag was added above
	return c
}

// endpointFlags are the settings that "endpoint add" and "endpoint set" share.
func endpointFlags() []cli.Flag {
	return []cli.Flag{
		{Field: "events", Name: "event", Usage: "event `TYPE` to send (repeatable)"},
		{Field: "allow_private", Usage: "allow a private, loopback or link-local address"},
		{Field: "insecure", Usage: "allow plain http to any address"},
	}
}

func endpointSecret() cli.Flag {
	return cli.Flag{
		Field: "secret", Name: "secret-file", Usage: "`FILE` with the receiver's own secret, or a private key for v1a (default: generated)",
		Parse: func(file string) (any, error) { return cli.GivenSecret(file) },
	}
}

// tellEndpointSecret prints a secret that the server has generated. It does not print a given
// secret, which the caller has in a file.
func tellEndpointSecret(a *cli.App, made wire.NewEndpoint, file, given, what string) error {
	drawn := strings.TrimPrefix(made.Secret, "whsec_") != strings.TrimPrefix(given, "whsec_")
	what += cli.When(file != "", ", with the secret in "+file)
	switch {
	case a.JSON() && !drawn:
		return a.PrintJSON(made.Endpoint)
	case a.JSON():
		return a.PrintJSON(made)
	case made.Secret == "" || !drawn:
		a.Say("%s", what)
	default:
		fmt.Fprintln(a.Out, made.Secret)
		a.Say("%s; the secret above is shown only once", what)
	}
	for _, k := range made.Endpoint.Keys {
		if k.Public != "" && k.Expires.IsZero() {
			a.Say("the public key that verifies %s is %s", k.Version, k.Public)
		}
	}
	return nil
}

func endpoints(a *cli.App) cli.Resource[seedbed.Endpoint] {
	return cli.Resource[seedbed.Endpoint]{
		Some: cli.Selected((*client.Client).ListEndpoints),
		Filters: []cli.Filter{cli.NameFilter(), cli.WordFilter("enabled", "only those that are enabled, or are not, as `WORD`",
			[]string{"true", "false"})},
		None: "no endpoints yet: seedbed endpoint add NAME URL --event TYPE", Unmatched: "no matching endpoints",
		Project: func(e seedbed.Endpoint) string { return e.Project },
		Head:    []string{"name", "state", "url", "events", "added"},
		Row: func(e seedbed.Endpoint) []string {
			return []string{e.Name, endpointState(a, e), e.URL, strings.Join(e.Events, ", "), a.Ago(e.Created)}
		},
		One: cli.Named((*client.Client).Endpoint), Pairs: endpointPairs,
	}
}

func endpointState(a *cli.App, e seedbed.Endpoint) string {
	switch {
	case !e.Enabled:
		return "disabled"
	case e.OpenUntil.After(a.Now()):
		return "paused"
	case e.Failures > 0:
		return "failing"
	}
	return "ok"
}

func endpointPairs(a *cli.App, e seedbed.Endpoint) [][2]string {
	form := "Seedbed's own"
	if e.CloudEvents {
		form = "CloudEvents"
	}
	pairs := [][2]string{
		{"name", e.Name}, {"project", e.Project}, {"state", endpointState(a, e)}, {"disabled because", e.Reason},
		{"url", e.URL}, {"events", strings.Join(e.Events, ", ")}, {"form", form},
		{"private addresses", cli.When(e.AllowPrivate, "allowed")}, {"plain http", cli.When(e.Insecure, "allowed")},
		{"failing since", a.Moment(e.FailingSince)}, {"paused until", a.Moment(e.OpenUntil)}, {"added", a.Moment(e.Created)},
	}
	for _, k := range e.Keys {
		until := "signs " + k.Version + cli.When(!k.Expires.IsZero(), " until "+a.Moment(k.Expires)) + cli.When(k.Public != "", "\n"+k.Public)
		pairs = append(pairs, [2]string{"key " + k.ID, until})
	}
	return pairs
}

func endpointSet(a *cli.App) *cobra.Command {
	var (
		change  seedbed.EndpointChange
		address string
	)
	c := &cobra.Command{
		Use: "set NAME [URL]", Short: "Change, enable or disable an endpoint",
		Long: `Change an endpoint. Settings that are not given are left as they are. Pending
deliveries keep their order; with a new URL they are sent there immediately. A list of
event types replaces the former one, for events from then on.

With the endpoint's URL after its name, --url is the API's, as for all commands. Without
it, --url is the endpoint's, as before version 0.2.

Events that happen while an endpoint is disabled, and pending ones, are skipped;
"endpoint replay --missed" sends them later.`,
		Example: `  seedbed endpoint set ci https://ci2.example/seedbed
  seedbed endpoint set ci --event job.*,instance.*
  seedbed endpoint set ci --enable`,
	}
	a.Fill(c, &change, append(endpointFlags(),
		cli.Flag{Field: "enabled", Name: "enable", Usage: "enable it and reset its failures"},
		cli.Flag{Field: "enabled", Name: "disable", Usage: "disable it", Not: true},
	)...)
	set := a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		e, err := api.SetEndpoint(ctx, args[0], change)
		return a.ShowPairs(err, e, endpointPairs(a, e))
	})
	c.Flags().StringVar(&address, "url", "", "`URL` of the API, or of the endpoint if that is not given after its name")
	c.RunE = func(c *cobra.Command, args []string) error {
		given := slices.ContainsFunc([]string{"url", "event", "allow-private", "insecure", "enable", "disable"}, c.Flags().Changed)
		switch {
		case len(args) == 2:
			change.URL, a.Flags.URL = &args[1], address
		case !given:
			return cli.Usagef("nothing to change: give the endpoint's new URL, or one of the flags")
		case c.Flags().Changed("url"):
			change.URL = &address
		}
		return set(c, args)
	}
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
