package cli

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

func (a *App) vmRebuild() *cobra.Command {
	var (
		profile, image string
		params         paramFlags
		yes, dry       bool
		confirm        string
		served         servedFlags
		p              powerFlags
		w              WaitFlags
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
			given, err := params.values(a)
			if err != nil {
				return err
			}
			if err := served.params(a, c, given); err != nil {
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
			declared, err := params.declared(ctx, api, of)
			if err != nil {
				return err
			}
			if err := params.complete(a, declared, given); err != nil {
				return err
			}
			req := seedbed.Request{Action: seedbed.DoRebuild, Name: args[0], Profile: profile, Image: image, Params: given}
			if dry {
				return a.tellPlan(ctx, api, req)
			}
			if req.Confirm = confirm; !yes && confirm == "" {
				if req.Confirm, err = a.confirm(ctx, api, args[0], "rebuild"); err != nil {
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
	params.add(c)
	f.StringVar(&confirm, "confirm", "", "the `name` once more, for one that is protected")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	f.BoolVar(&dry, "dry-run", false, "tell what would be made and what is in its way, and do nothing")
	served.add(c)
	p.add(c)
	w.AddJob(c)
	return c
}

// tellPlan tells what a request would make; an error when it would be refused.
func (a *App) tellPlan(ctx context.Context, api *client.Client, req seedbed.Request) error {
	p, err := api.Plan(ctx, req)
	if err != nil {
		return err
	}
	return a.showPlan(p)
}
