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
	c.AddCommand(storageAdd(a), storageRemove(a), storageList(a), disk)
	return c
}

func storageAdd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "add NAME", Short: "Add a storage template without disks (see disk add)", Args: cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			_, err := api.CreateStorageTemplate(ctx, wire.StorageTemplateRequest{Name: args[0]})
			return cli.Done(err, "Added new storage template %q.", args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func storageRemove(a *cli.App) *cobra.Command {
	return a.Removal("remove NAME", "Remove a storage template", "Remove storage template %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return cli.Done(api.DeleteStorageTemplate(ctx, args[0]), "Removed storage template %q.", args[0])
		}, cli.StorageTemplates)
}

// storageList returns the command that lists storage templates, one line per disk.
func storageList(a *cli.App) *cobra.Command {
	return cli.MatchingCommand(a, "storage templates", "no storage templates yet: seedbed provisioner template storage add NAME",
		(*client.Client).StorageTemplates,
		[]string{"name", "id", "disk", "pool", "source volume", "size [gb]", "filesystem", "arguments", "mountpoint"},
		func(t wire.StorageTemplate) []string {
			row := make([]string, 9)
			row[0], row[1] = t.Name, strconv.FormatInt(t.ID, 10)
			for i, d := range t.Disks {
				size := ""
				if d.Size > 0 {
					size = strconv.FormatInt(int64(d.Size/seedbed.GiB), 10)
				}
				for column, s := range []string{
					d.Name, d.Pool, orDash(d.Source), orDash(size), orDash(d.Filesystem), orDash(strings.Join(d.FilesystemArgs, " ")), orDash(d.Mountpoint),
				} {
					if i > 0 {
						row[column+2] += "\n"
					}
					row[column+2] += s
				}
			}
			return row
		})
}

// maxGB bounds the size of a disk, so that it can be multiplied. The server decides which sizes are
// valid.
const maxGB = 1 << 30

func diskAdd(a *cli.App) *cobra.Command {
	var (
		d    seedbed.CatalogueDisk
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
			sized := c.Flags().Changed("size")
			if sized && (size < 1 || size > maxGB) {
				return "", seedbed.Errorf(seedbed.ErrInvalid, "disk_size is %d: want 1 to %d GB", size, maxGB)
			}
			if d.Source != "" && (sized || d.Filesystem != "" || d.Mountpoint != "") {
				return "", cli.Usagef("--source-volume cannot be used with --size, --filesystem or --mountpoint: a clone has the size and content of its image")
			}
			if d.Filesystem == "" && (len(args) > 0 || d.Mountpoint != "") {
				return "", cli.Usagef("--fsarg and --mountpoint need --filesystem")
			}
			d.Name, d.Size, d.FilesystemArgs = names[1], seedbed.Bytes(size)*seedbed.GiB, dashed(args)
			_, err := api.AddTemplateDisk(ctx, names[0], d)
			return cli.Done(err, "Added new disk %q to storage template %q.", names[1], names[0])
		}),
		ValidArgsFunction: a.Completion(cli.StorageTemplates, cli.NoNames),
	}
	f := c.Flags()
	f.StringVarP(&d.Pool, "pool", "p", "", "storage `POOL` of the disk")
	f.StringVarP(&d.Source, "source-volume", "i", "", "`IMAGE` to clone it from")
	f.IntVarP(&size, "size", "s", 0, "size of a blank disk in `GB` (GiB)")
	f.StringVarP(&d.Filesystem, "filesystem", "f", "", "`FILESYSTEM` of a blank disk")
	f.StringArrayVar(&args, "fsarg", nil, "argument of mkfs as `KEY=VALUE`, without dashes (repeatable)")
	f.StringVarP(&d.Mountpoint, "mountpoint", "m", "", "`PATH` at which the script mounts the filesystem")
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
			return cli.Done(api.RemoveTemplateDisk(ctx, args[0], args[1]), "Removed disk %q from storage template %q.", args[1], args[0])
		}, cli.StorageTemplates, cli.TemplateDisks)
}
