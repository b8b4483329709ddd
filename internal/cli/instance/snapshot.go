package instance

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

func vmSnapshot(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "snapshot", Aliases: []string{"snapshots"}, Short: "Manage snapshots of an instance's disks",
		Long: `Manage snapshots of an instance's disks. A snapshot holds what the guest has written at
one moment, for each disk separately. In a Ceph pool the guest may be running; its memory
is not included. In a directory pool the instance must be stopped.`,
	})
	c.AddCommand(
		a.JobAction("create VM NAME", "Take a snapshot of each disk",
			func(api *client.Client, ctx context.Context, args []string) (seedbed.Receipt, error) {
				return api.TakeSnapshot(ctx, args[0], args[1])
			}),
		vmSnapshotList(a),
		a.Confirmed("Remove snapshot %[2]s of instance %[1]s", a.JobAction("remove VM NAME", "Remove a snapshot",
			func(api *client.Client, ctx context.Context, args []string) (seedbed.Receipt, error) {
				return api.RemoveSnapshot(ctx, args[0], args[1])
			})),
	)
	return c
}

func vmSnapshotList(a *cli.App) *cobra.Command {
	return cli.Resource[wire.Snapshot]{
		Some: cli.SelectedOf((*client.Client).ListSnapshots), None: "no snapshots yet: seedbed vm snapshot create ARG NAME",
		Head: []string{"name", "disks", "complete", "taken"},
		Row: func(s wire.Snapshot) []string {
			return []string{s.Name, strconv.Itoa(len(s.Volumes)), cli.YesNo(s.Complete), a.Ago(s.Created)}
		},
	}.List(a, "list VM", "List an instance's snapshots")
}

func vmFlatten(a *cli.App) *cobra.Command {
	c := a.JobAction("flatten VM", "Make an instance's disks independent of their image", cli.Named((*client.Client).Flatten))
	c.Long = `Copy into an instance's disks the data that they share with their image, so that the
image can be removed. In a Ceph pool this happens while the guest runs. In a directory
pool the instance must be stopped and have no snapshots; it is redefined at the end.
Other instances and profiles are not affected.`
	return c
}
