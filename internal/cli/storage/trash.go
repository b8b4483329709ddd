package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// TrashCommand returns the command trash with its subcommands.
func TrashCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "trash", Short: "Manage removed disks that can still be restored",
		Long: `Manage removed disks that can still be restored. If the pool's configuration sets
trash, the disks of a removed instance are kept for that time and then purged by the
cleanup.`,
	})
	c.AddCommand(trashList(a), trashRestore(a), trashDiscard(a), trashPurge(a))
	return c
}

func trashList(a *cli.App) *cobra.Command {
	return cli.Resource[wire.TrashItem]{
		Some: cli.Selected((*client.Client).ListTrash),
		Filters: []cli.Filter{
			cli.EveryNodeFilter(), cli.WordFilter("state", "only in this `STATE`", []seedbed.TrashState{seedbed.Trashed, seedbed.Restored}),
			{Name: "pool", Usage: "only in this `POOL`"}, {Name: "instance", Usage: "only disks of the former instance `NAME`"},
		},
		None: "the trash is empty", Unmatched: "no matching disks",
		Head: []string{"id", "state", "instance", "project", "volume", "pool", "node", "size", "removed", "purged"},
		Row: func(i wire.TrashItem) []string {
			return []string{
				i.ID, string(i.State), i.InstanceName, i.Project, i.Name, i.Pool, i.Node, cli.Size(i.Size), a.Ago(i.Removed), a.Ago(i.Expires),
			}
		},
	}.List(a, "list", "List removed and restored disks")
}

// trashed returns the item with that ID in the trash of any pool, on one node or, if node is empty,
// on all. It returns ErrConflict if there are several.
func trashed(ctx context.Context, a *cli.App, api *client.Client, node, id string) (wire.TrashItem, error) {
	items, err := api.Trash(ctx, node)
	if err != nil {
		return wire.TrashItem{}, err
	}
	items = slices.DeleteFunc(items, func(i wire.TrashItem) bool { return i.ID != id || i.State != seedbed.Trashed })
	switch len(items) {
	case 0:
		return wire.TrashItem{}, seedbed.Errorf(seedbed.ErrNotFound, "%q is not in the trash: see seedbed trash list", id)
	case 1:
		return items[0], nil
	}
	in := cli.Each(items, func(i wire.TrashItem) string {
		if i.Node == "" {
			return "pool " + i.Pool
		}
		return "pool " + i.Pool + " of node " + i.Node
	})
	return wire.TrashItem{}, seedbed.Errorf(seedbed.ErrConflict,
		"%q is in the trash of %s: choose one with --node", id, strings.Join(in, " and "))
}

