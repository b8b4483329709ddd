package instance

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

func vmSnapshot(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "snapshot", Aliases: []string{"snapshots"}, Short: "Snapshots of an instance's disks",
		Long: `Snapshots of an instance's disks: what the guest has written to them at one
moment, each disk for itself. In a Ceph pool the guest may run; what it holds in
memory is not in it. In a directory pool the domain has to be off.`,
	})
	c.AddCommand(
		a.JobAction("create VM NAME", "Take a snapshot of each disk", 2, func(api *client.Client, ctx context.Context, args []string) (seedbed.Receipt, error) {
			return api.TakeSnapshot(ctx, args[0], args[1])
		}),
		vmSnapshotList(a),
		a.Confirmed("Remove of instance %s the snapshot %s", a.JobAction("remove VM NAME", "Remove a snapshot", 2, func(api *client.Client, ctx context.Context, args []string) (seedbed.Receipt, error) {
			return api.RemoveSnapshot(ctx, args[0], args[1])
		})),
	)
	return c
}

func vmSnapshotList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "list VM", Aliases: []string{"ls"}, Short: "List an instance's snapshots", Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			all := func(c *client.Client, ctx context.Context) ([]client.Snapshot, error) {
				return c.Snapshots(ctx, args[0])
			}
			return cli.List(ctx, a, all, "no snapshots yet: seedbed vm snapshot create "+args[0]+" NAME",
				[]string{"name", "disks", "complete", "taken"},
				func(s client.Snapshot) []string {
					complete := "yes"
					if !s.Complete {
						complete = "no"
					}
					return []string{s.Name, strconv.Itoa(len(s.Volumes)), complete, a.Ago(s.Created)}
				})
		}),
	}
}

func vmFlatten(a *cli.App) *cobra.Command {
	c := a.JobAction("flatten VM", "Make an instance's disks independent of their image", 1,
		func(api *client.Client, ctx context.Context, args []string) (seedbed.Receipt, error) {
			return api.Flatten(ctx, args[0])
		})
	c.Long = `Copy into an instance's disks what they share with the image that they are clones
of, so that the image can be removed. In a Ceph pool the managers do it, while the
guest runs. In a directory pool the domain has to be off and without snapshots,
and is defined anew at the end. Other instances and profiles are not affected.`
	return c
}
