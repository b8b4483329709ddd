package hook

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
	"seedbed/internal/config"
)

// hookFlags are the settings that "hook add" and "hook set" share.
type hookFlags struct {
	profiles, actions, cidrs, subjects []string
	tolerance                          time.Duration
	rate                               float64
	concurrency, instances, creates    int
	maxBody, form, when, mapping       string
	priority                           string
	keepPayload                        bool
}

func (h *hookFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&h.profiles, "profile", nil, "allowed `PROFILE` (repeatable; default: any)")
	f.StringSliceVar(&h.actions, "action", nil, "allowed `ACTION`: "+strings.Join(seedbed.Actions(), ", ")+" (repeatable; default: create)")
	f.DurationVar(&h.tolerance, "tolerance", 5*time.Minute, "allowed difference of a webhook's time stamp, as `DURATION`")
	f.StringSliceVar(&h.cidrs, "cidr", nil, "allowed source `NETWORK` (repeatable; default: any)")
	f.StringSliceVar(&h.subjects, "subject", nil, "`NAME` in the client certificate that a sender must present (repeatable)")
	f.Float64Var(&h.rate, "rate", 0, "at most `N` deliveries a second; 0: no limit")
	f.IntVar(&h.concurrency, "concurrency", 0, "at most `N` concurrent deliveries; 0: no limit")
	f.IntVar(&h.instances, "instances", 0, "at most `N` live instances created by it; 0: no limit")
	f.IntVar(&h.creates, "creates", 0, "at most `N` creates an hour; 0: no limit")
	f.StringVar(&h.priority, "priority", "", "highest allowed `PRIORITY` of its jobs: low, normal (the default), high or a number")
	f.StringVar(&h.maxBody, "max-body", "0", "maximum `SIZE` of a body; 0: the listener's limit")
	f.StringVar(&h.form, "form", "", "YAML `FILE` that describes the signature of the scheme generic")
	f.StringVar(&h.when, "when", "", "CEL `EXPRESSION`, or @FILE; webhooks for which it is false are ignored")
	f.StringVar(&h.mapping, "mapping", "", "CEL `EXPRESSION`, or @FILE, that returns action, name, profile, params and the job's options")
	f.BoolVar(&h.keepPayload, "keep-payload", false, "store the bodies with the deliveries, for redelivery")
}

// fill sets a request's fields from all flags.
func (h *hookFlags) fill(r *wire.HookRequest) (err error) {
	r.Profiles, r.Actions, r.Tolerance, r.Subjects = h.profiles, h.actions, h.tolerance, h.subjects
	r.Rate, r.Concurrency, r.Instances, r.Creates, r.KeepPayload = h.rate, h.concurrency, h.instances, h.creates, h.keepPayload
	if r.CIDRs, err = prefixes(h.cidrs); err != nil {
		return err
	}
	if r.MaxBody, err = seedbed.ParseBytes(h.maxBody); err != nil {
		return cli.Usagef("--max-body: %v", err)
	}
	if r.Priority, err = seedbed.ParsePriority(h.priority); err != nil {
		return cli.Usagef("--priority: %v", err)
	}
	if r.Form, err = readForm(h.form); err != nil {
		return err
	}
	if r.When, err = orFile(h.when); err != nil {
		return err
	}
	r.Mapping, err = orFile(h.mapping)
	return err
}

func prefixes(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err != nil {
			return nil, cli.Usagef("--cidr %q: want a network such as 192.0.2.0/24", t)
		}
		all = append(all, p)
	}
	return all, nil
}

// orFile returns the text or, if it begins with @, the content of the file that it names.
func orFile(text string) (string, error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		content, err := cli.ReadBounded(name, 64*seedbed.KiB)
		return strings.TrimSpace(string(content)), err
	}
	return text, nil
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

// change returns the change that the given flags ask for.
func (h *hookFlags) change(c *cobra.Command) (ch wire.HookChange, err error) {
	var r wire.HookRequest
	if err := h.fill(&r); err != nil {
		return ch, err
	}
	for name, set := range map[string]func(){
		"profile": func() { ch.Profiles = &r.Profiles }, "action": func() { ch.Actions = &r.Actions },
		"tolerance": func() { ch.Tolerance = &r.Tolerance }, "cidr": func() { ch.CIDRs = &r.CIDRs },
		"subject": func() { ch.Subjects = &r.Subjects }, "rate": func() { ch.Rate = &r.Rate },
		"concurrency": func() { ch.Concurrency = &r.Concurrency }, "instances": func() { ch.Instances = &r.Instances },
		"creates": func() { ch.Creates = &r.Creates }, "max-body": func() { ch.MaxBody = &r.MaxBody },
		"priority": func() { ch.Priority = &r.Priority },
		"form":     func() { ch.Form = r.Form }, "when": func() { ch.When = &r.When },
		"mapping": func() { ch.Mapping = &r.Mapping }, "keep-payload": func() { ch.KeepPayload = &r.KeepPayload },
	} {
		if c.Flags().Changed(name) {
			set()
		}
	}
	return ch, nil
}

func hookSet(a *cli.App) *cobra.Command {
	var f hookFlags
	c := &cobra.Command{
		Use: "set NAME", Short: "Change a hook",
		Long: `Change a hook. Settings without a flag are left as they are. A list replaces the former
one; --profile "" empties it.`,
	}
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		change, err := f.change(c)
		if err != nil {
			return err
		}
		h, err := api.SetHook(ctx, args[0], change)
		if err != nil {
			return err
		}
		return a.Tell(h, "hook %s changed", h.Name)
	})
	f.add(c)
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
