// Package profile has the commands for what instances are made from: profiles, templates, user-data
// and scripts. It also has those that copy the catalogue to another installation.
package profile

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

// Command returns the command profile with its subcommands.
func Command(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "profile", Aliases: []string{"profiles"}, Short: "Manage profiles, which instances are made from"})
	r := profiles(a)
	c.AddCommand(profileAdd(a), profileSet(a), r.List(a, "list", "List the profiles"), r.Show(a, "show NAME", "Show a profile"),
		a.RemoveCommand("remove NAME", "Remove a profile; its instances stay", "Remove profile %s", "profile %s removed",
			(*client.Client).DeleteProfile))
	return c
}

func profileAdd(a *cli.App) *cobra.Command {
	var (
		flags profileFlags
		p     seedbed.Profile
		force bool
	)
	c := &cobra.Command{
		Use:   "add NAME --image IMAGE",
		Short: "Make a profile",
		Long: `Add a profile. --ready defines when a create job has succeeded: "report" when
cloud-init has phoned home at the end of the first boot, "metadata" when the guest has
fetched its user-data, "started" when the instance runs.

A system template can set its size, a network template add NICs, and a storage template
add disks, or define all disks if there is no --image.

A document whose first line is "## template: seedbed" is a template: ${vm.name},
${vm.ip}, ${param.NAME} and others are replaced by the values of each instance, and
$(vm.number + 10) by the result; write $${ and $$( for a shell in the guest. Image, size,
network and the names of templates can also contain such expressions:
--memory '$(1024 * ${param.gib})MiB'.

--params names a YAML or JSON file that declares the parameters: a list of name, type
(string, int, size, bool, enum, secret) and optionally default, pattern, values,
description and required.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if err := flags.fresh(args[0]); err != nil {
				return err
			}
			made, err := api.WithForce(force).CreateProfile(ctx, p)
			return a.Tell(err, made, "profile %s added; use it with: seedbed create NAME --profile %s", made.Name, made.Name)
		}),
	}
	flags.add(a, c, &p)
	addForce(c, &force)
	return c
}

func profileSet(a *cli.App) *cobra.Command {
	var (
		flags profileFlags
		p     seedbed.Profile
		force bool
	)
	c := &cobra.Command{
		Use: "set NAME", Aliases: []string{"modify"}, Short: "Change a profile; existing instances are not affected",
		Long: `Change a profile. Settings without a flag are left as they are. Existing instances are
not affected, except for the user-data of those that follow it (--userdata live). An empty
value removes a setting, which then comes from a template, or is unset.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) (err error) {
			if !flags.given() {
				return cli.Usagef("set %s: nothing to change is given: add a flag such as --vcpus 4", args[0])
			}
			if p, err = api.Profile(ctx, args[0]); err != nil {
				return err
			}
			if err := flags.apply(); err != nil {
				return err
			}
			made, err := api.WithForce(force).ChangeProfile(ctx, p)
			return a.Tell(err, made, "profile %s changed; it has revision %d", made.Name, made.Revision)
		}),
	}
	flags.add(a, c, &p)
	addForce(c, &force)
	return c
}

func profiles(a *cli.App) cli.Resource[seedbed.Profile] {
	return cli.Resource[seedbed.Profile]{
		Some: cli.Selected(func(api *client.Client, ctx context.Context, s client.Selection) ([]seedbed.Profile, error) {
			return api.ListProfiles(ctx, seedbed.ProfileQuery{Scope: s.Scope, Prefix: s.Where["name"], Limit: s.Limit})
		}),
		Project: func(p seedbed.Profile) string { return seedbed.ProjectOf(p.Name) },
		Filters: []cli.Filter{cli.NameFilter()},
		None:    "no profiles yet: seedbed profile add NAME --image IMAGE", Unmatched: "no matching profiles",
		Head: []string{"name", "image", "vcpus", "memory", "disk", "network", "ready", "templates", "userdata", "script", "follows", "published"},
		Row: func(p seedbed.Profile) []string {
			return []string{
				p.Name, p.Image, cli.Number(p.VCPUs), cli.Size(p.Memory), cli.Size(p.DiskSize), networksOf(p),
				string(p.Ready), templatesOf(p), p.Document, p.Script, string(p.Follow), cli.PublishedTo(p.Published),
			}
		},
		One: cli.Named((*client.Client).Profile), Pairs: profilePairs,
	}
}