func trashRestore(a *cli.App) *cobra.Command {
	node := ""
	c := &cobra.Command{
		Use: "restore ID", Short: "Restore a disk from the trash",
		Long: `Restore a disk from the trash as a volume with its old name. No instance owns it: you
can copy its data, and import the copy as an image. The cleanup does not remove it; to
put it back into the trash, use seedbed trash discard POOL/VOLUME.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			item, err := trashed(ctx, a, api, node, args[0])
			if err != nil {
				return err
			}
			v, err := api.RestoreVolume(ctx, cmp.Or(item.Node, node), item.Pool, item.ID)
			return a.Tell(err, v, "%s", cli.Printable(restored(v, item)))
		}),
		ValidArgsFunction: a.Completion(trashIDs),
	}
	cli.OnNode(c, &node)
	return c
}

// restored returns the hint about what to do with a restored volume.
func restored(v seedbed.VolumeInfo, item wire.TrashItem) string {
	instance, where := item.InstanceName, "the worker's host"
	if item.Node != "" {
		where = "node " + item.Node
	}
	name := cmp.Or(instance, "rescued")
	copying := fmt.Sprintf("qemu-img convert -O qcow2 %s %s.qcow2", v.Disk.Source, name)
	if v.Disk.Type == "rbd" {
		copying = fmt.Sprintf("rbd export %s %s.raw", v.Disk.Source, name)
	}
	if v.Disk.Source == "" { // only callers from the default project are told where it is
		return fmt.Sprintf("volume %s is restored in pool %s, and stays until you discard it (seedbed trash discard %s/%s).\n"+
			"An admin of the installation can copy its data out.", v.Name, v.Pool, v.Pool, v.Name)
	}
	whose := cli.When(instance != "", ", formerly a disk of "+instance+",")
	lines := [][2]string{
		{"copy its data out, on " + where + ":", copying},
		{"boot from it again:", "seedbed image add NAME FILE, and a profile with that image"},
		{"when you no longer need it:", "seedbed trash discard " + v.Pool + "/" + v.Name},
	}
	width := 0
	for _, l := range lines {
		width = max(width, len(l[0]))
	}
	text := fmt.Sprintf("volume %s%s is restored in pool %s. No instance owns it; it stays until you discard it.", v.Name, whose, v.Pool)
	for _, l := range lines {
		text += fmt.Sprintf("\n%-*s  %s", width, l[0], l[1])
	}
	return text
}

func trashDiscard(a *cli.App) *cobra.Command {
	var yes bool
	node := ""
	c := &cobra.Command{
		Use: "discard POOL/VOLUME", Short: "Put a restored volume back into the trash",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			pool, name, ok := strings.Cut(args[0], "/")
			if !ok {
				return cli.Usagef("%q: expected POOL/VOLUME, as seedbed trash restore prints it", args[0])
			}
			if err := a.Sure(yes, "discard "+args[0], "A pool without a trash deletes it immediately."); err != nil {
				return err
			}
			item, err := api.DiscardVolume(ctx, node, pool, name)
			switch {
			case err != nil:
				return err
			case a.JSON():
				return a.PrintJSON(item)
			case item == nil:
				a.Say("volume %s is deleted: pool %s has no trash", name, pool)
			default:
				a.Say("volume %s is in the trash as %s; it is purged %s", name, item.ID, a.Ago(item.Expires))
			}
			return nil
		}),
		ValidArgsFunction: a.Completion(restoredVolumes),
	}
	cli.AddYes(c, &yes)
	c.Flags().StringVar(&node, "node", "", "`NODE` of the volume, if several nodes have one of that name")
	return c
}

func trashPurge(a *cli.App) *cobra.Command {
	var yes, all bool
	node := ""
	c := &cobra.Command{
		Use: "purge [ID]", Short: "Permanently delete disks in the trash",
		Long: `Permanently delete one disk, or with --all every disk, that is in the trash, before
its time. Restored volumes stay.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) (err error) {
			if all == (len(args) == 1) {
				return cli.Usagef("nothing to purge is named: give an ID, or --all")
			}
			var items []wire.TrashItem
			if all {
				if items, err = api.Trash(ctx, node); err != nil {
					return err
				}
			} else {
				one, err := trashed(ctx, a, api, node, args[0])
				if err != nil {
					return err
				}
				items = append(items, one)
			}
			return purge(ctx, a, api, node, items, yes)
		}),
		ValidArgsFunction: a.Completion(trashIDs),
	}
	cli.AddYes(c, &yes)
	c.Flags().BoolVar(&all, "all", false, "all disks in the trash")
	cli.OnNode(c, &node)
	return c
}

func purge(ctx context.Context, a *cli.App, api *client.Client, node string, items []wire.TrashItem, yes bool) error {
	due := slices.DeleteFunc(items, func(i wire.TrashItem) bool { return i.State != seedbed.Trashed })
	if len(due) == 0 {
		a.Say("the trash is empty")
		return nil
	}
	if err := a.Sure(yes, fmt.Sprintf("permanently delete %d disk(s)", len(due)), "Their data is lost."); err != nil {
		return err
	}
	for _, i := range due {
		if err := api.PurgeVolume(ctx, cmp.Or(i.Node, node), i.Pool, i.ID); err != nil {
			return err
		}
		a.Say("%s (%s of pool %s) is purged", i.ID, i.Name, i.Pool)
	}
	return nil
}

// trashIDs lists the IDs of the items in the trash.
func trashIDs(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Trash(ctx, "")
	all = slices.DeleteFunc(all, func(i wire.TrashItem) bool { return i.State != seedbed.Trashed })
	return cli.Each(all, func(i wire.TrashItem) string { return i.ID }), err
}

// restoredVolumes lists the volumes that were restored from the trash, as POOL/VOLUME.
func restoredVolumes(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Trash(ctx, "")
	all = slices.DeleteFunc(all, func(i wire.TrashItem) bool { return i.State != seedbed.Restored })
	return cli.Each(all, func(i wire.TrashItem) string { return i.Pool + "/" + i.Name }), err
}
