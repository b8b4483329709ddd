package instance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

func vmSet(a *cli.App) *cobra.Command {
	var (
		change seedbed.HardwareChange
		dry    bool
		w      cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "set VM", Short: "Change what an instance boots from, its console, its screen, its restart or its placement",
		Long: `Change what an instance boots from, whether it has a serial console and a screen, and
whether it starts with its node, or on another one if its own is fenced, and in which
placement group it is. The guest of a
running instance gets a change of what it boots from, of its console and of its screen
when it is started again, as by seedbed vm reboot. Until then, seedbed vm show has it as
pending. A rebuild by the same profile keeps what was set. Other commands change the
rest: vm resize, vm cdrom, vm nic, volume attach, vm options, vm tag.`,
		Example: "  seedbed vm set web1 --boot disk\n  seedbed vm set web1 --vnc --vnc-bind 192.0.2.7 --dry-run",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if change == (seedbed.HardwareChange{}) {
				return cli.Usagef("set %s: what is to change is missing: give --boot, --serial, --vnc, --vnc-bind, "+
					"--autostart, --restart, --restart-priority or --placement-group", args[0])
			}
			return changeHardware(ctx, a, api, &w, args[0], change, dry)
		}),
		ValidArgsFunction: a.Completion(cli.Instances, cli.NoNames),
	}
	a.Fill(c, &change,
		cli.Flag{Field: "boot_from", Name: "boot", Usage: "`SOURCE` that it boots from: disk, or network, by its first NIC, or " +
			"cdrom, and then the disk"},
		cli.Flag{Field: "serial", Usage: "give it a serial console; --serial=false takes it away"},
		cli.Flag{Field: "vnc", Usage: "give it a screen; --vnc=false takes it away"},
		cli.Flag{Field: "vnc_bind", Usage: "`ADDRESS` of its node on which the screen listens (default: the loopback)"},
		cli.Flag{Field: "autostart", Usage: "start it with its node; --autostart=false does not"},
		cli.Flag{Field: "restart", Usage: "`WHEN` to start it on another node: always if its own is fenced, or never"},
		cli.Flag{Field: "restart_priority", Usage: "`NUMBER` by which instances of a fenced node are started, the highest first"},
		cli.Flag{Field: "placement_group", Names: cli.PlacementGroups,
			Usage: "placement `GROUP` that it is to be in; an empty one takes it out of its own"},
	)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would change and when, and what prevents it")
	w.AddJob(a, c)
	return c
}

// changeHardware changes the hardware of an instance, or shows what would change.
func changeHardware(
	ctx context.Context, a *cli.App, api *client.Client, w *cli.WaitFlags, name string, change seedbed.HardwareChange, dry bool,
) error {
	if dry {
		return a.ShowPlan(api.PlanSetHardware(ctx, name, change))
	}
	receipt, err := api.SetHardware(ctx, name, change)
	return a.Finish(ctx, api, w, receipt, err)
}

// vmCDROM returns the command cdrom with its subcommands.
func vmCDROM(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "cdrom", Short: "Manage the ISO image in the CD-ROM drive of an instance, even while it runs"})
	c.AddCommand(cdromList(a), cdromInsert(a), cdromEject(a))
	return c
}

func cdromList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: a.Completion(cli.Instances, cli.NoNames),
		Use:               "list VM", Short: "List what is in the CD-ROM drive of an instance",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			i, err := api.Instance(ctx, args[0])
			if err != nil {
				return err
			}
			type inserted struct {
				Image   string `json:"image"`
				Pending bool   `json:"pending"`
			}
			all, rows := []inserted{}, [][]string{}
			if i.CDROM != "" {
				one := inserted{i.CDROM, slices.Contains(i.Pending, "cdrom")}
				state := "inserted"
				if one.Pending {
					state = "pending: the guest sees it when it is started again"
				}
				all, rows = append(all, one), append(rows, []string{i.CDROM, state})
			}
			return a.ShowTable(all, []string{"image", "state"}, rows, "the CD-ROM drive of "+args[0]+" is empty")
		}),
	}
}

func cdromInsert(a *cli.App) *cobra.Command {
	var (
		change seedbed.HardwareChange
		dry    bool
		w      cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "insert VM IMAGE", Short: "Insert an ISO image into the CD-ROM drive of an instance",
		Long: `Insert an ISO image into the CD-ROM drive of an instance, in place of the one that is in
it. IMAGE was imported from an ISO: seedbed image add or upload recognises one. The guest
of a running instance sees it at once if it has a CD-ROM drive. Otherwise it gets the
drive when it is started again. The drive is read-only, and an image that is in a drive
cannot be removed.`,
		Example: "  seedbed vm cdrom insert web1 debian-iso",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			change.CDROM = &args[1]
			return changeHardware(ctx, a, api, &w, args[0], change, dry)
		}),
		ValidArgsFunction: a.Completion(cli.Instances, cli.Images),
	}
	addForce(c, &change, &dry)
	w.AddJob(a, c)
	return c
}

func cdromEject(a *cli.App) *cobra.Command {
	var (
		change seedbed.HardwareChange
		dry    bool
		w      cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "eject VM", Short: "Eject the ISO image from the CD-ROM drive of an instance",
		Long: `Eject the ISO image from the CD-ROM drive of an instance. A guest that has mounted it has
locked the drive: unmount it there first, or give --force.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			change.CDROM = new(string)
			return changeHardware(ctx, a, api, &w, args[0], change, dry)
		}),
		ValidArgsFunction: a.Completion(cli.Instances, cli.NoNames),
	}
	addForce(c, &change, &dry)
	w.AddJob(a, c)
	return c
}

func addForce(c *cobra.Command, change *seedbed.HardwareChange, dry *bool) {
	c.Flags().BoolVar(&change.Force, "force", false, "open the drive even if the guest has locked it")
	c.Flags().BoolVar(dry, "dry-run", false, "only show what would change and when, and what prevents it")
}

// pendingLine returns what of an instance its guest gets only when it is started again.
func pendingLine(i seedbed.Instance) string {
	if len(i.Pending) == 0 {
		return ""
	}
	return strings.Join(i.Pending, ", ") + ": at the next start"
}

// screenLine says where a screen listens.
func screenLine(s seedbed.System) string { return "vnc on " + cmp.Or(s.VNCBind, "127.0.0.1") }

// restartLine says whether an instance is started on another node, and when.
func restartLine(s seedbed.System) string {
	if s.Restart == "" {
		return ""
	}
	return s.Restart + cli.When(s.Priority != 0, fmt.Sprintf(", priority %d", s.Priority))
}
