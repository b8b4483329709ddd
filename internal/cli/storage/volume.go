package storage

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// VolumeCommand returns the command volume with its subcommands.
func VolumeCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "volume", Aliases: []string{"volumes"}, Short: "Manage volumes that can be attached to instances"})
	r := volumes(a)
	c.AddCommand(volumeAdd(a), r.List(a, "list", "List volumes, and the disks of instances"), r.Show(a, "show NAME", "Show a volume"),
		volumeResize(a), volumeSet(a), volumeMove(a), volumeUpload(a), volumeDownload(a),
		volumeAttach(a), volumeDetach(a), volumeRename(a), volumeRemove(a))
	return c
}

// onVolume makes c start the job that a request of its arguments asks for, or with --dry-run show its plan.
func onVolume(a *cli.App, c *cobra.Command, request func(args []string) (seedbed.Request, error)) *cobra.Command {
	var (
		w   cli.WaitFlags
		dry bool
	)
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		r, err := request(args)
		if err != nil {
			return err
		}
		if dry {
			return a.ShowPlan(api.PlanVolume(ctx, r))
		}
		receipt, err := api.ChangeVolume(ctx, r)
		return a.Finish(ctx, api, &w, receipt, err)
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would become of the volume and what prevents it")
	w.AddJob(a, c)
	return c
}

func volumeAdd(a *cli.App) *cobra.Command {
	var r seedbed.VolumeRequest
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a volume that no instance has",
		Long: `Make a volume that no instance has: a blank one of a size, a clone of an image, or a copy
of another volume, whose name is given, or of a disk of an instance, as VM:INDEX, or
VM:INDEX@SNAPSHOT for what it had at a snapshot. A copy is in the same pool, or in another one
that its node has as well. It belongs to the project, and can be attached to one of its instances at a time. In a pool
that nodes do not share, it stays on its node, and only instances there can have it.`,
	}
	a.Fill(c, &r, append(limitFlags(),
		cli.Flag{Field: "size", Usage: "`SIZE`, such as 10GiB (default: that of the image)", Parse: size},
		cli.Flag{Field: "pool", Usage: "`POOL` that is to have it (default: that of the image, or the first)"},
		cli.Flag{Field: "image", Usage: "`IMAGE` to clone (default: a blank volume)"},
		cli.Flag{Field: "from", Usage: "`VOLUME` to copy: its name, or VM:INDEX or VM:INDEX@SNAPSHOT for a disk of an instance"},
		cli.Flag{Field: "node", Usage: "`NODE` that is to have it (default: the image's, or the first that has the pool)"},
	)...)
	return onVolume(a, c, func(args []string) (seedbed.Request, error) {
		return seedbed.Request{Action: seedbed.DoVolumeAdd, Name: args[0], Volume: seedbed.VolumeOrder{Add: r}}, nil
	})
}

func volumeMove(a *cli.App) *cobra.Command {
	var to seedbed.VolumeMove
	c := &cobra.Command{
		Use:   "move VOLUME",
		Short: "Take a volume to another pool",
		Long: `Take a volume to another pool. It is copied, the copy is compared with it, and then it is
removed where it was, into the trash if that pool has one. An instance that has it must be
stopped. A node must have both pools. Snapshots of the volume do not move with it.`,
		ValidArgsFunction: a.Completion(cli.VolumesIn(seedbed.VolumeFree, seedbed.VolumeAttached), cli.NoNames),
	}
	a.Fill(c, &to,
		cli.Flag{Field: "pool", Usage: "`POOL` to take it to"},
		cli.Flag{Field: "node", Usage: "`NODE` that is to have it, in a pool that nodes do not share (default: the first that has both pools)"},
	)
	return onVolume(a, c, func(args []string) (r seedbed.Request, err error) {
		if to.Pool == "" {
			return r, cli.Usagef("the pool is missing: give --pool")
		}
		return seedbed.Request{Action: seedbed.DoVolumeMove, Name: args[0], Volume: seedbed.VolumeOrder{Move: to}}, nil
	})
}

// limitFlags are the flags of how fast a volume may be.
func limitFlags() []cli.Flag {
	return []cli.Flag{
		{Field: "iops", Usage: "at most `N` requests per second; 0 for no limit"},
		{Field: "read_iops", Usage: "at most `N` reads per second"},
		{Field: "write_iops", Usage: "at most `N` writes per second"},
		{Field: "bandwidth", Usage: "at most this `SIZE` per second, such as 100MiB; 0 for no limit"},
		{Field: "read_bandwidth", Usage: "read at most this `SIZE` per second"},
		{Field: "write_bandwidth", Usage: "write at most this `SIZE` per second"},
	}
}

func volumeSet(a *cli.App) *cobra.Command {
	var change seedbed.VolumeLimits
	c := &cobra.Command{
		Use:   "set VOLUME",
		Short: "Change how fast a volume may be",
		Long: `Change how many requests and how much data per second a guest may read from a volume and
write to it. The guest of a running instance is bound by that at once, and the volume keeps
its limits when it is attached to another instance. 0 lifts a limit. --iops and --bandwidth
bound reads and writes together, and exclude those of one kind.`,
		ValidArgsFunction: a.Completion(cli.VolumesIn(seedbed.VolumeFree, seedbed.VolumeAttached), cli.NoNames),
	}
	f := a.Fill(c, &change, limitFlags()...)
	return onVolume(a, c, func(args []string) (r seedbed.Request, err error) {
		if !f.Given() {
			return r, cli.Usagef("nothing to change: give a flag, such as --iops")
		}
		return seedbed.Request{Action: seedbed.DoVolumeSet, Name: args[0], Volume: seedbed.VolumeOrder{Set: change}}, nil
	})
}

