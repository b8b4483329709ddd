// Package storage has the commands for what disks are made from, and for what is left of them:
// images, OVAs, the trash, orphans and the cleanup.
package storage

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// ImageCommand returns the command image with its subcommands.
func ImageCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "image", Aliases: []string{"images"}, Short: "Manage disk images that instances are cloned from"})
	r := images(a)
	c.AddCommand(imageAdd(a), imageUpload(a), imageCreate(a), r.List(a, "list", "List images"), r.Show(a, "show NAME", "Show an image"),
		imageRemove(a))
	return c
}

func imageAdd(a *cli.App) *cobra.Command {
	var (
		r   wire.ImageRequest
		w   cli.WaitFlags
		dry bool
	)
	c := &cobra.Command{
		Use:   "add NAME FILE",
		Short: "Import a disk image from a file on the host",
		Long: `Import a disk image (qcow2, raw, vmdk, vdi, an ISO, or an OVA with one disk) from
a file on the control host, or on the node given with --node. The image is a copy;
you can delete the file afterwards. To import a file from this machine, use
seedbed image upload.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if strings.Contains(args[1], "://") {
				return cli.Usagef("image add %s: %s is a URL: expected a file; fetch it first (curl -fLO URL), and compare its digest with --sha256",
					args[0], args[1])
			}
			path, err := filepath.Abs(args[1])
			if err != nil {
				return err
			}
			r.Name, r.Path, r.SHA256 = args[0], path, strings.ToLower(r.SHA256)
			if dry {
				return tellImport(ctx, a, api, importOf(r, 0))
			}
			receipt, err := api.ImportImage(ctx, r)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	a.Fill(c, &r, imageFlags("`NODE` whose worker imports it (default: the control host, or the first node that has the pool)")...)
	dryFlag(c, &dry)
	w.AddJob(a, c)
	return c
}

func imageCreate(a *cli.App) *cobra.Command {
	var (
		r   wire.ImageRequest
		w   cli.WaitFlags
		dry bool
	)
	c := &cobra.Command{
		Use:   "create NAME --from VOLUME",
		Short: "Make an image of a volume or of a disk of an instance",
		Long: `Make an image of what a volume has at one moment: a volume by its name, the first disk of
an instance by the instance's name, or VM:INDEX for any of its disks. VM@SNAPSHOT and
VM:INDEX@SNAPSHOT mean what the disk had at a snapshot. In a pool of Ceph the guest may run;
in a directory pool the instance must be off.

--generalise removes from the image what only one machine may have: the machine ID, the
SSH host keys, cloud-init's state and logs, DHCP leases and the journal. So an instance of
the image begins as a new machine. It works on ext4, ext3 and ext2 file systems on the
disk or its partitions, not on LVM or encrypted disks, and the volume stays as it is.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if r.From == "" {
				return cli.Usagef("image create %s: --from is missing: expected a volume, VM, VM:INDEX or VM@SNAPSHOT", args[0])
			}
			r.Name = args[0]
			if dry {
				return tellImport(ctx, a, api, importOf(r, 0))
			}
			receipt, err := api.ImportImage(ctx, r)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	a.Fill(c, &r,
		cli.Flag{Field: "from", Usage: "`VOLUME` to copy: its name, VM, VM:INDEX, VM@SNAPSHOT or VM:INDEX@SNAPSHOT"},
		cli.Flag{Field: "generalise", Usage: "remove what only one machine may have"},
		cli.Flag{Field: "firmware", Usage: "`FIRMWARE` of instances with this root disk: bios, uefi or uefi-secure " +
			"(default: that of the instance's image)"},
	)
	dryFlag(c, &dry)
	w.AddJob(a, c)
	return c
}

func images(a *cli.App) cli.Resource[seedbed.Image] {
	return cli.Resource[seedbed.Image]{
		Some: cli.Selected((*client.Client).ListImages),
		Filters: []cli.Filter{
			cli.NameFilter(), cli.WordFilter("state", "only in this `STATE`", seedbed.ImageStates()),
			{Name: "pool", Usage: "only in this `POOL`"}, cli.NodeFilter(),
		},
		None: "no images yet: seedbed image add NAME FILE", Unmatched: "no matching images",
		Project: func(i seedbed.Image) string { return seedbed.ProjectOf(i.Name) },
		Head:    []string{"name", "state", "size", "format", "pool", "node", "added", "published"},
		Row: func(i seedbed.Image) []string {
			return []string{
				i.Name, string(i.State), cli.Size(i.Size), i.Format, i.Pool, i.Node, a.Ago(i.Created), cli.PublishedTo(i.Published),
			}
		},
		One: cli.Named((*client.Client).Image),
		Pairs: func(a *cli.App, i seedbed.Image) [][2]string {
			return [][2]string{
				{"name", i.Name}, {"state", string(i.State)}, {"pool", i.Pool}, {"node", i.Node}, {"size", cli.Size(i.Size)},
				{"format", i.Format}, {"firmware", string(i.Firmware)}, {"source", i.Source}, {"sha256", i.SHA256}, {"added", a.Moment(i.Created)},
				{"published", cli.PublishedTo(i.Published)},
			}
		},
	}
}

func imageRemove(a *cli.App) *cobra.Command {
	c := a.JobAction("remove NAME", "Remove an unused image", cli.Named((*client.Client).RemoveImage))
	c.Long = `Remove an image, or what is left of an import that could not be rolled back. It is
refused while profiles name the image or disks are clones of it, of any project: remove them first,
or make the instances' disks independent (seedbed vm flatten).`
	return a.Confirmed("Remove image %s", c)
}