func profilePairs(a *cli.App, p seedbed.Profile) [][2]string {
	return [][2]string{
		{"name", p.Name}, {"image", p.Image}, {"vcpus", strconv.Itoa(p.VCPUs)}, {"memory", cli.Size(p.Memory)},
		{"disk", cli.Size(p.DiskSize)}, {"network", p.Network}, {"nics", nicLines(p.NICs)},
		{"security groups", strings.Join(p.SecurityGroups, ", ")},
		{"bandwidth in", cli.When(p.BandwidthIn != 0, p.BandwidthIn.String())},
		{"bandwidth out", cli.When(p.BandwidthOut != 0, p.BandwidthOut.String())}, {"system template", p.System},
		{"network template", p.NetworkTemplate}, {"storage template", p.Storage},
		{"script", p.Script}, {"script arguments", strings.Join(p.Arguments, "\n")}, {"ova", p.OVA},
		{"expressions", flags.TagLine(p.Expressions)}, {"params", paramLines(p.Params)},
		{"userdata document", p.Document}, {"userdata", string(p.Follow)},
		{"boot from", p.BootFrom}, {"placement group", p.PlacementGroup},
		{"protected", cli.YesOnly(p.Protected)}, {"hold", cli.YesOnly(p.Hold)}, {"ready", string(p.Ready)}, {"on failure", p.OnFailure.String()},
		{"ssh keys", strings.Join(p.SSHKeys, "\n")}, {"user-data", strings.TrimRight(string(p.UserData), "\n")},
		{"vendor-data", strings.TrimRight(string(p.VendorData), "\n")}, {"vendor-data in user-data", cli.YesOnly(p.VendorDataInUserData)},
		{"datasource", string(p.Datasource)}, {"metadata options", flags.OptionLine(p.Metadata)}, {"tags", flags.TagLine(p.Tags)},
		{"added", a.Moment(p.Created)}, {"published", cli.PublishedTo(p.Published)},
	}
}

// networksOf returns the networks of the NICs that a profile itself has.
func networksOf(p seedbed.Profile) string {
	if len(p.NICs) == 0 {
		return p.Network
	}
	return strings.Join(cli.Each(p.NICs, func(n seedbed.NICRequest) string { return n.Network }), ", ")
}

// nicLines returns NICs as --nic takes them, one per line.
func nicLines(nics []seedbed.NICRequest) string {
	return strings.Join(cli.Each(nics, func(n seedbed.NICRequest) string {
		line := "network=" + n.Network + cli.When(n.SecondaryCount > 0, ",secondary="+strconv.Itoa(n.SecondaryCount)) +
			cli.When(n.SecondaryCount6 > 0, ",secondary6="+strconv.Itoa(n.SecondaryCount6))
		for _, group := range n.Groups {
			line += ",group=" + group
		}
		return line + cli.When(n.BandwidthIn != 0, ",in="+n.BandwidthIn.String()) + cli.When(n.BandwidthOut != 0, ",out="+n.BandwidthOut.String())
	}), "\n")
}

// templatesOf returns the names of a profile's system, network and storage templates.
func templatesOf(p seedbed.Profile) string {
	all := slices.DeleteFunc([]string{p.System, p.NetworkTemplate, p.Storage}, func(n string) bool { return n == "" })
	return strings.Join(all, ", ")
}

// paramLines returns declared parameters, one per line.
func paramLines(declared []seedbed.Param) string {
	return strings.Join(cli.Each(declared, func(p seedbed.Param) string {
		line := p.Name + " " + string(p.Type) + cli.When(len(p.Values) > 0, " of "+strings.Join(p.Values, "|")) +
			cli.When(p.Pattern != "", " like "+p.Pattern)
		switch {
		case p.Default != nil:
			line += ", default " + string(*p.Default)
		case p.Required:
			line += ", required"
		}
		return line + cli.When(p.Description != "", ": "+p.Description)
	}), "\n")
}
