package profile

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

// profileFlags are the flags for a profile. The text flags may hold expressions.
type profileFlags struct {
	text                  map[string]*string // by the fields' names
	document, ready       string
	follow, params        string
	script, ova           string
	args                  []string
	onFailure             string
	keys                  []string
	protected, hold, open bool
	served                flags.ServedFlags
}

func (p *profileFlags) add(a *cli.App, c *cobra.Command) {
	f := c.Flags()
	p.text = map[string]*string{}
	for _, flag := range []struct{ field, name, usage string }{
		{"image", "image", "`IMAGE` of the root disk"},
		{"vcpus", "vcpus", "number of virtual `CPUS` (default: the system template's, or 1)"},
		{"memory", "memory", "memory `SIZE` (default: the system template's, or 1GiB)"},
		{"disk", "disk", "`SIZE` of the first disk (default 10GiB with an image); 0: the image's or template's size"},
		{"network", "network", "`network` of its first NIC (default \"default\", or the network template's)"},
		{"system_template", "system-template", "system `template`"},
		{"network_template", "network-template", "network `template`: further NICs"},
		{"storage_template", "storage-template", "storage `template`: further disks"},
		{"userdata_document", "userdata-document", "userdata `document` that is served, in place of --user-data"},
	} {
		p.text[flag.field] = f.String(flag.name, "", flag.usage)
	}
	f.StringArrayVar(&p.keys, "ssh-key", nil, "public SSH key: a `FILE` or the key itself (repeatable)")
	f.StringVar(&p.ready, "ready", "metadata", "when a create job has succeeded, as `CONDITION`: report, metadata or started")
	f.StringVar(&p.follow, "userdata", "", "`MODE` of the user-data of instances: live (follow changes) or pinned (default)")
	f.StringVar(&p.params, "params", "", "YAML or JSON `FILE` that declares the parameters, or - for standard input")
	f.BoolVar(&p.protected, "protect", false, "protect instances when they are created")
	f.BoolVar(&p.hold, "hold", false, "define instances without starting them")
	f.StringVar(&p.onFailure, "on-failure", "", "what to do if a create job fails, as `POLICY`: rollback (default), keep, or retry:ATTEMPTS:FIRST-WAIT such as retry:5:30s")
	f.BoolVar(&p.open, "no-params", false, "remove the declarations: a request may set any parameter that a template uses")
	f.StringVar(&p.script, "script", "", "provisioning `SCRIPT`, which makes the disks that are to be formatted or mounted")
	f.StringArrayVar(&p.args, "argument", nil, "argument of the script as `KEY=VALUE` (repeatable); an empty one removes all")
	f.StringVar(&p.ova, "ova", "", "OVA `IMAGE` whose disks come first")
	for name, names := range map[string]cli.NameLister{
		"system-template": cli.SystemTemplates, "network-template": cli.NetworkTemplates, "storage-template": cli.StorageTemplates, "userdata-document": cli.UserdataNames,
		"script": cli.ScriptNames, "ova": cli.OVAs,
	} {
		_ = c.RegisterFlagCompletionFunc(name, a.FlagCompletion(names)) // the flag was added above
	}
	p.served.Add(c)
}

// fresh returns a new profile.
func (p *profileFlags) fresh(a *cli.App, c *cobra.Command, name string) (made seedbed.Profile, err error) {
	made = seedbed.Profile{Name: name, SSHKeys: []string{}}
	said := func(field string) bool { return *p.text[field] != "" }
	if !said("image") && !said("storage_template") && p.ova == "" {
		return made, cli.Usagef("add %s: want --image IMAGE, or --storage-template TEMPLATE for all disks, or --ova IMAGE", name)
	}
	if !said("system_template") {
		made.VCPUs, made.Memory = 1, seedbed.GiB
	}
	if said("image") && p.script == "" {
		made.DiskSize = 10 * seedbed.GiB
	}
	if !said("network_template") && p.ova == "" {
		made.Network = "default"
	}
	return made, p.apply(a, c, &made)
}