func size(text string) (any, error) { return seedbed.ParseBytes(text) }

func volumes(a *cli.App) cli.Resource[seedbed.ProjectVolume] {
	return cli.Resource[seedbed.ProjectVolume]{
		Some: cli.Selected((*client.Client).ListVolumes),
		Filters: []cli.Filter{
			cli.NameFilter(), cli.WordFilter("state", "only in this `STATE`", seedbed.VolumeStates()),
			{Name: "pool", Usage: "only in this `POOL`"}, {Name: "instance", Usage: "only those of this `INSTANCE`"},
		},
		None: "no volumes yet: seedbed volume add NAME --size SIZE", Unmatched: "no matching volumes",
		Project: func(v seedbed.ProjectVolume) string { return v.Project },
		Head:    []string{"name", "state", "size", "pool", "node", "instance", "device", "kept"},
		Row: func(v seedbed.ProjectVolume) []string {
			return []string{v.Name, string(v.State), cli.Size(v.Size), v.Pool, v.Node, v.Holder, v.Device, cli.YesNo(v.Keep)}
		},
		One: cli.Named((*client.Client).Volume),
		Pairs: func(a *cli.App, v seedbed.ProjectVolume) [][2]string {
			return [][2]string{
				{"name", v.Name}, {"project", v.Project}, {"id", v.ID}, {"state", string(v.State)}, {"size", cli.Size(v.Size)},
				{"pool", v.Pool}, {"volume", v.Volume}, {"node", v.Node}, {"image", v.Image}, {"instance", v.Holder}, {"bus", v.Bus},
				{"device", v.Device}, {"serial", v.Serial}, {"limits", v.IOLimits.String()}, {"kept", cli.YesNo(v.Keep)},
				{"added", a.Moment(v.Created)},
			}
		},
	}
}

func volumeResize(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "resize VOLUME SIZE",
		Short: "Make a volume larger",
		Long: `Make a volume larger, whether an instance has it or not. The guest of a running instance
sees the new size at once, and grows its partitions and file systems itself. A volume
never becomes smaller. A disk that an instance was made with is resized with it: see
seedbed vm resize.`,
		ValidArgsFunction: a.Completion(cli.VolumesIn(seedbed.VolumeFree, seedbed.VolumeAttached), cli.NoNames),
	}
	return onVolume(a, c, func(args []string) (seedbed.Request, error) {
		size, err := seedbed.ParseBytes(args[1])
		return seedbed.Request{Action: seedbed.DoVolumeResize, Name: args[0],
			Volume: seedbed.VolumeOrder{Resize: seedbed.VolumeResize{Size: size}}}, err
	})
}

func volumeAttach(a *cli.App) *cobra.Command {
	var to seedbed.Attachment
	c := &cobra.Command{
		Use:   "attach VOLUME VM",
		Short: "Attach a volume to an instance",
		Long: `Attach a volume to an instance of its project. The guest of a running one sees it at
once, as /dev/disk/by-id/virtio-SERIAL, where SERIAL is what seedbed volume show prints.
When the instance is removed, the volume stays, unless --keep=false is given.`,
		ValidArgsFunction: a.Completion(cli.VolumesIn(seedbed.VolumeFree), cli.Instances),
	}
	a.Fill(c, &to,
		cli.Flag{Field: "bus", Usage: "`BUS` of the disk: virtio or scsi (default: virtio)"},
		cli.Flag{Field: "keep", Usage: "keep the volume when the instance is removed (default: true)"},
	)
	return onVolume(a, c, func(args []string) (seedbed.Request, error) {
		to.Instance = args[1]
		return seedbed.Request{Action: seedbed.DoVolumeAttach, Name: args[0], Volume: seedbed.VolumeOrder{Attach: to}}, nil
	})
}

func volumeDetach(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "detach VOLUME [VM]",
		Short: "Detach a volume from its instance",
		Long: `Detach a volume from the instance that has it. Unmount it in the guest first: the guest
of a running instance must let go of it, and if it does not, the volume stays attached.
With VM, the command fails if another instance has the volume. A disk that an instance
was made with cannot be detached.`,
		ValidArgsFunction: a.Completion(
			cli.VolumesIn(seedbed.VolumeAttached, seedbed.VolumeAttaching, seedbed.VolumeDetaching), cli.Instances),
	}
	return onVolume(a, c, func(args []string) (seedbed.Request, error) {
		r := seedbed.Request{Action: seedbed.DoVolumeDetach, Name: args[0]}
		if len(args) > 1 {
			r.Volume.Attach.Instance = args[1]
		}
		return r, nil
	})
}

func volumeRename(a *cli.App) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: a.Completion(cli.VolumesIn(seedbed.VolumeFree, seedbed.VolumeAttached), cli.NoNames),
		Use:               "rename VOLUME NEW",
		Short:             "Give a volume another name",
		Long:              "Give a volume another name, at once. Its guest does not notice: it knows it by its serial number.",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			_, err := api.RenameVolume(ctx, args[0], args[1])
			return a.Report(err, "volume %s is called %s now", args[0], args[1])
		}),
	}
}

func volumeRemove(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a volume that no instance has",
		Long: `Remove a volume, into the trash if its pool has one. It is refused while an instance has
the volume: detach it first.`,
	}
	return a.Confirmed("Remove volume %s and its data", onVolume(a, c, func(args []string) (seedbed.Request, error) {
		return seedbed.Request{Action: seedbed.DoVolumeRemove, Name: args[0]}, nil
	}))
}
