// Package doctor has the command that looks for problems of this host and of the installation.
package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/config"
)

// Command returns the command doctor.
func Command(a *cli.App) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find problems and suggest what to do",
		Long: `Check this host, which needs no daemon, and then ask seedbedd for its checks, unless it
runs on other hosts (feed.servers). Exit status 1 means that there is a problem; a note
is not a problem.`,
		RunE: a.Do(func(ctx context.Context, _ []string) error {
			o, err := a.Options()
			if err != nil {
				return err
			}
			api, err := client.New(o)
			if err != nil {
				return err
			}
			var found []seedbed.Check
			if h := newHost(file); cli.IsLocal(o) && !h.controls() {
				found = append(h.checks(ctx), h.elsewhere())
			} else {
				if cli.IsLocal(o) {
					found = h.checks(ctx)
				}
				found = append(found, serverChecks(ctx, api)...)
			}
			checks := []seedbed.Check{}
			for _, c := range found {
				if !slices.Contains(checks, c) { // the host's daemon may check the same file
					checks = append(checks, c)
				}
			}
			if err := printChecks(a, checks); err != nil {
				return err
			}
			problems := 0
			for _, c := range checks {
				if !c.OK {
					problems++
				}
			}
			if problems > 0 {
				return fmt.Errorf("%d of %d checks found a problem", problems, len(checks))
			}
			return nil
		}),
	}
	c.Flags().StringVar(&file, "daemon-config", config.DefaultPath, "configuration `FILE` of the daemons")
	return c
}

// serverChecks returns seedbedd's checks, or the problem that it does not answer.
func serverChecks(ctx context.Context, api *client.Client) []seedbed.Check {
	h, err := api.Health(ctx)
	if err != nil {
		return []seedbed.Check{{Name: "api", Detail: err.Error(), Hint: "start seedbedd, or read its log"}}
	}
	answers := seedbed.Check{Name: "api", OK: true, Detail: fmt.Sprintf("seedbedd %s on %s answers on %s", h.Version, h.Node, api.Where())}
	found, err := api.Doctor(ctx)
	if err != nil {
		answers.OK, answers.Detail, answers.Hint = false, err.Error(), "follow its message"
	}
	return append([]seedbed.Check{answers}, found...)
}

func printChecks(a *cli.App, checks []seedbed.Check) error {
	var rows [][]string
	for _, c := range checks {
		state := "ok"
		switch {
		case !c.OK:
			state = "problem"
		case c.Hint != "":
			state = "note"
		}
		rows = append(rows, []string{state, c.Name, cli.OneLine(c.Detail)})
		if c.Hint != "" {
			rows = append(rows, []string{"", "", "-> " + cli.OneLine(c.Hint)})
		}
	}
	return a.ShowTable(checks, []string{"", "check", "found"}, rows, "")
}
