package profile

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
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

// request returns the request with the values of the given flags.
func (s *systemFlags) request(c *cobra.Command) client.SystemTemplateRequest {
	return client.SystemTemplateRequest{
		VCPUs: cli.Given(c, "vcpus", s.vcpus), VRAM: cli.Given(c, "vram", s.vram), Serial: s.serial.Said(c, "serial"), VNC: s.vnc.Said(c, "vnc"),
		VNCBind: cli.Given(c, "vnc-bind", s.vncBind), NodeLimit: cli.Given(c, "node-limit", s.nodeLimit), NodeSelector: cli.Given(c, "node-selector", s.nodeSelector),
		NodeAutostart: cli.Given(c, "node-autostart", s.nodeAutostart), MigrationMethod: cli.Given(c, "migration-method", s.migrationMethod),
		MigrationMaxDowntime: cli.Given(c, "max-downtime", s.maxDowntime), DiskBus: cli.Given(c, "disk-bus", s.diskBus), DiskCopy: cli.Given(c, "disk-copy", s.diskCopy),
	}
}

func systemAdd(a *cli.App) *cobra.Command {
	var (
		flags systemFlags
		c     *cobra.Command
	)
	c = &cobra.Command{
		Use: "add NAME --vcpus CPUS --vram MB", Short: "Add a system template", Args: cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			r := flags.request(c)
			r.Serial, r.VNC, r.MigrationMaxDowntime = new(flags.serial.Wanted()), new(flags.vnc.Wanted()), &flags.maxDowntime
			return api.AddSystemTemplate(ctx, args[0], r)
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
			r := flags.request(c)
			if r == (client.SystemTemplateRequest{}) {
				return "", cli.Usagef("modify %s: nothing to change is given: add a flag such as --vcpus 4", args[0])
			}
			return api.ChangeSystemTemplate(ctx, args[0], r)
		}),
		ValidArgsFunction: a.Completion(cli.SystemTemplates),
	}
	flags.add(c, 0)
	return c
}

func systemRemove(a *cli.App) *cobra.Command {
	return a.Removal("remove NAME", "Remove a system template", "Remove system template %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return api.RemoveSystemTemplate(ctx, args[0])
		}, cli.SystemTemplates)
}

func systemList(a *cli.App) *cobra.Command {
	return cli.MatchingCommand(a, "system templates", "no system templates yet: seedbed provisioner template system add NAME -u CPUS -m MB",
		(*client.Client).SystemTemplates,
		[]string{"name", "id", "vcpus", "vram [mb]", "serial", "vnc", "vnc bind", "node limit", "selector", "autostart", "migration", "downtime [ms]", "disk bus", "copied"},
		func(t client.SystemTemplate) []string {
			return []string{
				t.Name, strconv.FormatInt(t.ID, 10), strconv.Itoa(t.VCPUs), strconv.FormatInt(t.VRAM, 10), cli.YesNo(t.Serial), cli.YesNo(t.VNC),
				cli.OrDash(t.VNCBind), cli.OrDash(t.NodeLimit), cli.OrDash(t.NodeSelector), cli.YesNo(t.NodeAutostart), cli.OrDash(t.MigrationMethod), cli.OrDash(t.MigrationMaxDowntime), cmp.Or(t.DiskBus, seedbed.BusVirtio), cli.YesNo(t.DiskCopy),
			}
		})
}
