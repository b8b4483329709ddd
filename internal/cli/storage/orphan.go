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

func OrphanCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "orphan", Aliases: []string{"orphans"}, Short: "What jobs that were undone could not take back",
		Long: `What jobs that were undone could not take back, because a pool or a host did not
answer then. The cleanup has them undone once more, after ten minutes for the first time
and then less and less often. What is left of a rebuild, a resize, a flatten or a power job stays
until you ask for it, but for disks that a rebuild has made. Nothing is taken away of an instance that
another job has worked on since: what is left of that goes when it is removed.

Besides, the list has what carries Seedbed's tag and is of no instance or image that is
known, as after the database was restored from a copy. Nothing takes that away by itself.`,
	})
	c.AddCommand(orphanList(a), orphanUndo(a))
	return c
}

func orphanList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List what was left behind", Args: cobra.NoArgs,
		RunE: a.Do(func(ctx context.Context, _ []string) error {
			return cli.List(ctx, a, (*client.Client).Orphans, "nothing is left behind",
				[]string{"job", "of", "subject", "what", "name", "pool", "node", "left", "tries", "why"},
				func(o seedbed.Orphan) []string {
					if o.Stage == "" { // a stray
						o.Subject = string(o.Instance)
					}
					return []string{o.Job.Short(), string(o.Of), o.Subject, string(o.Kind), o.Name, o.Pool, o.Node, a.Ago(o.Since), strconv.Itoa(o.Tries), cli.OneLine(o.Why)}
				})
		}),
	}
}

func orphanUndo(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "undo JOB", Short: "Have a job undone once more that has left something behind", Args: cobra.ExactArgs(1),
		Long: `Have a job undone once more that has left something behind, now rather than when the
cleanup does. Only the stages are undone of which something is left. Of a rebuild whose instance was
left with its new disks, this switches the instance off and gives it the former ones.`,
		ValidArgsFunction: a.Completion(orphaned),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			api, err := a.Client()
			if err != nil {
				return err
			}
			j, err := api.UndoJob(ctx, args[0])
			if err != nil {
				return err
			}
			a.Say("job %s is undone once more; follow it with: seedbed job watch %s", j.ID.Short(), j.ID.Short())
			return nil
		}),
	}
}

// orphaned are the jobs that have left something behind.
func orphaned(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Orphans(ctx)
	all = slices.DeleteFunc(all, func(o seedbed.Orphan) bool { return o.Stage == "" })
	return slices.Compact(cli.Each(all, func(o seedbed.Orphan) string { return o.Job.Short() })), err
}
