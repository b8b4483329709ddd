// Package doctor has the command that looks for problems of this host and of the installation.
package doctor

import (
	"context"
	"fmt"

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
runs on other hosts (feed.servers). Each check has one line, and problems are the last
ones. Exit status 1 means that there is a problem; a note is not a problem.

Daemons that are starting get a second to open their sockets.`,
		RunE: a.Do(func(ctx context.Context, _ []string) error {
			o, err := a.Options()
			if err != nil {
				return err
			}
			api, err := client.New(o)
			if err != nil {
				return err
			}
			h := newHost(file)
			var own, daemons []seedbed.Check
			switch {
			case !cli.IsLocal(o):
				daemons = serverChecks(ctx, api, "follow its message, or read seedbedd's log there")
			case h.controls():
				h.settle(ctx)
				own, daemons = h.checks(ctx), serverChecks(ctx, api, h.start("seedbedd", h.file))
			default:
				h.settle(ctx)
				own = append(h.checks(ctx), h.elsewhere())
			}
			all := merge(h.config.Node, own, daemons)
			if err := printChecks(a, all); err != nil {
				return err
			}
			problems := 0
			for _, r := range all {
				if !r.OK {
					problems++
				}
			}
			if problems > 0 {
				return fmt.Errorf("%d of %d checks found a problem", problems, len(all))
			}
			return nil
		}),
	}
	c.Flags().StringVar(&file, "daemon-config", config.DefaultPath, "configuration `FILE` of the daemons")
	return c
}

// serverChecks returns seedbedd's checks, or the problem that it does not answer.
func serverChecks(ctx context.Context, api *client.Client, hint string) []seedbed.Check {
	h, err := api.Health(ctx)
	if err != nil {
		return []seedbed.Check{{Name: "api", Detail: err.Error(), Hint: hint}}
	}
	answers := seedbed.Check{Name: "api", OK: true, Detail: fmt.Sprintf("seedbedd %s on %s answers on %s", h.Version, h.Node, api.Where())}
	found, err := api.Doctor(ctx)
	if err != nil {
		answers.OK, answers.Detail, answers.Hint = false, err.Error(), "follow its message"
	}
	return append([]seedbed.Check{answers}, found...)
}

func printChecks(a *cli.App, all []result) error {
	if a.JSON() {
		return a.PrintJSON(all)
	}
	var rows [][]string
	for _, r := range all {
		rows = append(rows, []string{r.Verdict, r.Name, cli.OneLine(r.Detail)})
		if r.Hint != "" {
			rows = append(rows, []string{"", "", "-> " + cli.OneLine(r.Hint)})
		}
	}
	a.PrintTable([]string{"", "check", "found"}, rows, "")
	_, err := fmt.Fprintf(a.Out, "\n%s\n", count(all))
	return err
}
