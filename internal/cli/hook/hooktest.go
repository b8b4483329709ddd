package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

func hookTest(a *cli.App) *cobra.Command {
	var (
		file, data string
		r          wire.HookTest
	)
	c := &cobra.Command{
		Use:   "test NAME --file FILE|--data PAYLOAD",
		Short: "Show what a hook would do with a webhook, without doing it",
		Long: `Show what a hook would do with a webhook: whether its rule matches, what it requests,
and what a create would make. FILE contains {"headers": {…}, "query": {…}, "body": …},
where body is JSON or a string, or only the body; --data is only the body, as for
seedbed hook send. A webhook that would be refused ends with status 4.`,
	}
	a.Fill(c, &r,
		cli.Flag{Field: "when", Usage: "CEL `EXPRESSION`, or @FILE, to try instead of the hook's own", Parse: cli.FromFile},
		cli.Flag{Field: "mapping", Usage: "CEL `EXPRESSION`, or @FILE, to try instead of the hook's own", Parse: cli.FromFile},
	)
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		if file == "" && data == "" {
			return cli.Usagef("hook test %s: the webhook is missing: give --data PAYLOAD, or --file FILE", args[0])
		}
		sample, err := sampleIn(a, file, data)
		if err != nil {
			return err
		}
		t, err := api.TestHook(ctx, args[0], sample, r.When, r.Mapping)
		if err != nil {
			return err
		}
		return printDryRun(a, t)
	})
	c.Flags().StringVar(&file, "file", "", "`FILE` with the webhook")
	c.Flags().StringVar(&data, "data", "", "`PAYLOAD`: JSON, @FILE, or - for standard input")
	c.MarkFlagsMutuallyExclusive("file", "data")
	return c
}

// sampleIn reads the webhook of the flags --file and --data.
func sampleIn(a *cli.App, file, data string) (seedbed.SampleDelivery, error) {
	if file == "" {
		body, err := payload(a, data)
		return seedbed.SampleDelivery{Body: string(body)}, err
	}
	text, err := cli.ReadBounded(file, maxPayload)
	return sampleOf(text), err
}

// sampleOf parses a webhook with its headers. If text is not one, it is taken for the body.
func sampleOf(text []byte) seedbed.SampleDelivery {
	var whole struct {
		Headers map[string]string `json:"headers"`
		Query   map[string]string `json:"query"`
		Body    json.RawMessage   `json:"body"`
	}
	if err := json.Unmarshal(text, &whole); err != nil || whole.Body == nil {
		return seedbed.SampleDelivery{Body: string(text)}
	}
	s := seedbed.SampleDelivery{Headers: whole.Headers, Query: whole.Query, Body: string(whole.Body)}
	var plain string
	if json.Unmarshal(whole.Body, &plain) == nil {
		s.Body = plain
	}
	return s
}

func printDryRun(a *cli.App, t seedbed.DryRun) error {
	if a.JSON() {
		return errors.Join(a.PrintJSON(t), refusedOf(t))
	}
	pairs := [][2]string{{"matched", cli.YesNo(t.Matched)}}
	if r := t.Request; r != nil {
		params, err := json.Marshal(r.Params)
		if err != nil {
			return err
		}
		pairs = append(pairs, [2]string{"action", r.Action}, [2]string{"name", r.Name}, [2]string{"profile", r.Profile},
			[2]string{"image", r.Image}, [2]string{"network", r.Network},
			[2]string{"params", cli.When(len(r.Params) > 0, string(params))})
		pairs = append(pairs, requestPairs(*r)...)
	}
	if p := t.Plan; p != nil && t.Problem == "" {
		pairs = append(pairs, [2]string{"would make", fmt.Sprintf("%d vcpus, %s on node %s", p.VCPUs, cli.Size(p.Memory), p.Node)})
		pairs = append(pairs, cli.PlanPairs(*p)...)
	}
	if n := t.Network; n != nil {
		pairs = append(pairs, [2]string{"becomes", fmt.Sprintf("%s, %s", n.Kind, cli.When(n.Prefix.IsValid(), n.Prefix.String()))})
	}
	a.PrintPairs(append(pairs, [2]string{"refused", t.Problem}))
	return refusedOf(t)
}

// refusedOf returns why a webhook would be refused; nil if it would not.
func refusedOf(t seedbed.DryRun) error {
	if t.Problem == "" {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrConflict, "it would be refused: %s", t.Problem)
}

// requestPairs returns the options of a request's job.
func requestPairs(r seedbed.Request) [][2]string {
	return [][2]string{
		{"after job", string(r.After)}, {"hold", asked(r.Hold)}, {"node", r.Node},
		{"on failure", cli.When(r.OnFailure != seedbed.OnFailure{}, r.OnFailure.String())},
		{"priority", cli.When(r.Priority != 0, r.Priority.String())}, {"protected", asked(r.Protected)},
	}
}

// asked returns true or false, or an empty string for what was not asked for.
func asked(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}
