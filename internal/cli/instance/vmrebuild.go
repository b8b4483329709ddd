package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

func vmRebuild(a *cli.App) *cobra.Command {
	var (
		r        wire.RebuildRequest
		params   flags.ParamFlags
		yes, dry bool
		served   flags.ServedParams
		p        powerFlags
		w        cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "rebuild NAME", Short: "Recreate an instance's disks; its name and addresses stay",
		Long: `Recreate an instance's disks, and start it from them. Its name, ID, addresses, MACs and
tags stay. Its image and documents are those that its profile has now; its size, keys
and metadata options stay. With --profile, all of these come from the other profile. If
the profile has a script or a storage template for all disks, --image cannot be used,
and a script that makes the disks runs again. An instance without a profile keeps its
image and the documents that it was created with. The former disks are kept until the
instance is ready: if anything fails before, it runs from them again.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			api = api.WithForce(p.force)
			given, err := params.Values(a)
			if err != nil {
				return err
			}
			if err := served.Set(given); err != nil {
				return err
			}
			of := r.Profile
			if i, err := api.Instance(ctx, args[0]); err == nil && of == "" {
				of = i.Profile
			}
			if err := flags.RefuseForScript(ctx, api, of, served.Given()); err != nil {
				return err
			}
			declared, err := params.Declared(ctx, api, of)
			if err != nil {
				return err
			}
			if err := params.Complete(a, declared, given); err != nil {
				return err
			}
			req := seedbed.Request{Action: seedbed.DoRebuild, Name: args[0], Profile: r.Profile, Image: r.Image, Params: given}
			if dry {
				return a.ShowPlan(api.Plan(ctx, req))
			}
			if req.Confirm = r.Confirm; !yes && r.Confirm == "" {
				if req.Confirm, err = askName(ctx, a, api, args[0], "rebuild", false); err != nil {
					return err
				}
			}
			receipt, err := api.RebuildInstance(ctx, req, p.power())
			return a.Finish(ctx, api, &w, receipt, namedProfile(ctx, api, r.Profile, err))
		}),
	}
	a.Fill(c, &r,
		cli.Flag{Field: "profile", Usage: "`PROFILE` to rebuild it from (default: its own)"},
		cli.Flag{Field: "image", Usage: "`IMAGE` of its disk (default: the profile's or, without a profile, its own)"},
		cli.Flag{Field: "confirm", Usage: "the instance's `NAME` again, if it is protected"},
	)
	params.Add(c)
	cli.AddYes(c, &yes)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be done and what prevents it")
	served.Add(a, c)
	p.add(c)
	c.Flags().Lookup("force").Usage = "power off immediately, without asking the guest, and accept user-data that cloud-init could not read"
	w.AddJob(a, c)
	return c
}
