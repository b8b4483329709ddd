package profile

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

func storageTemplateCmd(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "storage", Short: "Disks"})
	disk := cli.Group(&cobra.Command{Use: "disk", Short: "Manage the disks of a storage template"})
	disk.AddCommand(diskAdd(a), diskRemove(a))
	c.AddCommand(storageAdd(a),
		removal(a, "storage template", (*client.Client).DeleteStorageTemplate, cli.StorageTemplates), storageList(a), disk)
	return c
}

func storageAdd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "add NAME", Short: "Add a storage template without disks (see disk add)",
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			_, err := api.CreateStorageTemplate(ctx, wire.StorageTemplateRequest{Name: args[0]})
			return cli.Done(err, "Added new storage template %q.", args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

// storageList returns the command that lists storage templates, one line per disk.
func storageList(a *cli.App) *cobra.Command {
	return cli.Resource[wire.StorageTemplate]{
		Some:      cli.Matching((*client.Client).StorageTemplates),
		Project:   func(v wire.StorageTemplate) string { return seedbed.ProjectOf(v.Name) },
		None:      "no storage templates yet: seedbed template storage add NAME",
		Unmatched: "no storage templates with that name",
		Head:      []string{"name", "id", "published", "disk", "pool", "source volume", "size", "filesystem", "arguments", "mountpoint"},
		Row: func(t wire.StorageTemplate) []string {
			var disks [][]string
			for _, d := range t.Disks {
				disks = append(disks, []string{
					d.Name, d.Pool, orDash(d.Source), orDash(cli.Size(d.Size)),
					orDash(d.Filesystem), orDash(strings.Join(d.FilesystemArgs, " ")),
					orDash(d.Mountpoint),
				})
			}
			return cli.Stacked([]string{t.Name, cli.Number(int(t.ID)), cli.PublishedTo(t.Published)}, 7, disks)
		},
	}.List(a, "list [LIMIT]", "List storage templates")
}

// maxGB bounds the size of a disk, so that it can be multiplied. The server decides which sizes are
// valid.
const maxGB = 1 << 30

func diskAdd(a *cli.App) *cobra.Command {
	var d seedbed.CatalogueDisk
	c := &cobra.Command{
		Use: "add NAME DISK --pool POOL", Short: "Add a disk, such as sda, to a storage template",
		Long: `Add a disk to a storage template: a clone of an image in the pool (--source-volume), or
a blank disk (--size). DISK is a name such as sda or vda, in the same form for all disks
of a template; the first is the root disk. The script uses the filesystem, its arguments
and the mountpoint. An argument is KEY=VALUE without dashes: a key of one letter gets
one dash, a longer key two.`,
		RunE: a.Told(func(ctx context.Context, api *client.Client, names []string) (string, error) {
			if d.Source != "" && (d.Size > 0 || d.Filesystem != "" || d.Mountpoint != "") {
				return "", cli.Usagef(
					"--source-volume cannot be used with --size, --filesystem or --mountpoint: a clone has the size and content of its image")
			}
			if d.Filesystem == "" && (len(d.FilesystemArgs) > 0 || d.Mountpoint != "") {
				return "", cli.Usagef("--fsarg and --mountpoint need --filesystem")
			}
			d.Name = names[1]
			_, err := api.AddTemplateDisk(ctx, names[0], d)
			return cli.Done(err, "Added new disk %q to storage template %q.", names[1], names[0])
		}),
		ValidArgsFunction: a.Completion(cli.StorageTemplates, cli.NoNames),
	}
	a.Fill(c, &d,
		cli.Flag{Field: "pool", Short: "p", Usage: "storage `POOL` of the disk", Names: cli.NoNames, Required: true},
		cli.Flag{Field: "source_volume", Short: "i", Usage: "`IMAGE` to clone it from", Names: cli.Images},
		cli.Flag{Field: "size", Short: "s", Usage: "`SIZE` of a blank disk, such as 20GiB; a number alone is in GiB", Parse: diskSize},
		cli.Flag{Field: "filesystem", Short: "f", Usage: "`FILESYSTEM` of a blank disk"},
		cli.Flag{
			Field: "filesystem_args", Name: "fsarg", Each: true,
			ParseAll: func(args []string) (any, error) { return dashed(args), nil },
			Usage:    "argument of mkfs as `KEY=VALUE`, without dashes (repeatable)",
		},
		cli.Flag{Field: "mountpoint", Short: "m", Usage: "`PATH` at which the script mounts the filesystem"},
	)
	// As in PVC's client, -f is the filesystem here. A message has no format other than JSON.
	c.Flags().StringVar(&a.Flags.Format, "format", "", "output `FORMAT`: pretty or json")
	filesystems := cobra.FixedCompletions([]string{"ext4", "xfs", "btrfs", "vfat", "swap"}, cobra.ShellCompDirectiveNoFileComp)
	a.CompleteFlag(c, "filesystem", filesystems)
	return c
}

// diskSize reads a size. A number without a unit is in GiB, as in PVC's client.
func diskSize(text string) (any, error) {
	exact := text
	if _, err := strconv.Atoi(text); err == nil {
		exact += "GiB"
	}
	size, err := seedbed.ParseBytes(exact)
	switch {
	case err != nil || size%seedbed.GiB != 0:
		return nil, cli.Usagef("--size %q: expected a size in whole GiB, such as 20GiB, or a number of GiB", text)
	case size < seedbed.GiB || size > maxGB*seedbed.GiB:
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "disk_size is %s: expected 1GiB to %s", size, maxGB*seedbed.GiB)
	}
	return size, nil
}

// dashed adds dashes to each argument of mkfs: as many as its key needs.
func dashed(args []string) []string {
	all := make([]string, len(args))
	for i, arg := range args {
		key, _, _ := strings.Cut(arg, "=")
		all[i] = "--" + arg
		if len(key) == 1 {
			all[i] = "-" + arg
		}
	}
	return all
}

func diskRemove(a *cli.App) *cobra.Command {
	return a.Removal("remove NAME DISK", "Remove a disk from a storage template", "Remove disk %[2]s from storage template %[1]s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return cli.Done(api.RemoveTemplateDisk(ctx, args[0], args[1]), "Removed disk %q from storage template %q.", args[1], args[0])
		}, cli.StorageTemplates, cli.TemplateDisks)
}
