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
one moment. The guest may be running; its memory is not included, but its file systems
are frozen if it has a guest agent.`,
	})
	c.AddCommand(
		vmSnapshotCreate(a), vmSnapshotList(a), vmSnapshotRestore(a),
		a.Confirmed("Remove snapshot %[2]s of instance %[1]s", a.JobAction("remove VM NAME", "Remove a snapshot",
			func(api *client.Client, ctx context.Context, args []string) (seedbed.Receipt, error) {
				return api.RemoveSnapshot(ctx, args[0], args[1])
			})),
		a.ScheduleCommand(seedbed.ScheduleSnapshot, "vm snapshot schedule", vmSnapshotScheduleAdd(a)),
	)
	return c
}

func vmSnapshotCreate(a *cli.App) *cobra.Command {
	var r wire.SnapshotRequest
	c := a.JobAction("create VM NAME", "Take a snapshot of each disk",
		func(api *client.Client, ctx context.Context, args []string) (seedbed.Receipt, error) {
			r.Name = args[1]
			return api.TakeSnapshot(ctx, args[0], r)
		})
	c.Long = `Take a snapshot of each disk of an instance. If its guest runs and has a guest agent, the
agent writes out the guest's file systems and freezes them until the snapshots are taken.
Otherwise the disks are as after a power cut. "vm snapshot list" shows which it was.`
	a.Fill(c, &r, freezeFlag())
	return c
}

func freezeFlag() cli.Flag {
	return cli.Flag{Field: "freeze",
		Usage: "`WHEN` to freeze a guest: auto (if its agent answers, the default), always (or else fail) or never"}
}

func vmSnapshotScheduleAdd(a *cli.App) *cobra.Command {
	var r wire.SnapshotScheduleRequest
	c := &cobra.Command{
		Use: "add NAME", Short: "Have snapshots be taken by themselves, and removed again",
		Long: `Have a snapshot be taken of instances of the project at the times of a cron expression in
UTC: of those that --vm names, of those that were made from a profile, or of those that
have a tag. It is called NAME-TIME. The cleanup removes the snapshots of the schedule that
no rule of --keep keeps, and no others. An instance of which none can be taken then is left
out; "vm snapshot schedule show" and "doctor" say so.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Name = args[0]
			_, err := api.AddSnapshotSchedule(ctx, r)
			return a.Report(err, "snapshot schedule %s added", args[0])
		}),
	}
	a.Fill(c, &r, append(cli.ScheduleFlags(),
		cli.Flag{Field: "keep", Usage: "snapshots of each instance to keep, as `RULES` such as last=3,hourly=24,daily=7,weekly=4,monthly=12 " +
			"(default: all)", Parse: func(text string) (any, error) { return seedbed.ParseRetention(text) }},
		freezeFlag(),
	)...)
	c.MarkFlagsMutuallyExclusive("vm", "profile", "tag")
	return c
}

func vmSnapshotList(a *cli.App) *cobra.Command {
	return cli.Resource[wire.Snapshot]{
		Some: cli.SelectedOf((*client.Client).ListSnapshots), None: "no snapshots yet: seedbed vm snapshot create ARG NAME",
		Head: []string{"name", "disks", "size", "complete", "guest", "taken"},
		Row: func(s wire.Snapshot) []string {
			size := ""
			if s.Size > 0 {
				size = s.Size.String()
			}
			return []string{s.Name, strconv.Itoa(len(s.Volumes)), size, cli.YesNo(s.Complete), string(s.Consistency), a.Ago(s.Created)}
		},
	}.List(a, "list VM", "List an instance's snapshots")
}

func vmSnapshotRestore(a *cli.App) *cobra.Command {
	var (
		r        wire.RestoreRequest
		p        powerFlags
		yes, dry bool
		w        cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "restore VM NAME", Short: "Bring each disk back to a snapshot",
		Long: `Bring each disk of an instance back to a snapshot, which loses what was written since.
An instance that runs is shut down, as by stop, and started again; one that is stopped
stays so. It keeps its identity, addresses, MACs, metadata and size, and all its
snapshots. What its disks have before is kept until it runs again: if anything fails
before, or the job is cancelled, it has that again.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if dry {
				return a.ShowPlan(api.PlanRestoreSnapshot(ctx, args[0], args[1], p.power()))
			}
			if !yes && r.Confirm == "" {
				i, err := api.Instance(ctx, args[0])
				if err != nil {
					return err
				}
				r.Confirm, err = stakes{risk{"restore", "restoring", "loses what was written to its disks since the snapshot"},
					" to snapshot " + args[1] + " and lose what was written to its disks since",
					"what was written to its disks since snapshot " + args[1] + " will be lost"}.agreed(a, i)
				if err != nil {
					return err
				}
			}
			receipt, err := api.RestoreSnapshot(ctx, args[0], args[1], r.Confirm, p.power())
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	a.Fill(c, &r, cli.Flag{Field: "confirm", Usage: "the instance's `NAME` again, if it is protected"})
	cli.AddYes(c, &yes)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be done and what prevents it")
	p.add(c)
	w.AddJob(a, c)
	return c
}

func vmFlatten(a *cli.App) *cobra.Command {
	c := a.JobAction("flatten VM", "Make an instance's disks independent of their image", cli.Named((*client.Client).Flatten))
	c.Long = `Copy into an instance's disks the data that they share with their image, so that the
image can be removed. In a Ceph pool this happens while the guest runs. In a directory
pool the instance must be stopped and have no snapshots; it is redefined at the end.
Other instances and profiles are not affected.`
	return c
}
