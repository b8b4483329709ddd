package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

func hookTest(a *cli.App) *cobra.Command {
	var (
		file string
		r    wire.HookTest
	)
	c := &cobra.Command{
		Use:   "test NAME --file FILE",
		Short: "Show what a hook would do with a webhook, without doing it",
		Long: `Show what a hook would do with a webhook: whether its rule matches, what it requests,
and what a create would make. FILE contains {"headers": {…}, "query": {…}, "body": …},
where body is JSON or a string, or only the body.`,
	}
	a.Fill(c, &r,
		cli.Flag{Field: "when", Usage: "CEL `EXPRESSION`, or @FILE, to try instead of the hook's own", Parse: cli.FromFile},
		cli.Flag{Field: "mapping", Usage: "CEL `EXPRESSION`, or @FILE, to try instead of the hook's own", Parse: cli.FromFile},
	)
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		text, err := cli.ReadBounded(file, maxPayload)
		if err != nil {
			return err
		}
		t, err := api.TestHook(ctx, args[0], sampleOf(text), r.When, r.Mapping)
		if err != nil {
			return err
		}
		return printDryRun(a, t)
	})
	c.Flags().StringVar(&file, "file", "", "`FILE` with the webhook")
	_ = c.MarkFlagRequired("file") // the flag was added above
	return c
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
		return a.PrintJSON(t)
	}
	pairs := [][2]string{{"matched", "no"}}
	if t.Matched {
		pairs[0][1] = "yes"
	}
	if r := t.Request; r != nil {
		params, err := json.Marshal(r.Params)
		if err != nil {
			return err
		}
		pairs = append(pairs, [2]string{"action", r.Action}, [2]string{"name", r.Name}, [2]string{"profile", r.Profile})
		if len(r.Params) > 0 {
			pairs = append(pairs, [2]string{"params", string(params)})
		}
		pairs = append(pairs, requestPairs(*r)...)
	}
	if p := t.Plan; p != nil && t.Problem == "" {
		pairs = append(pairs, [2]string{"would make", fmt.Sprintf("%d vcpus, %s on node %s", p.VCPUs, cli.Size(p.Memory), p.Node)})
		pairs = append(pairs, cli.PlanPairs(*p)...)
	}
	a.PrintPairs(append(pairs, [2]string{"refused", t.Problem}))
	return nil
}

// requestPairs returns the options of a request's job that are set.
func requestPairs(r seedbed.Request) [][2]string {
	var pairs [][2]string
	add := func(name, value string, said bool) {
		if said {
			pairs = append(pairs, [2]string{name, value})
		}
	}
	add("node", r.Node, r.Node != "")
	add("on failure", r.OnFailure.String(), r.OnFailure != seedbed.OnFailure{})
	add("priority", r.Priority.String(), r.Priority != 0)
	add("after job", string(r.After), r.After != "")
	for name, v := range map[string]*bool{"hold": r.Hold, "protected": r.Protected} {
		if v != nil {
			add(name, strconv.FormatBool(*v), true)
		}
	}
	slices.SortFunc(pairs, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return pairs
}
