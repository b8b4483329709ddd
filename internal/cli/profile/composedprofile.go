package profile

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// ComposedProfileCommand returns the command provisioner profile with its subcommands.
func ComposedProfileCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "profile", Aliases: []string{"profiles"}, Short: "Manage profiles with a script",
		Long: `Manage profiles of templates, userdata and a script, as in PVC. "seedbed profile list"
also shows the profiles without a script.`,
	})
	r := composedProfiles()
	show := r.Show(a, "show NAME", "Show a profile")
	show.ValidArgsFunction = a.Completion(cli.ComposedProfiles)
	c.AddCommand(composedProfileAdd(a), composedProfileSet(a), composedProfileRemove(a), show, r.List(a, "list [LIMIT]", "List profiles"))
	return c
}

// composedFlags are the flags for the parts of a profile. An empty text changes nothing.
func composedFlags(a *cli.App) []cli.Flag {
	text := func(text string) (any, error) {
		if text == "" {
			return nil, nil
		}
		return text, nil
	}
	return []cli.Flag{
		{Field: "system_template", Short: "s", Usage: "system `TEMPLATE`", Parse: text, Names: cli.SystemTemplates},
		{Field: "network_template", Short: "n", Usage: "network `TEMPLATE`", Parse: text, Names: cli.NetworkTemplates},
		{Field: "storage_template", Short: "t", Usage: "storage `TEMPLATE`", Parse: text, Names: cli.StorageTemplates},
		{Field: "userdata_document", Name: "userdata", Short: "u", Usage: "userdata `DOCUMENT`", Parse: text, Names: cli.UserdataNames},
		{Field: "script", Short: "x", Usage: "provisioning `SCRIPT`", Parse: text, Names: cli.ScriptNames},
		{
			Field: "arguments", Name: "script-arg", Short: "a", Each: true, ParseAll: cli.NotEmpty,
			Usage: "argument of the script as `KEY=VALUE` (repeatable); with declared parameters it may hold expressions",
		},
		{
			Field: "params", Usage: "YAML or JSON `FILE` that declares parameters, or - for standard input",
			Parse: func(file string) (any, error) { return declarations(a, file) },
		},
		{Field: "userdata", Name: "follow", Usage: "`MODE` of the user-data of instances: live (follow changes; default) or pinned", Parse: text},
		{Field: "protected", Name: "protect", Usage: "protect instances when they are created"},
		{Field: "hold", Usage: "define instances without starting them"},
	}
}

