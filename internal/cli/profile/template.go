package profile

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// TemplateCommand returns the command template with its subcommands.
func TemplateCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "template", Aliases: []string{"templates"}, Short: "Manage templates of hardware, NICs and disks"})
	system := cli.Group(&cobra.Command{Use: "system", Short: "Virtual hardware"})
	system.AddCommand(systemAdd(a), systemModify(a), systemRemove(a), systemList(a))
	c.AddCommand(system, networkTemplateCmd(a), storageTemplateCmd(a))
	return c
}

// systemFlags are the flags of system templates.
type systemFlags struct {
	vcpus, vram                   int
	serial, vnc                   cli.SwitchFlag
	vncBind, nodeLimit            string
	nodeSelector, migrationMethod string
	nodeAutostart                 bool
	maxDowntime                   int
	diskBus                       string
	diskCopy                      bool
}

const defaultMaxDowntime = 300 // milliseconds, the default of libvirt and PVC

// add adds the flags. downtime is the default of --max-downtime.
func (s *systemFlags) add(c *cobra.Command, downtime int) {
	f := c.Flags()
	f.IntVarP(&s.vcpus, "vcpus", "u", 0, "number of virtual `CPUS`")
	f.IntVarP(&s.vram, "vram", "m", 0, "memory in `MB` (MiB)")
	s.serial.Add(c, "serial", "s", "S", "a serial console", false)
	s.vnc.Add(c, "vnc", "n", "N", "a VNC console", false)
	f.StringVarP(&s.vncBind, "vnc-bind", "b", "", "`ADDRESS` that VNC listens on instead of localhost")
	f.StringVar(&s.nodeLimit, "node-limit", "", "allowed `NODES`, separated by commas")
	cli.AddChoice(c, &s.nodeSelector, "node-selector", "", "how a node is chosen; none: as the installation does",
		"mem", "memprov", "vcpus", "vms", "load", "none")
	f.BoolVar(&s.nodeAutostart, "node-autostart", false, "start instances when their node starts")
	cli.AddChoice(c, &s.migrationMethod, "migration-method", "", "how instances move between nodes", "none", "live", "shutdown")
	cli.AddChoice(c, &s.diskBus, "disk-bus", "", "how disks are attached: each by itself, or all to one controller", "virtio", "scsi")
	f.BoolVar(&s.diskCopy, "disk-copy", false, "copy disks completely from their images instead of cloning")
	f.IntVar(&s.maxDowntime, "max-downtime", downtime, "`MILLISECONDS` that a live migration may pause an instance")
}

// apply sets the fields of t for which flags were given, and reports whether there were any.
func (s *systemFlags) apply(c *cobra.Command, t *seedbed.CatalogueSystem) (given bool) {
	set := func(name string, do func()) {
		if c.Flags().Changed(name) {
			do()
			given = true
		}
	}
	set("vcpus", func() { t.VCPUs = s.vcpus })
	set("vram", func() { t.Memory = seedbed.Bytes(s.vram) * seedbed.MiB })
	set("vnc-bind", func() { t.VNCBind = s.vncBind })
	set("node-limit", func() { t.NodeLimit = words(s.nodeLimit) })
	set("node-selector", func() { t.NodeSelector = strings.TrimPrefix(s.nodeSelector, "none") })
	set("node-autostart", func() { t.NodeAutostart = s.nodeAutostart })
	set("migration-method", func() { t.MigrationMethod = s.migrationMethod })
	set("max-downtime", func() { t.MigrationDowntime = int64(s.maxDowntime) })
	set("disk-bus", func() { t.DiskBus = s.diskBus })
	set("disk-copy", func() { t.DiskCopy = s.diskCopy })
	for to, on := range map[*bool]*bool{&t.Serial: s.serial.Said(c, "serial"), &t.VNC: s.vnc.Said(c, "vnc")} {
		if on != nil {
			*to, given = *on, true
		}
	}
	return given
}

func systemAdd(a *cli.App) *cobra.Command {
	var (
		flags systemFlags
		c     *cobra.Command
	)
	c = &cobra.Command{
		Use: "add NAME --vcpus CPUS --vram MB", Short: "Add a system template", Args: cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			t := seedbed.CatalogueSystem{Name: args[0], MigrationDowntime: int64(flags.maxDowntime)}
			flags.apply(c, &t)
			_, err := api.CreateSystemTemplate(ctx, t)
			return cli.Done(err, "Added new system template %q.", args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags.add(c, defaultMaxDowntime)
	for _, name := range []string{"vcpus", "vram"} {
		_ = c.MarkFlagRequired(name) // the flag was added above
	}
	return c
}

func systemModify(a *cli.App) *cobra.Command {
	var (
		flags systemFlags
		c     *cobra.Command
	)
	c = &cobra.Command{
		Use: "modify NAME", Short: "Change a system template; existing instances are not affected", Args: cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			if !flags.apply(c, &seedbed.CatalogueSystem{}) {
				return "", cli.Usagef("modify %s: nothing to change is given: add a flag such as --vcpus 4", args[0])
			}
			t, err := api.SystemTemplate(ctx, args[0])
			if err != nil {
				return "", err
			}
			flags.apply(c, &t.CatalogueSystem)
			_, err = api.ChangeSystemTemplate(ctx, t)
			return cli.Done(err, "Modified system template %q.", args[0])
		}),
		ValidArgsFunction: a.Completion(cli.SystemTemplates),
	}
	flags.add(c, 0)
	return c
}

func systemRemove(a *cli.App) *cobra.Command {
	return a.Removal("remove NAME", "Remove a system template", "Remove system template %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return cli.Done(api.DeleteSystemTemplate(ctx, args[0]), "Removed system template %q.", args[0])
		}, cli.SystemTemplates)
}

func systemList(a *cli.App) *cobra.Command {
	return cli.MatchingCommand(a, "system templates", "no system templates yet: seedbed provisioner template system add NAME -u CPUS -m MB",
		(*client.Client).SystemTemplates,
		[]string{"name", "id", "vcpus", "vram [mb]", "serial", "vnc", "vnc bind", "node limit", "selector", "autostart", "migration", "downtime [ms]", "disk bus", "copied"},
		func(t wire.SystemTemplate) []string {
			return []string{
				t.Name, strconv.FormatInt(t.ID, 10), strconv.Itoa(t.VCPUs), strconv.FormatInt(int64(t.Memory/seedbed.MiB), 10), cli.YesNo(t.Serial), cli.YesNo(t.VNC),
				orDash(t.VNCBind), orDash(strings.Join(t.NodeLimit, ",")), orDash(t.NodeSelector), cli.YesNo(t.NodeAutostart), orDash(t.MigrationMethod),
				strconv.FormatInt(t.MigrationDowntime, 10), cmp.Or(t.DiskBus, seedbed.BusVirtio), cli.YesNo(t.DiskCopy),
			}
		})
}

// words returns the items of a comma-separated list.
func words(s string) []string {
	var all []string
	for w := range strings.SplitSeq(s, ",") {
		if w = strings.TrimSpace(w); w != "" {
			all = append(all, w)
		}
	}
	return all
}

// orDash returns s, or a dash if s is empty.
func orDash(s string) string { return cmp.Or(s, "-") }
