package profile

import (
	"cmp"
	"context"
	"encoding/json"
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

func (p *composedFlags) request(a *cli.App, c *cobra.Command) (client.ProvisionerProfileRequest, error) {
	r := client.ProvisionerProfileRequest{
		System: cli.Given(c, "system-template", p.system), Network: cli.Given(c, "network-template", p.network), Storage: cli.Given(c, "storage-template", p.storage),
		UserData: cli.Given(c, "userdata", p.userdata), Script: cli.Given(c, "script", p.script), Arguments: p.args, Follow: seedbed.Follow(p.follow),
	}
	if c.Flags().Changed("protect") {
		r.Protected = &p.protected
	}
	if c.Flags().Changed("hold") {
		r.Hold = &p.hold
	}
	if p.none {
		r.Params = new(string)
	}
	if p.params == "" {
		return r, nil
	}
	declared, err := declarations(a, p.params)
	if err != nil {
		return r, err
	}
	text, err := json.Marshal(declared)
	if err != nil {
		return r, err
	}
	r.Params = new(string)
	*r.Params = string(text)
	return r, nil
}

func composedProfileAdd(a *cli.App) *cobra.Command {
	var (
		flags composedFlags
		ova   string
		kind  = "provisioner"
		c     *cobra.Command
	)
	c = &cobra.Command{
		Use: "add NAME --system-template TEMPLATE --script SCRIPT", Short: "Make a profile", Args: cobra.ExactArgs(1),
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			r, err := flags.request(a, c)
			if err != nil {
				return "", err
			}
			r.Type, r.OVA = kind, cli.Given(c, "ova", ova)
			return api.AddProvisionerProfile(ctx, args[0], r)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cli.AddChoice(c, &kind, "profile-type", "p", "what it is made from", "provisioner", "ova")
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
			r, err := flags.request(a, c)
			if err != nil {
				return "", err
			}
			if none && len(r.Arguments) == 0 {
				r.Arguments = []string{""}
			}
			if r.System == nil && r.Network == nil && r.Storage == nil && r.UserData == nil && r.Script == nil && r.Arguments == nil &&
				r.Params == nil && r.Follow == "" && r.Protected == nil && r.Hold == nil {
				return "", cli.Usagef("modify %s: nothing to change is given: add a flag such as --userdata DOCUMENT", args[0])
			}
			return api.ChangeProvisionerProfile(ctx, args[0], r)
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
			return api.RemoveProvisionerProfile(ctx, args[0])
		}, cli.ComposedProfiles)
}

func composedProfileShow(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a profile", Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			return showComposedProfile(ctx, a, args[0])
		}),
		ValidArgsFunction: a.Completion(cli.ComposedProfiles),
	}
}

func showComposedProfile(ctx context.Context, a *cli.App, name string) error {
	return cli.Show(ctx, a, (*client.Client).ProvisionerProfile, name, func(p client.ProvisionerProfile) [][2]string {
		return [][2]string{
			{"name", p.Name}, {"id", strconv.FormatInt(p.ID, 10)}, {"type", p.Type},
			{"system template", p.System}, {"network template", p.Network}, {"storage template", p.Storage},
			{"userdata", p.UserData}, {"script", p.Script}, {"script arguments", strings.Join(p.Arguments, "\n")}, {"ova", p.OVA},
			{"params", paramLines(p.Params)}, {"follows", string(cmp.Or(p.Follow, seedbed.FollowLive))}, {"protected", cli.YesOnly(p.Protected)}, {"hold", cli.YesOnly(p.Hold)},
		}
	})
}

func composedProfileList(a *cli.App) *cobra.Command {
	return cli.MatchingCommand(a, "profiles", "no profiles yet: seedbed provisioner profile add NAME -s SYSTEM -n NETWORK -t STORAGE -x SCRIPT",
		(*client.Client).ProvisionerProfiles,
		[]string{"name", "id", "type", "system", "network", "storage", "userdata", "ova", "script", "script arguments"},
		func(p client.ProvisionerProfile) []string {
			return []string{
				p.Name, strconv.FormatInt(p.ID, 10), p.Type, p.System, p.Network, p.Storage, p.UserData, p.OVA, p.Script, strings.Join(p.Arguments, ", "),
			}
		})
}
