package profile

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// ComposedProfileCommand returns the command provisioner profile with its subcommands.
func ComposedProfileCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "profile", Aliases: []string{"profiles"}, Short: "Templates, userdata and a script together",
		Long: `Templates, userdata and a script together: the profiles with a script, as PVC has them.
"seedbed profile list" shows all.`,
	})
	c.AddCommand(composedProfileAdd(a), composedProfileModify(a), composedProfileRemove(a), composedProfileShow(a), composedProfileList(a))
	return c
}

// composedFlags are the flags for the parts of a profile.
type composedFlags struct {
	system, network, storage, userdata, script string
	args                                       []string
	params, follow                             string
	none, protected, hold                      bool
}

func (p *composedFlags) add(a *cli.App, c *cobra.Command) {
	f := c.Flags()
	for _, flag := range []struct {
		value              *string
		name, short, usage string
		names              cli.NameLister
	}{
		{&p.system, "system-template", "s", "system `template`", cli.SystemTemplates},
		{&p.network, "network-template", "n", "network `template`", cli.NetworkTemplates},
		{&p.storage, "storage-template", "t", "storage `template`", cli.StorageTemplates},
		{&p.userdata, "userdata", "u", "userdata `document`", cli.UserdataNames},
		{&p.script, "script", "x", "provisioning `script`; empty for none", cli.ScriptNames},
	} {
		f.StringVarP(flag.value, flag.name, flag.short, "", flag.usage)
		_ = c.RegisterFlagCompletionFunc(flag.name, a.FlagCompletion(flag.names)) // the flag was added above
	}
	f.StringArrayVarP(&p.args, "script-arg", "a", nil, "argument of the script as `key=value` (repeatable); with declared params it may hold expressions")
	f.StringVar(&p.params, "params", "", "YAML or JSON `file` that declares params, or - for standard input")
	f.BoolVar(&p.none, "no-params", false, "declare no params")
	f.StringVar(&p.follow, "follow", "", "`live` (default): the user-data of machines follows what is changed of it; or pinned")
	f.BoolVar(&p.protected, "protect", false, "machines are protected when they are made")
	f.BoolVar(&p.hold, "hold", false, "machines are defined and left off")
}

// apply sets the fields of to for which flags were given, and reports whether there were any. An
// empty name changes nothing.
func (p *composedFlags) apply(a *cli.App, c *cobra.Command, to *seedbed.Profile) (given bool, err error) {
	for _, name := range []struct {
		flag, value string
		to          *string
	}{
		{"system-template", p.system, &to.System}, {"network-template", p.network, &to.NetworkTemplate}, {"storage-template", p.storage, &to.Storage},
		{"userdata", p.userdata, &to.Document}, {"script", p.script, &to.Script},
	} {
		given = given || c.Flags().Changed(name.flag)
		*name.to = cmp.Or(name.value, *name.to)
	}
	for flag, on := range map[string]struct{ to, value *bool }{"protect": {&to.Protected, &p.protected}, "hold": {&to.Hold, &p.hold}} {
		if c.Flags().Changed(flag) {
			*on.to, given = *on.value, true
		}
	}
	if p.follow != "" {
		to.Follow, given = seedbed.Follow(p.follow), true
	}
	if len(p.args) > 0 {
		to.Arguments, given = p.args, true
	}
	if p.none {
		to.Params, given = nil, true
	}
	if p.params != "" {
		given = true
		to.Params, err = declarations(a, p.params)
	}
	return given, err
}

func composedProfileAdd(a *cli.App) *cobra.Command {
	var (
		flags composedFlags
		ova   string
		kind  = typeProvisioner
		c     *cobra.Command
	)
	c = &cobra.Command{
		Use: "add NAME --system-template TEMPLATE --script SCRIPT", Short: "Make a profile", Args: cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			p := seedbed.NewScripted(args[0], "")
			if _, err := flags.apply(a, c, &p); err != nil {
				return "", err
			}
			p.OVA = ova
			if err := checkComposed(p, kind); err != nil {
				return "", err
			}
			_, err := api.CreateProfile(ctx, p)
			return cli.Done(err, "Created VM profile %q.", args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cli.AddChoice(c, &kind, "profile-type", "p", "what it is made from", typeProvisioner, typeOVA)
	flags.add(a, c)
	c.Flags().StringVarP(&ova, "ova", "o", "", "OVA `image`")
	// The flags were added above.
	_ = c.RegisterFlagCompletionFunc("ova", a.FlagCompletion(cli.OVAs))
	_ = c.MarkFlagRequired("system-template")
	_ = c.MarkFlagRequired("script")
	return c
}

func composedProfileModify(a *cli.App) *cobra.Command {
	var (
		flags composedFlags
		none  bool
		c     *cobra.Command
	)
	c = &cobra.Command{
		Use: "modify NAME", Short: "Change a profile; existing instances are not affected", Args: cobra.ExactArgs(1),
		Long: `Change what is said of a profile; instances stay as they are, but for the user-data
of those that follow it (all, unless --follow pinned was said). The arguments of the
script are replaced by those that are given; -d alone takes all away.`,
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			p, err := cli.ScriptedProfile(api, ctx, args[0])
			if err != nil {
				return "", err
			}
			if none {
				p.Arguments = nil
			}
			given, err := flags.apply(a, c, &p)
			if err != nil {
				return "", err
			}
			if !given && !none {
				return "", cli.Usagef("modify %s: nothing to change is given: add a flag such as --userdata DOCUMENT", args[0])
			}
			_, err = api.ChangeProfile(ctx, p)
			return cli.Done(err, "Modified VM profile %q.", args[0])
		}),
		ValidArgsFunction: a.Completion(cli.ComposedProfiles),
	}
	flags.add(a, c)
	c.Flags().BoolVarP(&none, "delete-script-args", "d", false, "take the script's arguments away")
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

func composedProfileShow(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a profile",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			p, err := cli.ScriptedProfile(api, ctx, args[0])
			if err != nil {
				return err
			}
			return a.ShowPairs(p, [][2]string{
				{"name", p.Name}, {"id", strconv.FormatInt(p.ID, 10)}, {"type", typeOf(p)},
				{"system template", orNA(p.System)}, {"network template", orNA(p.NetworkTemplate)}, {"storage template", orNA(p.Storage)},
				{"userdata", orNA(p.Document)}, {"script", p.Script}, {"script arguments", strings.Join(p.Arguments, "\n")}, {"ova", orNA(p.OVA)},
				{"params", paramLines(p.Params)}, {"follows", string(cmp.Or(p.Follow, seedbed.FollowLive))},
				{"protected", cli.YesOnly(p.Protected)}, {"hold", cli.YesOnly(p.Hold)},
			})
		}),
		ValidArgsFunction: a.Completion(cli.ComposedProfiles),
	}
}

func composedProfileList(a *cli.App) *cobra.Command {
	return cli.MatchingCommand(a, "profiles", "no profiles yet: seedbed provisioner profile add NAME -s SYSTEM -n NETWORK -t STORAGE -x SCRIPT",
		cli.ScriptedProfiles,
		[]string{"name", "id", "type", "system", "network", "storage", "userdata", "ova", "script", "script arguments"},
		func(p seedbed.Profile) []string {
			return []string{
				p.Name, strconv.FormatInt(p.ID, 10), typeOf(p), orNA(p.System), orNA(p.NetworkTemplate), orNA(p.Storage), orNA(p.Document), orNA(p.OVA),
				p.Script, strings.Join(p.Arguments, ", "),
			}
		})
}
