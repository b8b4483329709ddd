package hook

import (
	"context"
	"fmt"
	"strconv"
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
	var keys, cidrs []string
	for _, k := range h.Keys {
		line := k.ID
		if !k.NotBefore.IsZero() {
			line += " from " + a.Moment(k.NotBefore)
		}
		if !k.NotAfter.IsZero() {
			line += " until " + a.Moment(k.NotAfter)
		}
		keys = append(keys, line)
	}
	for _, p := range h.CIDRs {
		cidrs = append(cidrs, p.String())
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	rate, declared, kept := "", "", ""
	if h.Rate > 0 {
		rate = fmt.Sprintf("%g/s", h.Rate)
	}
	if h.Declared {
		declared = "in the configuration"
	}
	if h.KeepPayload {
		kept = "yes"
	}
	body := ""
	if h.MaxBody > 0 {
		body = cli.Size(h.MaxBody)
	}
	return [][2]string{
		{"name", h.Name}, {"scheme", string(h.Scheme)}, {"declared", declared}, {"keys", strings.Join(keys, "\n")},
		{"profiles", cli.OrElse(h.Profiles, "any")}, {"actions", cli.OrElse(h.Actions, "create")}, {"tolerance", cli.Span(h.Tolerance)},
		{"networks", cli.OrElse(cidrs, "any")}, {"certificates", strings.Join(h.Subjects, "\n")},
		{"rate", rate}, {"concurrency", number(h.Concurrency)}, {"largest body", body},
		{"live instances", number(h.Instances)}, {"creates an hour", number(h.Creates)},
		{"highest priority", h.Priority.String()},
		{"when", h.When}, {"mapping", h.Mapping}, {"payloads kept", kept},
		{"added", a.Moment(h.Created)}, {"changed", a.Moment(h.Changed)},
	}
}
