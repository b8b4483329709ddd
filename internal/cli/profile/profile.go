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

// ProfileCommand returns the command profile with its subcommands.
func ProfileCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "profile", Aliases: []string{"profiles"}, Short: "Manage profiles, which instances are made from"})
	c.AddCommand(profileAdd(a), profileModify(a), profileList(a), profileShow(a), profileRemove(a))
	return c
}

func profileAdd(a *cli.App) *cobra.Command {
	var flags profileFlags
	var c *cobra.Command
	c = &cobra.Command{
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
		Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			p, err := flags.fresh(a, c, args[0])
			if err != nil {
				return err
			}
			api, err := a.Client()
			if err != nil {
				return err
			}
			made, err := api.CreateProfile(ctx, p)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(made)
			}
			a.Say("profile %s added; use it with: seedbed create NAME --profile %s", made.Name, made.Name)
			return nil
		}),
	}
	flags.add(a, c)
	return c
}

func profileModify(a *cli.App) *cobra.Command {
	var flags profileFlags
	var c *cobra.Command
	c = &cobra.Command{
		Use: "modify NAME", Short: "Change a profile; existing instances are not affected", Args: cobra.ExactArgs(1),
		Long: `Change a profile. Settings without a flag are left as they are. Existing instances are
not affected, except for the user-data of those that follow it (--userdata live). An empty
value removes a setting, which then comes from a template, or is unset.`,
		RunE: a.Do(func(ctx context.Context, args []string) error {
			if c.Flags().NFlag() == 0 {
				return cli.Usagef("modify %s: nothing to change is given: add a flag such as --vcpus 4", args[0])
			}
			api, err := a.Client()
			if err != nil {
				return err
			}
			p, err := api.Profile(ctx, args[0])
			if err != nil {
				return err
			}
			if err := flags.apply(a, c, &p); err != nil {
				return err
			}
			made, err := api.ChangeProfile(ctx, p)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(made)
			}
			a.Say("profile %s changed; it has revision %d", made.Name, made.Revision)
			return nil
		}),
	}
	flags.add(a, c)
	return c
}

func profileList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the profiles", Args: cobra.NoArgs,
		RunE: a.Do(func(ctx context.Context, _ []string) error {
			return cli.List(ctx, a, (*client.Client).Profiles, "no profiles yet: seedbed profile add NAME --image IMAGE",
				[]string{"name", "image", "vcpus", "memory", "disk", "network", "ready", "templates", "userdata", "script", "follows"},
				func(p seedbed.Profile) []string {
					row := []string{p.Name, p.Image, "", "", "", p.Network, string(p.Ready), templatesOf(p), p.Document, p.Script, string(p.Follow)}
					if p.VCPUs > 0 {
						row[2] = strconv.Itoa(p.VCPUs)
					}
					if p.Memory > 0 {
						row[3] = cli.Size(p.Memory)
					}
					if p.Image != "" || p.DiskSize > 0 {
						row[4] = cli.Size(p.DiskSize)
					}
					return row
				})
		}),
	}
}

// templatesOf returns the names of a profile's system, network and storage templates.
func templatesOf(p seedbed.Profile) string {
	all := slices.DeleteFunc([]string{p.System, p.NetworkTemplate, p.Storage}, func(n string) bool { return n == "" })
	return strings.Join(all, ", ")
}

func profileShow(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a profile", Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			return cli.Show(ctx, a, (*client.Client).Profile, args[0], func(p seedbed.Profile) [][2]string {
				return [][2]string{
					{"name", p.Name}, {"image", p.Image}, {"vcpus", strconv.Itoa(p.VCPUs)}, {"memory", cli.Size(p.Memory)},
					{"disk", cli.Size(p.DiskSize)}, {"network", p.Network}, {"system template", p.System}, {"network template", p.NetworkTemplate}, {"storage template", p.Storage},
					{"script", p.Script}, {"script arguments", strings.Join(p.Arguments, "\n")}, {"ova", p.OVA},
					{"expressions", flags.TagLine(p.Expressions)}, {"params", paramLines(p.Params)}, {"userdata document", p.Document}, {"userdata", string(p.Follow)},
					{"protected", cli.YesOnly(p.Protected)}, {"hold", cli.YesOnly(p.Hold)}, {"ready", string(p.Ready)}, {"on failure", p.OnFailure.String()},
					{"ssh keys", strings.Join(p.SSHKeys, "\n")}, {"user-data", strings.TrimRight(string(p.UserData), "\n")},
					{"vendor-data", strings.TrimRight(string(p.VendorData), "\n")}, {"vendor-data in user-data", cli.YesOnly(p.VendorDataInUserData)},
					{"datasource", string(p.Datasource)}, {"metadata options", flags.OptionLine(p.Metadata)}, {"tags", flags.TagLine(p.Tags)},
					{"added", a.Moment(p.Created)},
				}
			})
		}),
	}
}

// paramLines returns declared parameters, one per line.
func paramLines(declared []seedbed.Param) string {
	var all []string
	for _, p := range declared {
		line := p.Name + " " + string(p.Type)
		if len(p.Values) > 0 {
			line += " of " + strings.Join(p.Values, "|")
		}
		if p.Pattern != "" {
			line += " like " + p.Pattern
		}
		switch {
		case p.Default != nil:
			line += ", default " + string(*p.Default)
		case p.Required:
			line += ", required"
		}
		if p.Description != "" {
			line += ": " + p.Description
		}
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

func profileRemove(a *cli.App) *cobra.Command {
	return a.RemoveCommand("Remove a profile; its instances stay", "Remove profile %s", "profile %s removed", (*client.Client).DeleteProfile)
}
