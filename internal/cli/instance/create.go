package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

// CreateCommand returns the command create.
func CreateCommand(a *cli.App) *cobra.Command {
	var (
		profile string
		node    string
		params  flags.ParamFlags
		fresh   freshFlags
		served  flags.ServedFlags
		dry     bool
		w       cli.WaitFlags
	)
	var c *cobra.Command
	c = &cobra.Command{
		Use:   "create NAME [PROFILE]",
		Short: "Create an instance and start it",
		Long: `Create an instance and start it. The name is also its host name. Parameters override
the profile: vcpus=2, memory=2GiB, disk=20GiB, ssh_keys=LINE (repeatable), any
param.NAME that a template in the documents uses, and whatever the other flags set, by
its name in the API: user_data=TEXT or user_data=@FILE, http_tokens=required. Tags are
added to those of the profile.

If the profile declares parameters (seedbed profile show), --param sets one,
--params-file several, and --interactive asks for the others without echoing secrets.
A file keeps a secret off the command line, which other users can see.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			switch {
			case len(args) == 2 && profile != "":
				return cli.Usagef("create %s: both profile %s and --profile %s are given: want one of them", args[0], args[1], profile)
			case len(args) == 2:
				profile = args[1]
			case profile == "":
				return cli.Usagef("create %s: the profile is missing: seedbed create %s --profile NAME (seedbed profile list)", args[0], args[0])
			}
			if err := seedbed.CheckInstanceName(args[0]); err != nil {
				return err
			}
			p, err := params.Values(a)
			if err != nil {
				return err
			}
			if err := served.Params(a, c, p); err != nil {
				return err
			}
			req := seedbed.Request{Name: args[0], Profile: profile, Params: p, Node: node}
			fresh.fill(c, &req)
			declared, err := params.Declared(ctx, api, profile)
			if err != nil {
				return err
			}
			if err := params.Complete(a, declared, p); err != nil {
				return err
			}
			if dry {
				return tellPlan(ctx, a, api, req)
			}
			receipt, err := api.CreateInstance(ctx, req)
			if err != nil {
				return err
			}
			if err := a.Finish(ctx, api, receipt, &w); err != nil || !w.Wanted() || a.JSON() || a.Flags.Quiet {
				return err
			}
			return tellAddress(ctx, a, api, args[0])
		}),
	}
	f := c.Flags()
	f.StringVar(&profile, "profile", "", "`PROFILE` to create it from; same as the second argument")
	params.Add(c)
	fresh.add(c)
	served.Add(c)
	f.StringVar(&node, "node", "", "`NODE` to run it on (default: chosen by its system template and the installation's placement)")
	f.BoolVar(&dry, "dry-run", false, "only show what would be created, where, and what prevents it")
	w.AddJob(a, c)
	c.ValidArgsFunction = a.Completion(cli.NoNames, cli.Profiles)
	return c
}

// freshFlags are the flags for a new instance that do not say what it is made from.
type freshFlags struct {
	hold, protect bool
	userData      string
}

func (f *freshFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.hold, "hold", false, "define it without starting it; seedbed vm start starts it")
	c.Flags().BoolVar(&f.protect, "protect", false, "require its name to be typed again before remove or rebuild")
	c.Flags().StringVar(&f.userData, "userdata", "", "`MODE` of its user-data: live (follow changes of the profile's) or pinned")
}

func (f *freshFlags) fill(c *cobra.Command, req *seedbed.Request) {
	if c.Flags().Changed("hold") {
		req.Hold = &f.hold
	}
	if c.Flags().Changed("protect") {
		req.Protected = &f.protect
	}
	if f.userData != "" {
		req.Params["userdata"] = f.userData
	}
}

// tellAddress prints the address of a new instance.
func tellAddress(ctx context.Context, a *cli.App, api *client.Client, name string) error {
	i, err := api.Instance(ctx, name)
	if err != nil {
		return err
	}
	a.Say("%s is %s at %s", i.Name, i.State, addresses(i))
	return nil
}
