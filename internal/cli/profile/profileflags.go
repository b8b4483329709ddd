package profile

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

// profileFlags are the flags for a profile.
type profileFlags struct {
	p     *seedbed.Profile
	bound *cli.Bound
	open  bool // without declared parameters
}

// add adds the flags to c. They set the fields of p.
func (f *profileFlags) add(a *cli.App, c *cobra.Command, p *seedbed.Profile) {
	f.p = p
	f.bound = cli.Bind(a, c, p, append(append(flags.ServedFlags(a, "metadata."), f.expressions()...),
		cli.Flag{
			Field: "ssh_keys", Name: "ssh-key", Each: true, ParseAll: keys,
			Usage: "public SSH key: a `FILE` or the key itself (repeatable)",
		},
		cli.Flag{
			Field: "nics", Name: "nic", Each: true, ParseAll: nics,
			Usage: "a `NIC` in place of --network, as network=NETWORK,secondary=COUNT,secondary6=COUNT,group=GROUP,in=RATE,out=RATE, " +
				"each optional (repeatable); an empty one removes all",
		},
		cli.Flag{
			Field: "security_groups", Name: "security-group", Names: cli.SecurityGroups, ParseAll: cli.NotEmpty,
			Usage: "security `GROUPS` of NICs, separated by commas (default: the project's group default, or else open); an empty one removes all",
		},
		cli.Flag{Field: "bandwidth_in", Usage: "`RATE` at which NICs may receive that have none of their own, such as 100Mbit; 0 for no limit"},
		cli.Flag{Field: "bandwidth_out", Usage: "`RATE` at which they may send; 0 for no limit"},
		cli.Flag{
			Field: "ready", Usage: "when a create job has succeeded, as `CONDITION`: report, metadata (default) or started",
			Parse: func(text string) (any, error) { return seedbed.ParseReady(text) },
		},
		cli.Flag{
			Field: "userdata", Usage: "`MODE` of the user-data of instances: live (follow changes) or pinned (default)",
			Parse: func(text string) (any, error) { return seedbed.ParseFollow(text, p.Follow) },
		},
		cli.Flag{
			Field: "params", Usage: "YAML or JSON `FILE` that declares the parameters, or - for standard input",
			Parse: func(file string) (any, error) { return declarations(a, file) },
		},
		cli.Flag{Field: "boot_from", Name: "boot", Usage: "`SOURCE` that instances boot from: disk (default), or network, by the first NIC, " +
			"or cdrom, and then the disk"},
		cli.Flag{Field: "placement_group", Names: cli.PlacementGroups, Usage: "placement `GROUP` that instances are in; an empty one for none"},
		cli.Flag{Field: "protected", Name: "protect", Usage: "protect instances when they are created"},
		cli.Flag{Field: "hold", Usage: "define instances without starting them"},
		cli.Flag{
			Field: "on_failure",
			Usage: "what to do if a create job fails, as `POLICY`: rollback (default), keep, or retry:ATTEMPTS:FIRST-WAIT such as retry:5:30s",
		},
		cli.Flag{
			Field: "script", Names: cli.ScriptNames,
			Usage: "provisioning `SCRIPT`, which makes the disks that are to be formatted or mounted",
		},
		cli.Flag{
			Field: "arguments", Name: "argument", Each: true, ParseAll: cli.NotEmpty,
			Usage: "argument of the script as `KEY=VALUE` (repeatable); an empty one removes all",
		},
		cli.Flag{Field: "ova", Usage: "OVA `IMAGE` whose disks come first", Names: cli.OVAs},
	)...)
	c.Flags().BoolVar(&f.open, "no-params", false, "remove the declarations: a request may set any parameter that a template uses")
}

// given reports whether one of the flags was given.
func (f *profileFlags) given() bool { return f.open || f.bound.Given() }

