package hook

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
	"seedbed/internal/config"
)

// hookFlags are the settings that "hook add" and "hook set" share.
func hookFlags() []cli.Flag {
	return []cli.Flag{
		{Field: "profiles", Name: "profile", Usage: "allowed `PROFILE` (repeatable; default: any)"},
		{
			Field: "actions", Name: "action",
			Usage: "allowed `ACTION`: " + strings.Join(seedbed.Actions(), ", ") + " (repeatable; default: create)",
		},
		{Field: "tolerance", Usage: "allowed difference of a webhook's time stamp, as `DURATION`"},
		{
			Field: "cidrs", Name: "cidr", Usage: "allowed source `NETWORK` (repeatable; default: any)", Expected: "a network such as 192.0.2.0/24",
		},
		{Field: "subjects", Name: "subject", Usage: "`NAME` in the client certificate that a sender must present (repeatable)"},
		{Field: "rate", Usage: "at most `N` deliveries a second; 0: no limit"},
		{Field: "concurrency", Usage: "at most `N` concurrent deliveries; 0: no limit"},
		{Field: "instances", Usage: "at most `N` live instances created by it; 0: no limit"},
		{Field: "creates", Usage: "at most `N` creates an hour; 0: no limit"},
		{Field: "priority", Usage: "highest allowed `PRIORITY` of its jobs: low, normal (the default), high or a number"},
		{Field: "max_body", Usage: "maximum `SIZE` of a body; 0: the listener's limit"},
		{
			Field: "form", Usage: "YAML `FILE` that describes the signature of the scheme generic",
			Parse: func(file string) (any, error) { return readForm(file) },
		},
		{Field: "when", Usage: "CEL `EXPRESSION`, or @FILE; webhooks for which it is false are ignored", Parse: cli.FromFile},
		{
			Field: "mapping", Parse: cli.FromFile,
			Usage: "CEL `EXPRESSION`, or @FILE, that returns action, name, profile, params and the job's options",
		},
		{Field: "keep_payload", Usage: "store the bodies with the deliveries, for redelivery"},
	}
}

func readForm(file string) (*seedbed.HookForm, error) {
	if file == "" {
		return nil, nil
	}
	text, err := cli.ReadBounded(file, 64*seedbed.KiB)
	if err != nil {
		return nil, err
	}
	var form seedbed.HookForm
	return &form, config.Decode(file, text, &form)
}

func hookSet(a *cli.App) *cobra.Command {
	var change wire.HookChange
	c := &cobra.Command{
		Use: "set NAME", Short: "Change a hook",
		Long: `Change a hook. Settings without a flag are left as they are. A list replaces the former
one; --profile "" empties it.`,
	}
	a.Fill(c, &change, hookFlags()...)
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		h, err := api.SetHook(ctx, args[0], change)
		return a.Tell(err, h, "hook %s changed", h.Name)
	})
	return c
}

func hookPairs(a *cli.App, h seedbed.Hook) [][2]string {
	keys := cli.Each(h.Keys, func(k seedbed.HookKey) string {
		from := cli.When(!k.NotBefore.IsZero(), " from "+a.Moment(k.NotBefore))
		return k.ID + from + cli.When(!k.NotAfter.IsZero(), " until "+a.Moment(k.NotAfter))
	})
	return [][2]string{
		{"name", h.Name}, {"project", h.Project}, {"scheme", string(h.Scheme)}, {"declared", cli.When(h.Declared, "in the configuration")},
		{"keys", strings.Join(keys, "\n")},
		{"profiles", cli.OrElse(h.Profiles, "any")}, {"actions", cli.OrElse(h.Actions, "create")}, {"tolerance", cli.Span(h.Tolerance)},
		{"networks", cli.OrElse(cli.Each(h.CIDRs, netip.Prefix.String), "any")}, {"certificates", strings.Join(h.Subjects, "\n")},
		{"rate", cli.When(h.Rate > 0, fmt.Sprintf("%g/s", h.Rate))}, {"concurrency", cli.Number(h.Concurrency)},
		{"largest body", cli.Size(h.MaxBody)},
		{"live instances", cli.Number(h.Instances)}, {"creates an hour", cli.Number(h.Creates)},
		{"highest priority", h.Priority.String()},
		{"when", h.When}, {"mapping", h.Mapping}, {"payloads kept", cli.YesOnly(h.KeepPayload)},
		{"added", a.Moment(h.Created)}, {"changed", a.Moment(h.Changed)},
	}
}
