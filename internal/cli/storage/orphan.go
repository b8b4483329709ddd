package storage

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// OrphanCommand returns the command orphan with its subcommands.
func OrphanCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "orphan", Aliases: []string{"orphans"}, Short: "Resources left behind by jobs whose rollback was incomplete",
		Long: `Resources left behind by jobs whose rollback was incomplete, because a pool or a host
did not answer. The cleanup retries the rollback, first after ten minutes and then less
and less often. What a rebuild, restore, resize, flatten or power job left stays until you
run "seedbed orphan undo", except for disks that a rebuild made. Resources of an instance that
a later job has worked on stay until the instance is removed.

The list also shows resources that carry Seedbed's tag but belong to no known instance or
image, such as after the database was restored from a backup. They are never removed
automatically.`,
	})
	c.AddCommand(orphanList(a), orphanUndo(a))
	return c
}

func orphanList(a *cli.App) *cobra.Command {
	return cli.Resource[seedbed.Orphan]{
		Some: cli.Selected((*client.Client).ListOrphans),
		Filters: []cli.Filter{
			cli.WordFilter("kind", "only of this `KIND`", seedbed.OrphanKinds()), {Name: "pool", Usage: "only in this `POOL`"}, cli.NodeFilter(),
		},
		None: "no orphans", Unmatched: "no matching orphans",
		Head: []string{"job", "of", "subject", "project", "what", "name", "pool", "node", "left", "tries", "why"},
		Row: func(o seedbed.Orphan) []string {
			if o.Stage == "" { // without an undone job
				o.Subject = string(o.Instance)
			}
			return []string{
				o.Job.Short(), string(o.Of), o.Subject, o.Project, string(o.Kind), o.Name, o.Pool, o.Node,
				a.Ago(o.Since), strconv.Itoa(o.Tries), cli.OneLine(o.Why),
			}
		},
	}.List(a, "list", "List orphans")
}

func orphanUndo(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "undo JOB", Short: "Retry the rollback of a job that left resources behind",
		Long: `Retry the rollback of a job that left resources behind, without waiting for the cleanup.
Only stages that left something are rolled back. If a rebuild left an instance with its
new disks, this stops the instance and gives it the former disks.`,
		ValidArgsFunction: a.Completion(orphaned),
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			j, err := api.UndoJob(ctx, args[0])
			return a.Report(err, "job %s is being rolled back again; follow it with: seedbed job watch %s", j.ID.Short(), j.ID.Short())
		}),
	}
}

// orphaned lists the jobs that have left something behind.
func orphaned(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Orphans(ctx)
	all = slices.DeleteFunc(all, func(o seedbed.Orphan) bool { return o.Stage == "" })
	return slices.Compact(cli.Each(all, func(o seedbed.Orphan) string { return o.Job.Short() })), err
}