// expressions are the flags whose text may hold expressions.
func (f *profileFlags) expressions() []cli.Flag {
	text := func(text string) (any, error) { return text, nil }
	number := func(text string) (any, error) {
		n, err := strconv.Atoi(cmp.Or(text, "0"))
		if err != nil {
			return nil, cli.Usagef("--vcpus %q: expected a number, such as 2, or an expression", text)
		}
		return n, nil
	}
	size := func(flag string) func(string) (any, error) {
		return func(text string) (any, error) {
			size, err := seedbed.ParseBytes(cmp.Or(text, "0"))
			if err != nil {
				return nil, cli.Usagef("--%s: %s", flag, err)
			}
			return size, nil
		}
	}
	all := []cli.Flag{
		{Field: "image", Usage: "`IMAGE` of the root disk", Parse: text, Names: cli.Images},
		{Field: "vcpus", Usage: "number of virtual `CPUS` (default: the system template's, or 1)", Parse: number},
		{Field: "memory", Usage: "memory `SIZE` (default: the system template's, or 1GiB)", Parse: size("memory")},
		{
			Field: "disk_size", Name: "disk", Parse: size("disk"),
			Usage: "`SIZE` of the first disk (default 10GiB with an image); 0: the image's or template's size",
		},
		{
			Field: "network", Parse: text, Names: cli.Networks,
			Usage: "`NETWORK` of its first NIC (default \"default\", or the network template's)",
		},
		{Field: "system_template", Usage: "system `TEMPLATE`", Parse: text, Names: cli.SystemTemplates},
		{Field: "network_template", Usage: "network `TEMPLATE`: further NICs", Parse: text, Names: cli.NetworkTemplates},
		{Field: "storage_template", Usage: "storage `TEMPLATE`: further disks", Parse: text, Names: cli.StorageTemplates},
		{
			Field: "userdata_document", Parse: text, Names: cli.UserdataNames,
			Usage: "userdata `DOCUMENT` that is served instead of --user-data",
		},
	}
	for i := range all {
		parse := all[i].Parse
		name := strings.ReplaceAll(cmp.Or(all[i].Name, all[i].Field), "-", "_")
		all[i].Parse = func(text string) (any, error) {
			delete(f.p.Expressions, name)
			if strings.Contains(text, "${") || strings.Contains(text, "$(") {
				if f.p.Expressions == nil {
					f.p.Expressions = map[string]string{}
				}
				f.p.Expressions[name], text = text, ""
			}
			return parse(text)
		}
	}
	return all
}

// nics parses the texts of --nic. A lone empty one means none.
func nics(texts []string) (any, error) {
	if len(texts) == 1 && texts[0] == "" {
		return []seedbed.NICRequest(nil), nil
	}
	return flags.NICs(texts)
}

func keys(texts []string) (any, error) { return flags.SSHKeys(texts) }

// fresh makes the profile a new one.
func (f *profileFlags) fresh(name string) error {
	p, said := f.p, func(flag string) bool { return f.bound.Text(flag) != "" }
	if !said("image") && !said("storage-template") && !said("ova") {
		return cli.Usagef("add %s: give --image IMAGE, or --storage-template TEMPLATE for all disks, or --ova IMAGE", name)
	}
	*p = seedbed.Profile{Name: name, SSHKeys: []string{}}
	if !said("system-template") {
		p.VCPUs, p.Memory = 1, seedbed.GiB
	}
	if said("image") && !said("script") {
		p.DiskSize = 10 * seedbed.GiB
	}
	if !said("network-template") && !said("ova") && !f.bound.Changed("nic") {
		p.Network = "default"
	}
	return f.apply()
}

// apply sets the profile's fields for which flags were given.
func (f *profileFlags) apply() error {
	if err := flags.OneStdin(f.bound); err != nil {
		return err
	}
	p := f.p
	p.Ready, p.Follow = cmp.Or(p.Ready, seedbed.ReadyMetadata), cmp.Or(p.Follow, seedbed.FollowPinned)
	if f.open {
		p.Params = nil
	}
	document := f.bound.Text("userdata-document") != ""
	switch {
	case document && f.bound.Text("user-data") == "" && len(p.UserData) > 0:
		p.UserData = nil // the document takes its place
	case !document && f.bound.Changed("user-data"):
		p.Document = ""
	}
	if err := f.bound.Read(); err != nil {
		return err
	}
	if f.bound.Changed("script") && p.Script == "" {
		p.Arguments = nil
	}
	f.either()
	var err error
	p.Datasource, err = seedbed.ParseDatasource(string(p.Datasource))
	return err
}

// either lets a network and a list of NICs take each other's place, if only one of them is given.
func (f *profileFlags) either() {
	network := f.p.Network+f.p.Expressions["network"] != "" && f.bound.Changed("network")
	switch list := len(f.p.NICs) > 0 && f.bound.Changed("nic"); {
	case network && !list:
		f.p.NICs = nil
	case list && !network:
		f.p.Network = ""
		delete(f.p.Expressions, "network")
	}
}

// declarations reads a file that declares parameters.
func declarations(a *cli.App, path string) ([]seedbed.Param, error) {
	if path == "" {
		return nil, cli.Usagef("--params is empty: give a FILE, or - for standard input")
	}
	raw, err := a.ReadArg(path, seedbed.MiB)
	if err != nil {
		return nil, err
	}
	declared := []seedbed.Param{}
	if err := yaml.UnmarshalWithOptions(raw, &declared, yaml.Strict(), yaml.UseJSONUnmarshaler()); err != nil {
		return nil, cli.Usagef("--params %s: %s", path, yaml.FormatError(err, false, true))
	}
	return declared, seedbed.CheckParams(declared)
}
