package cluster

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// projectShare returns a command that publishes an object of a project to others.
func projectShare(a *cli.App) *cobra.Command {
	var (
		with       []string
		all, draft bool
	)
	c := &cobra.Command{
		Use: "share KIND NAME", Short: "Publish an object of a project to others",
		Long: `Say which other projects may use an object, instead of those before. KIND is image,
network, profile, system-template, network-template, storage-template, userdata, script or ova.
The object stays its project's: the others cannot change it. They use a profile as a whole,
with parts that need not be published. A draft is used by its own project only, as each new
object is. Instances that others have made of it are not changed when it is withdrawn. Only
the project default publishes to all.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			kind, err := seedbed.ParsePublishedKind(args[0])
			if err != nil {
				return err
			}
			ways := 0
			for _, chosen := range []bool{len(with) > 0, all, draft} {
				if chosen {
					ways++
				}
			}
			if ways != 1 {
				return cli.Usagef("project share: expected one of --with PROJECT, --all and --draft")
			}
			to := seedbed.Publication{All: all, Projects: append([]string{}, with...)}
			shown, err := api.Publish(ctx, kind, args[1], to)
			return a.Tell(err, shown, "%s %s: %s", kind, args[1], to)
		}),
	}
	c.Flags().StringSliceVar(&with, "with", nil, "publish it to this `PROJECT` (repeatable)")
	c.Flags().BoolVar(&all, "all", false, "publish it to all projects, those of the future included")
	c.Flags().BoolVar(&draft, "draft", false, "publish it to no other project")
	return c
}
