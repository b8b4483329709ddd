package storage

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
)

func CleanupCommand(a *cli.App) *cobra.Command {
	var dryRun, force bool
	c := &cobra.Command{
		Use:   "cleanup",
		Short: "Take away what nothing owns any more",
		Long: `Take away what nothing owns any more: addresses of instances whose domain is
gone, expired leases, old records. It runs by itself, too; this runs it now.
On a node of which it does not see everything it touches nothing, and says so; when
there is no other node, it refuses.`,
		Args: cobra.NoArgs,
		RunE: a.Do(func(ctx context.Context, _ []string) error {
			api, err := a.Client()
			if err != nil {
				return err
			}
			report, err := api.Cleanup(ctx, dryRun, force)
			if err != nil {
				return err
			}
			if err := printCleanup(a, report, dryRun); err != nil {
				return err
			}
			if report.Refused != "" {
				return seedbed.Errorf(seedbed.ErrConflict, "the cleanup touched nothing: %s", report.Refused)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only tell what would go")
	c.Flags().BoolVar(&force, "force", false, "go on although the inventory looks wrong")
	return c
}

func printCleanup(a *cli.App, r seedbed.CleanupReport, dryRun bool) error {
	if a.JSON() {
		return a.PrintJSON(r)
	}
	var rows [][]string
	for _, t := range r.Items {
		rows = append(rows, []string{t.Task, t.Action, t.Subject, t.Detail})
	}
	none := "nothing to take away"
	if r.Refused != "" {
		none = ""
	}
	if len(rows) > 0 || none != "" {
		a.PrintTable([]string{"task", "action", "subject", "detail"}, rows, none)
	}
	for _, why := range r.Skipped {
		a.Say("%s", cli.Printable(why))
	}
	if dryRun && len(rows) > 0 {
		a.Say("nothing was touched: this was a dry run")
	}
	return nil
}
