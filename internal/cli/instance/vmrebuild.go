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
		Use: "rebuild NAME", Short: "Give an instance fresh disks; its name and addresses stay", Args: cobra.ExactArgs(1),
		Long: `Give an instance fresh disks, and start it from them. Its name, ID, addresses, MACs
and tags stay. Of its own profile it takes the image and the documents as they are
now, and keeps its size, keys and metadata options; with --profile all of that is
the other profile's. By a provisioner profile the disks are those of its storage
template, without --image; where its script makes them, that is run again. The
former disks are there until the instance is ready: when anything fails before, it
runs from them again.`,
		RunE: a.Do(func(ctx context.Context, args []string) error {
			given, err := params.Values(a)
			if err != nil {
				return err
			}
			if err := served.Params(a, c, given); err != nil {
				return err
			}
			api, err := a.Client()
			if err != nil {
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
	f.StringVar(&profile, "profile", "", "`profile` that it is made from (default: its own)")
	f.StringVar(&image, "image", "", "`image` of its disk (default: the profile's)")
	params.Add(c)
	f.StringVar(&confirm, "confirm", "", "the `name` once more, for one that is protected")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	f.BoolVar(&dry, "dry-run", false, "tell what would be made and what is in its way, and do nothing")
	served.Add(c)
	p.add(c)
	w.AddJob(a, c)
	return c
}

// tellPlan tells what a request would make; an error when it would be refused.
func tellPlan(ctx context.Context, a *cli.App, api *client.Client, req seedbed.Request) error {
	p, err := api.Plan(ctx, req)
	if err != nil {
		return err
	}
	return a.ShowPlan(p)
}
