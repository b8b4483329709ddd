package cli

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

func (a *App) TemplateCommand() *cobra.Command {
	c := Group(&cobra.Command{Use: "template", Aliases: []string{"templates"}, Short: "Virtual hardware, NICs and disks"})
	system := Group(&cobra.Command{Use: "system", Short: "Virtual hardware"})
	system.AddCommand(a.systemAdd(), a.systemModify(), a.systemRemove(), a.systemList())
	c.AddCommand(system, a.networkTemplateCmd(), a.storageTemplateCmd())
	return c
}

// systemFlags are the options of system templates.
type systemFlags struct {
	vcpus, vram                   int
	serial, vnc                   SwitchFlag
	vncBind, nodeLimit            string
	nodeSelector, migrationMethod string
	nodeAutostart                 bool
	maxDowntime                   int
	diskBus                       string
	diskCopy                      bool
}

const defaultMaxDowntime = 300 // milliseconds, as libvirt's and PVC's

// add adds the flags; downtime is the default of --max-downtime.
func (s *systemFlags) add(c *cobra.Command, downtime int) {
	f := c.Flags()
	f.IntVarP(&s.vcpus, "vcpus", "u", 0, "virtual `CPUs`")
	f.IntVarP(&s.vram, "vram", "m", 0, "memory in `MB` (MiB)")
	s.serial.Add(c, "serial", "s", "S", "a serial console", false)
	s.vnc.Add(c, "vnc", "n", "N", "a VNC console", false)
	f.StringVarP(&s.vncBind, "vnc-bind", "b", "", "`address` that VNC listens on instead of localhost")
	f.StringVar(&s.nodeLimit, "node-limit", "", "`nodes` that may run it, separated by commas")
	addChoice(c, &s.nodeSelector, "node-selector", "", "how a node is chosen, none by the installation's way",
		"mem", "memprov", "vcpus", "vms", "load", "none")
	f.BoolVar(&s.nodeAutostart, "node-autostart", false, "start it when its node starts")
	addChoice(c, &s.migrationMethod, "migration-method", "", "how it changes nodes", "none", "live", "shutdown")
	addChoice(c, &s.diskBus, "disk-bus", "", "how its disks are attached: each by itself, or all to one controller", "virtio", "scsi")
	f.BoolVar(&s.diskCopy, "disk-copy", false, "copy its disks whole from their images, where they would be clones")
	f.IntVar(&s.maxDowntime, "max-downtime", downtime, "`milliseconds` that a live migration may stop it for")
}

// request is what was said.
func (s *systemFlags) request(c *cobra.Command) client.SystemTemplateRequest {
	return client.SystemTemplateRequest{
		VCPUs: given(c, "vcpus", s.vcpus), VRAM: given(c, "vram", s.vram), Serial: s.serial.said(c, "serial"), VNC: s.vnc.said(c, "vnc"),
		VNCBind: given(c, "vnc-bind", s.vncBind), NodeLimit: given(c, "node-limit", s.nodeLimit), NodeSelector: given(c, "node-selector", s.nodeSelector),
		NodeAutostart: given(c, "node-autostart", s.nodeAutostart), MigrationMethod: given(c, "migration-method", s.migrationMethod),
		MigrationMaxDowntime: given(c, "max-downtime", s.maxDowntime), DiskBus: given(c, "disk-bus", s.diskBus), DiskCopy: given(c, "disk-copy", s.diskCopy),
	}
}

func (a *App) systemAdd() *cobra.Command {
	var (
		flags systemFlags
		c     *cobra.Command
	)
	c = &cobra.Command{
		Use: "add NAME --vcpus CPUS --vram MB", Short: "Make a system template", Args: cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			r := flags.request(c)
			r.Serial, r.VNC, r.MigrationMaxDowntime = new(flags.serial.Wanted()), new(flags.vnc.Wanted()), &flags.maxDowntime
			return api.AddSystemTemplate(ctx, args[0], r)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags.add(c, defaultMaxDowntime)
	for _, name := range []string{"vcpus", "vram"} {
		_ = c.MarkFlagRequired(name) // the flag exists: it was added above
	}
	return c
}

func (a *App) systemModify() *cobra.Command {
	var (
		flags systemFlags
		c     *cobra.Command
	)
	c = &cobra.Command{
		Use: "modify NAME", Short: "Change what is said of a system template; instances stay as they are", Args: cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			r := flags.request(c)
			if r == (client.SystemTemplateRequest{}) {
				return "", Usagef("modify %s: say what is to change, such as --vcpus 4", args[0])
			}
			return api.ChangeSystemTemplate(ctx, args[0], r)
		}),
		ValidArgsFunction: a.Completion(systemTemplates),
	}
	flags.add(c, 0)
	return c
}

func (a *App) systemRemove() *cobra.Command {
	return a.Removal("remove NAME", "Remove a system template", "Remove system template %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return api.RemoveSystemTemplate(ctx, args[0])
		}, systemTemplates)
}

func (a *App) systemList() *cobra.Command {
	return MatchingCommand(a, "system templates", "no system templates yet: seedbed provisioner template system add NAME -u CPUS -m MB",
		(*client.Client).SystemTemplates,
		[]string{"name", "id", "vcpus", "vram [mb]", "serial", "vnc", "vnc bind", "node limit", "selector", "autostart", "migration", "downtime [ms]", "disk bus", "copied"},
		func(t client.SystemTemplate) []string {
			return []string{
				t.Name, strconv.FormatInt(t.ID, 10), strconv.Itoa(t.VCPUs), strconv.FormatInt(t.VRAM, 10), YesNo(t.Serial), YesNo(t.VNC),
				orDash(t.VNCBind), orDash(t.NodeLimit), orDash(t.NodeSelector), YesNo(t.NodeAutostart), orDash(t.MigrationMethod), orDash(t.MigrationMaxDowntime), cmp.Or(t.DiskBus, seedbed.BusVirtio), YesNo(t.DiskCopy),
			}
		})
}
