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
	system.AddCommand(systemAdd(a), systemSet(a),
		removal(a, "system template", (*client.Client).DeleteSystemTemplate, cli.SystemTemplates), systemList(a))
	c.AddCommand(system, networkTemplateCmd(a), storageTemplateCmd(a))
	return c
}

// removal returns a command that removes an object. label is the messages' word for it.
func removal(a *cli.App, label string, remove func(*client.Client, context.Context, string) error, names cli.NameLister) *cobra.Command {
	return a.Removal("remove NAME", "Remove a "+label, "Remove "+label+" %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			return cli.Done(remove(api, ctx, args[0]), "Removed %s %q.", label, args[0])
		}, names)
}

const defaultMaxDowntime = 300 // milliseconds, the default of libvirt and PVC

// systemFlags are the flags of system templates.
func systemFlags() []cli.Flag {
	return []cli.Flag{
		{Field: "vcpus", Short: "u", Usage: "number of virtual `CPUS`"},
		{Field: "memory", Name: "vram", Short: "m", Usage: "memory `SIZE`, such as 2GiB; a number alone is in MiB", Parse: mebibytes},
		{Field: "serial", Short: "s", Off: "S", Usage: "a serial console"},
		{Field: "vnc", Short: "n", Off: "N", Usage: "a VNC console"},
		{Field: "vnc_bind", Short: "b", Usage: "`ADDRESS` that VNC listens on instead of localhost"},
		{Field: "node_limit", Usage: "allowed `NODES`, separated by commas", ParseAll: words},
		{
			Field: "node_selector", Usage: "`SELECTOR` that chooses the node, where none stands for the installation's",
			Words: []string{"mem", "memprov", "vcpus", "vms", "load", "none"},
			Parse: func(word string) (any, error) { return strings.TrimPrefix(word, "none"), nil },
		},
		{Field: "node_autostart", Usage: "start instances when their node starts"},
		{Field: "migration_method", Usage: "`METHOD` by which instances move between nodes", Words: []string{"none", "live", "shutdown"}},
		{Field: "migration_max_downtime", Name: "max-downtime", Usage: "`MILLISECONDS` that a live migration may pause an instance"},
		{Field: "disk_bus", Usage: "`BUS` of the disks, each a device of its own or all at one controller", Words: []string{"virtio", "scsi"}},
		{Field: "disk_copy", Usage: "copy disks completely from their images instead of cloning"},
	}
}

// mebibytes reads a size. A number without a unit is in MiB, as in PVC's client.
func mebibytes(text string) (any, error) {
	exact := text
	if _, err := strconv.Atoi(text); err == nil {
		exact += "MiB"
	}
	size, err := seedbed.ParseBytes(exact)
	if err != nil || size%seedbed.MiB != 0 {
		return nil, cli.Usagef("--vram %q: expected a size in whole MiB, such as 2GiB, or a number of MiB", text)
	}
	return size, nil
}

// words returns the items of a list, without white space around them and empty ones.
func words(texts []string) (any, error) {
	var all []string
	for _, w := range texts {
		if w = strings.TrimSpace(w); w != "" {
			all = append(all, w)
		}
	}
	return all, nil
}

func systemAdd(a *cli.App) *cobra.Command {
	t := seedbed.CatalogueSystem{MigrationDowntime: defaultMaxDowntime}
	c := &cobra.Command{
		Use: "add NAME --vcpus CPUS --vram SIZE", Short: "Add a system template",
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			t.Name = args[0]
			_, err := api.CreateSystemTemplate(ctx, t)
			return cli.Done(err, "Added new system template %q.", args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.Fill(c, &t, systemFlags()...)
	for _, name := range []string{"vcpus", "vram"} {
		_ = c.MarkFlagRequired(name) // the flag was added above
	}
	return c
}

func systemSet(a *cli.App) *cobra.Command {
	var (
		t wire.SystemTemplate
		f *cli.Bound
	)
	c := &cobra.Command{
		Use: "set NAME", Aliases: []string{"modify"}, Short: "Change a system template; existing instances are not affected",
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (_ string, err error) {
			if !f.Given() {
				return "", cli.Usagef("set %s: nothing to change is given: add a flag such as --vcpus 4", args[0])
			}
			if t, err = api.SystemTemplate(ctx, args[0]); err != nil {
				return "", err
			}
			if err := f.Read(); err != nil {
				return "", err
			}
			_, err = api.ChangeSystemTemplate(ctx, t)
			return cli.Done(err, "Modified system template %q.", args[0])
		}),
		ValidArgsFunction: a.Completion(cli.SystemTemplates),
	}
	f = cli.Bind(a, c, &t.CatalogueSystem, systemFlags()...)
	return c
}

func systemList(a *cli.App) *cobra.Command {
	return cli.Resource[wire.SystemTemplate]{
		Some:      cli.Matching((*client.Client).SystemTemplates),
		Project:   func(v wire.SystemTemplate) string { return seedbed.ProjectOf(v.Name) },
		None:      "no system templates yet: seedbed template system add NAME -u CPUS -m SIZE",
		Unmatched: "no system templates with that name",
		Head: []string{
			"name", "id", "vcpus", "memory", "serial", "vnc", "vnc bind", "node limit", "selector", "autostart", "migration", "downtime [ms]",
			"disk bus", "copied", "published",
		},
		Row: func(t wire.SystemTemplate) []string {
			downtime := strconv.FormatInt(t.MigrationDowntime, 10)
			return []string{
				t.Name, cli.Number(int(t.ID)), strconv.Itoa(t.VCPUs), t.Memory.String(), cli.YesNo(t.Serial), cli.YesNo(t.VNC),
				orDash(t.VNCBind), orDash(strings.Join(t.NodeLimit, ",")), orDash(t.NodeSelector), cli.YesNo(t.NodeAutostart),
				orDash(t.MigrationMethod), downtime, cmp.Or(t.DiskBus, seedbed.BusVirtio), cli.YesNo(t.DiskCopy),
				cli.PublishedTo(t.Published),
			}
		},
	}.List(a, "list [LIMIT]", "List system templates")
}

// orDash returns s, or a dash if s is empty.
func orDash(s string) string { return cmp.Or(s, "-") }
