package profile

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/internal/cli"
)

func storageTemplateCmd(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "storage", Short: "Disks"})
	disk := cli.Group(&cobra.Command{Use: "disk", Short: "Manage the disks of a storage template"})
	disk.AddCommand(diskAdd(a), diskRemove(a))
	c.AddCommand(storageAdd(a), storageRemove(a), storageList(a), disk)
	return c
}

func storageAdd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "add NAME", Short: "Add a storage template without disks (see disk add)", Args: cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return api.AddStorageTemplate(ctx, args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func storageRemove(a *cli.App) *cobra.Command {
	return a.Removal("remove NAME", "Remove a storage template", "Remove storage template %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return api.RemoveStorageTemplate(ctx, args[0])
		}, cli.StorageTemplates)
}

// storageList returns the command that lists storage templates, one line per disk.
func storageList(a *cli.App) *cobra.Command {
	return cli.MatchingCommand(a, "storage templates", "no storage templates yet: seedbed provisioner template storage add NAME",
		(*client.Client).StorageTemplates,
		[]string{"name", "id", "disk", "pool", "source volume", "size [gb]", "filesystem", "arguments", "mountpoint"},
		func(t client.StorageTemplate) []string {
			row := make([]string, 9)
			row[0], row[1] = t.Name, strconv.FormatInt(t.ID, 10)
			for i, d := range t.Disks {
				args := d.FilesystemArgs
				if args == "" {
					args = "-"
				}
				for column, s := range []string{d.DiskID, d.Pool, cli.OrDash(d.SourceVolume), cli.OrDash(d.SizeGB), cli.OrDash(d.Filesystem), args, cli.OrDash(d.Mountpoint)} {
					if i > 0 {
						row[column+2] += "\n"
					}
					row[column+2] += s
				}
			}
			return row
		})
}

func diskAdd(a *cli.App) *cobra.Command {
	var (
		r    client.TemplateDiskRequest
		size int
		args []string
		c    *cobra.Command
	)
	c = &cobra.Command{
		Use: "add NAME DISK --pool POOL", Short: "Add a disk, such as sda, to a storage template",
		Long: `Add a disk to a storage template: a clone of an image in the pool (--source-volume), or
a blank disk (--size). DISK is a name such as sda or vda, in the same form for all disks
of a template; the first is the root disk. The script uses the filesystem, its arguments
and the mountpoint. An argument is KEY=VALUE without dashes: a key of one letter gets
one dash, a longer key two.`,
		Example: `  seedbed provisioner template storage disk add root sda -p default -i debian-13
  seedbed provisioner template storage disk add root sdb -p default -s 20 -f ext4 --fsarg L=data -m /srv`,
		Args: cobra.ExactArgs(2),
		RunE: a.Told(func(ctx context.Context, api *client.Client, names []string) (string, error) {
			r.SizeGB = cli.Given(c, "size", size)
			if r.Source != "" && (r.SizeGB != nil || r.Filesystem != "" || r.Mountpoint != "") {
				return "", cli.Usagef("--source-volume cannot be used with --size, --filesystem or --mountpoint: a clone has the size and content of its image")
			}
			if r.Filesystem == "" && (len(args) > 0 || r.Mountpoint != "") {
				return "", cli.Usagef("--fsarg and --mountpoint need --filesystem")
			}
			r.FilesystemArgs = dashed(args)
			return api.AddTemplateDisk(ctx, names[0], names[1], r)
		}),
		ValidArgsFunction: a.Completion(cli.StorageTemplates, cli.NoNames),
	}
	f := c.Flags()
	f.StringVarP(&r.Pool, "pool", "p", "", "storage `POOL` of the disk")
	f.StringVarP(&r.Source, "source-volume", "i", "", "`IMAGE` to clone it from")
	f.IntVarP(&size, "size", "s", 0, "size of a blank disk in `GB` (GiB)")
	f.StringVarP(&r.Filesystem, "filesystem", "f", "", "`FILESYSTEM` of a blank disk")
	f.StringArrayVar(&args, "fsarg", nil, "argument of mkfs as `KEY=VALUE`, without dashes (repeatable)")
	f.StringVarP(&r.Mountpoint, "mountpoint", "m", "", "`PATH` at which the script mounts the filesystem")
	// As in PVC's client, -f is the filesystem here. A message has no format other than JSON.
	f.StringVar(&a.Flags.Format, "format", "", "output `FORMAT`: pretty or json")
	// The flags were added above.
	_ = c.MarkFlagRequired("pool")
	_ = c.RegisterFlagCompletionFunc("pool", cobra.NoFileCompletions)
	_ = c.RegisterFlagCompletionFunc("source-volume", a.FlagCompletion(cli.Images))
	_ = c.RegisterFlagCompletionFunc("filesystem", cobra.FixedCompletions([]string{"ext4", "xfs", "btrfs", "vfat", "swap"}, cobra.ShellCompDirectiveNoFileComp))
	return c
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
	return a.Removal("remove NAME DISK", "Remove a disk from a storage template", "Of storage template %s remove disk %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return api.RemoveTemplateDisk(ctx, args[0], args[1])
		}, cli.StorageTemplates, cli.TemplateDisks)
}