// apply sets the fields of a profile for which flags were given.
func (p *profileFlags) apply(a *cli.App, c *cobra.Command, to *seedbed.Profile) (err error) {
	changed := c.Flags().Changed
	for field := range p.text {
		if changed(strings.ReplaceAll(field, "_", "-")) {
			if err := setField(to, field, *p.text[field]); err != nil {
				return err
			}
		}
	}
	if len(to.UserData) > 0 && *p.text["userdata_document"] != "" && p.served.UserData == "" {
		to.UserData = nil // the document takes its place
	}
	if changed("ready") || to.Ready == "" {
		if to.Ready, err = seedbed.ParseReady(p.ready); err != nil {
			return err
		}
	}
	if changed("ssh-key") {
		if to.SSHKeys, err = flags.SshKeys(p.keys); err != nil {
			return err
		}
	}
	if to.Follow, err = seedbed.ParseFollow(p.follow, cmp.Or(to.Follow, seedbed.FollowPinned)); err != nil {
		return err
	}
	if changed("protect") {
		to.Protected = p.protected
	}
	if changed("hold") {
		to.Hold = p.hold
	}
	if changed("ova") {
		to.OVA = p.ova
	}
	if changed("argument") {
		to.Arguments = slices.DeleteFunc(p.args, func(a string) bool { return a == "" })
	}
	if changed("script") {
		if to.Script = p.script; p.script == "" {
			to.Arguments = nil
		}
	}
	if changed("on-failure") {
		if to.OnFailure, err = seedbed.ParseOnFailure(p.onFailure); err != nil {
			return cli.Usagef("--on-failure: %s", err)
		}
	}
	if p.open {
		to.Params = nil
	}
	if p.params != "" {
		if to.Params, err = declarations(a, p.params); err != nil {
			return err
		}
	}
	return p.applyServed(a, c, to)
}

func (p *profileFlags) applyServed(a *cli.App, c *cobra.Command, to *seedbed.Profile) (err error) {
	changed := c.Flags().Changed
	user, vendor, err := p.served.Documents(a)
	if err != nil {
		return err
	}
	if changed("user-data") {
		if to.UserData = user; *p.text["userdata_document"] == "" {
			to.Document = ""
		}
	}
	if changed("vendor-data") {
		to.VendorData = vendor
	}
	if changed("tag") {
		if to.Tags, err = flags.ParseTags(p.served.Tags); err != nil {
			return err
		}
	}
	if changed("vendor-data-in-user-data") {
		to.VendorDataInUserData = p.served.VendorInUser
	}
	if changed("datasource") || to.Datasource == "" {
		if to.Datasource, err = seedbed.ParseDatasource(p.served.Datasource); err != nil {
			return err
		}
	}
	given := p.served.Options.MetadataOptions
	m := &to.Metadata
	m.Endpoint, m.Tokens, m.HopLimit = cmp.Or(given.Endpoint, m.Endpoint), cmp.Or(given.Tokens, m.Tokens), cmp.Or(given.HopLimit, m.HopLimit)
	m.Tags, m.InstanceID = cmp.Or(given.Tags, m.Tags), cmp.Or(given.InstanceID, m.InstanceID)
	return nil
}

// setField sets a field to a value or an expression.
func setField(p *seedbed.Profile, field, text string) (err error) {
	delete(p.Expressions, field)
	names := map[string]*string{
		"image": &p.Image, "network": &p.Network, "system_template": &p.System, "network_template": &p.NetworkTemplate,
		"storage_template": &p.Storage, "userdata_document": &p.Document,
	}
	if expression := strings.Contains(text, "${") || strings.Contains(text, "$("); expression {
		if p.Expressions == nil {
			p.Expressions = map[string]string{}
		}
		p.Expressions[field], text = text, ""
	}
	switch field {
	case "vcpus":
		if p.VCPUs = 0; text != "" {
			if p.VCPUs, err = strconv.Atoi(text); err != nil {
				return cli.Usagef("--vcpus %q: want a number, such as 2, or an expression", text)
			}
		}
	case "memory", "disk":
		var size seedbed.Bytes
		if text != "" {
			if size, err = seedbed.ParseBytes(text); err != nil {
				return cli.Usagef("--%s: %s", field, err)
			}
		}
		if field == "memory" {
			p.Memory = size
		} else {
			p.DiskSize = size
		}
	default:
		*names[field] = text
	}
	return nil
}

// declarations reads a file that declares parameters.
func declarations(a *cli.App, path string) ([]seedbed.Param, error) {
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
