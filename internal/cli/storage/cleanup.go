package storage

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// CleanupCommand returns the command cleanup.
func CleanupCommand(a *cli.App) *cobra.Command {
	var dryRun, force bool
	c := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove stale resources",
		Long: `Remove stale resources: addresses of instances whose domain is gone, expired leases
and old records. The cleanup also runs periodically; this command runs it now.
It skips a node whose inventory is incomplete and reports that. If that is the only
node, it refuses to run.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, _ []string) error {
			report, err := api.Cleanup(ctx, dryRun, force)
			if err != nil {
				return err
			}
			if err := printCleanup(a, report, dryRun); err != nil {
				return err
			}
			if report.Refused != "" {
				return seedbed.Errorf(seedbed.ErrConflict, "the cleanup was refused: %s", report.Refused)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be removed")
	c.Flags().BoolVar(&force, "force", false, "continue even if the inventory looks wrong")
	return c
}

func printCleanup(a *cli.App, r seedbed.CleanupReport, dryRun bool) error {
	if a.JSON() {
		return a.PrintJSON(r)
	}
	rows := cli.Each(r.Items, func(t seedbed.CleanupItem) []string { return []string{t.Task, t.Action, t.Subject, t.Detail} })
	none := cli.When(r.Refused == "", "nothing to clean up")
	if len(rows) > 0 || none != "" {
		a.PrintTable([]string{"task", "action", "subject", "detail"}, rows, none)
	}
	for _, why := range r.Skipped {
		a.Say("%s", cli.Printable(why))
	}
	if dryRun && len(rows) > 0 {
		a.Say("dry run: nothing was changed")
	}
	return nil
}
