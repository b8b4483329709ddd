package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

func vmRebuild(a *cli.App) *cobra.Command {
	var (
		profile, image string
		params         flags.ParamFlags
		yes, dry       bool
		confirm        string
		served         flags.ServedFlags
		p              powerFlags
		w              cli.WaitFlags
	)
	var c *cobra.Command
	c = &cobra.Command{
		Use: "rebuild NAME", Short: "Recreate an instance's disks; its name and addresses stay",
		Long: `Recreate an instance's disks, and start it from them. Its name, ID, addresses, MACs and
tags stay. Its image and documents are those that its profile has now; its size, keys
and metadata options stay. With --profile, all of these come from the other profile. If
the profile has a script or a storage template for all disks, --image cannot be used,
and a script that makes the disks runs again. The former disks are kept until the
instance is ready: if anything fails before, it runs from them again.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			given, err := params.Values(a)
			if err != nil {
				return err
			}
			if err := served.Params(a, c, given); err != nil {
				return err
			}
			of := profile
			if i, err := api.Instance(ctx, args[0]); err == nil && of == "" {
				of = i.Profile
			}
			declared, err := params.Declared(ctx, api, of)
			if err != nil {
				return err
			}
			if err := params.Complete(a, declared, given); err != nil {
				return err
			}
			req := seedbed.Request{Action: seedbed.DoRebuild, Name: args[0], Profile: profile, Image: image, Params: given}
			if dry {
				return tellPlan(ctx, a, api, req)
			}
			if req.Confirm = confirm; !yes && confirm == "" {
				if req.Confirm, err = askName(ctx, a, api, args[0], "rebuild"); err != nil {
					return err
				}
			}
			receipt, err := api.RebuildInstance(ctx, req, p.power())
			if err != nil {
				return err
			}
			return a.Finish(ctx, api, receipt, &w)
		}),
	}
	f := c.Flags()
	f.StringVar(&profile, "profile", "", "`PROFILE` to rebuild it from (default: its own)")
	f.StringVar(&image, "image", "", "`IMAGE` of its disk (default: the profile's)")
	params.Add(c)
	f.StringVar(&confirm, "confirm", "", "the instance's `NAME` again, if it is protected")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&dry, "dry-run", false, "only show what would be done and what prevents it")
	served.Add(c)
	p.add(c)
	w.AddJob(a, c)
	return c
}

// tellPlan prints what a request would make. It returns an error if the request would be refused.
func tellPlan(ctx context.Context, a *cli.App, api *client.Client, req seedbed.Request) error {
	p, err := api.Plan(ctx, req)
	if err != nil {
		return err
	}
	return a.ShowPlan(p)
}
