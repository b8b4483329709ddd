package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/internal/cli"
)

func vmRename(a *cli.App) *cobra.Command {
	var (
		dry bool
		w   cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "rename VM NAME", Short: "Give a stopped instance another name",
		Long: `Give a stopped instance another name. It keeps its ID, disks, MAC addresses, addresses and
tokens. Its domain, its metadata and its record in the DNS of its networks get the new
name, and its guest is told it as its host name at the next start. Jobs and backups of the
time before keep the former name, which another instance may have from then on.`,
		Example: "  seedbed vm rename web1 web2\n  seedbed vm rename web1 web2 --dry-run",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if dry {
				return a.ShowPlan(api.PlanRename(ctx, args[0], args[1]))
			}
			receipt, err := api.RenameInstance(ctx, args[0], args[1])
			return a.Finish(ctx, api, &w, receipt, err)
		}),
		ValidArgsFunction: a.Completion(cli.Instances, cli.NoNames),
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would change and what prevents it")
	w.AddJob(a, c)
	return c
}
