package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

// composed is what "provisioner create" asks for besides the parameters.
type composed struct {
	Define    bool          `json:"define"`
	Start     bool          `json:"start"`
	Arguments []string      `json:"arguments"`
	Ready     seedbed.Ready `json:"ready"`
}

// ComposeCommand returns the command provisioner create.
func ComposeCommand(a *cli.App) *cobra.Command {
	asked := composed{Define: true, Start: true}
	var (
		params flags.ParamFlags
		w      cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "create NAME PROFILE", Short: "Create an instance from a profile and start it",
		Long: `Create an instance from a profile and start it. --no-start only defines it: start it
with seedbed vm start. With --no-define only the disks are created, with the names that
PVC gives them (NAME_DISK); no instance owns them.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, names []string) error {
			values, err := params.Values(a)
			if err != nil {
				return err
			}
			p, err := cli.ScriptedProfile(api, ctx, names[1])
			if err != nil {
				return err
			}
			if params.Interactive {
				if err := params.Complete(a, p.Params, values); err != nil {
					return err
				}
			}
			req := seedbed.Request{
				Name: names[0], Profile: names[1], Params: values, Undefined: !asked.Define, Ready: asked.Ready,
				Arguments: append([]string{}, asked.Arguments...), // parameters are not arguments, whatever the profile declares
			}
			if !asked.Start || !asked.Define {
				req.Hold = new(true)
			}
			receipt, err := api.CreateInstance(ctx, req)
			if err := a.Finish(ctx, api, &w, receipt, err); err != nil || !w.Wanted() || a.JSON() || a.Flags.Quiet {
				return err
			}
			if i, err := api.Instance(ctx, names[0]); err == nil && i.State == seedbed.InstanceRunning {
				a.Say("%s is %s%s", i.Name, i.State, located(i))
			}
			return nil
		}),
		ValidArgsFunction: a.Completion(cli.NoNames, cli.ComposedProfiles),
	}
	a.Fill(c, &asked,
		cli.Flag{Field: "define", Short: "d", Off: "D", Usage: "define the instance"},
		cli.Flag{Field: "start", Short: "s", Off: "S", Usage: "start it once it is defined"},
		cli.Flag{
			Field: "arguments", Name: "script-arg", Short: "a", Each: true, ParseAll: cli.NotEmpty,
			Usage: "argument of the script as `KEY=VALUE`, over those of the profile (repeatable)",
		},
		cli.Flag{
			Field: "ready",
			Usage: "when the job has succeeded, as `CONDITION`: started (the default), metadata (the guest has fetched its user-data) " +
				"or report (cloud-init has phoned home)",
		},
	)
	params.Add(c)
	w.AddJob(a, c)
	return c
}