func composedProfileAdd(a *cli.App) *cobra.Command {
	p := seedbed.NewScripted("", "")
	kind, open := typeProvisioner, false
	c := &cobra.Command{
		Use: "add NAME --system-template TEMPLATE --script SCRIPT", Short: "Add a profile",
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			p.Name = args[0]
			if err := checkComposed(p, kind); err != nil {
				return "", err
			}
			_, err := api.CreateProfile(ctx, p)
			return cli.Done(err, "Created VM profile %q.", args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cli.AddChoice(a, c, &kind, "profile-type", "p", "`TYPE`, by what it is made from", typeProvisioner, typeOVA)
	a.Fill(c, &p, append(composedFlags(a), cli.Flag{Field: "ova", Short: "o", Usage: "OVA `IMAGE`", Names: cli.OVAs})...)
	c.Flags().BoolVar(&open, "no-params", false, "declare no parameters (default)")
	// As in PVC's client, -o is the OVA here.
	c.Flags().StringVar(&a.Flags.Format, "output", "", "output `FORMAT`; same as --format")
	// The flags were added above.
	_ = c.MarkFlagRequired("system-template")
	_ = c.MarkFlagRequired("script")
	return c
}

func composedProfileSet(a *cli.App) *cobra.Command {
	var (
		p          seedbed.Profile
		f          *cli.Bound
		none, open bool
	)
	c := &cobra.Command{
		Use: "set NAME", Aliases: []string{"modify"}, Short: "Change a profile; existing instances are not affected",
		Long: `Change a profile. Settings without a flag are left as they are. Existing instances are
not affected, except for the user-data of those that follow it (all, unless --follow is
pinned). The arguments of the script replace the former ones; -d alone removes them.`,
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (_ string, err error) {
			if !f.Given() && !none && !open {
				return "", cli.Usagef("set %s: nothing to change is given: add a flag such as --userdata DOCUMENT", args[0])
			}
			if p, err = cli.ScriptedProfile(api, ctx, args[0]); err != nil {
				return "", err
			}
			if none {
				p.Arguments = nil
			}
			if open {
				p.Params = nil
			}
			if err := f.Read(); err != nil {
				return "", err
			}
			_, err = api.ChangeProfile(ctx, p)
			return cli.Done(err, "Modified VM profile %q.", args[0])
		}),
		ValidArgsFunction: a.Completion(cli.ComposedProfiles),
	}
	f = cli.Bind(a, c, &p, composedFlags(a)...)
	c.Flags().BoolVarP(&none, "delete-script-args", "d", false, "remove the script's arguments")
	c.Flags().BoolVar(&open, "no-params", false, "remove the declarations of parameters")
	return c
}

func composedProfileRemove(a *cli.App) *cobra.Command {
	return a.Removal("remove NAME", "Remove a profile; its instances stay", "Remove profile %s",
		func(ctx context.Context, api *client.Client, args []string) (string, error) {
			_, err := cli.ScriptedProfile(api, ctx, args[0])
			if err == nil {
				err = api.DeleteProfile(ctx, args[0])
			}
			return cli.Done(err, "Removed VM profile %q.", args[0])
		}, cli.ComposedProfiles)
}

// checkComposed refuses a new profile whose parts are not those of its type.
func checkComposed(p seedbed.Profile, kind string) error {
	if kind == typeOVA {
		if p.OVA == "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "an OVA image must be specified for profile %q, since it is of type ova", p.Name)
		}
		return nil
	}
	if p.OVA != "" {
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %q with an OVA image must be of type ova", p.Name)
	}
	for _, part := range []struct{ kind, name string }{{"network template", p.NetworkTemplate}, {"storage template", p.Storage}} {
		if part.name == "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "a %s must be specified for profile %q", part.kind, p.Name)
		}
	}
	return nil
}

// The types of profiles with a script.
const (
	typeProvisioner = "provisioner" // templates and a script
	typeOVA         = "ova"         // an OVA image
)

// typeOf returns the type of a profile with a script.
func typeOf(p seedbed.Profile) string {
	if p.OVA != "" {
		return typeOVA
	}
	return typeProvisioner
}

// orNA returns s, or N/A if s is empty.
func orNA(s string) string { return cmp.Or(s, "N/A") }

func composedProfiles() cli.Resource[seedbed.Profile] {
	return cli.Resource[seedbed.Profile]{
		Some:      cli.Matching(cli.ScriptedProfiles),
		Project:   func(v seedbed.Profile) string { return seedbed.ProjectOf(v.Name) },
		None:      "no profiles yet: seedbed provisioner profile add NAME -s SYSTEM -n NETWORK -t STORAGE -x SCRIPT",
		Unmatched: "no profiles with that name",
		Head:      []string{"name", "id", "type", "system", "network", "storage", "userdata", "ova", "script", "script arguments"},
		Row: func(p seedbed.Profile) []string {
			return []string{
				p.Name, cli.Number(int(p.ID)), typeOf(p), orNA(p.System), orNA(p.NetworkTemplate), orNA(p.Storage), orNA(p.Document), orNA(p.OVA),
				p.Script, strings.Join(p.Arguments, ", "),
			}
		},
		One: cli.Named(cli.ScriptedProfile),
		Pairs: func(_ *cli.App, p seedbed.Profile) [][2]string {
			return [][2]string{
				{"name", p.Name}, {"id", cli.Number(int(p.ID))}, {"type", typeOf(p)},
				{"system template", orNA(p.System)}, {"network template", orNA(p.NetworkTemplate)}, {"storage template", orNA(p.Storage)},
				{"userdata", orNA(p.Document)}, {"script", p.Script}, {"script arguments", strings.Join(p.Arguments, "\n")}, {"ova", orNA(p.OVA)},
				{"params", paramLines(p.Params)}, {"follows", string(cmp.Or(p.Follow, seedbed.FollowLive))},
				{"protected", cli.YesOnly(p.Protected)}, {"hold", cli.YesOnly(p.Hold)},
			}
		},
	}
}
