package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

// ComposeCommand returns the command provisioner create.
func ComposeCommand(a *cli.App) *cobra.Command {
	var (
		define, start cli.SwitchFlag
		args          []string
		ready         string
		params        flags.ParamFlags
		w             cli.WaitFlags
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
				Name: names[0], Profile: names[1], Params: values, Undefined: !define.Wanted(), Ready: seedbed.Ready(ready),
				Arguments: append([]string{}, args...), // parameters are not arguments, whatever the profile declares
			}
			if !start.Wanted() || !define.Wanted() {
				req.Hold = new(true)
			}
			receipt, err := api.CreateInstance(ctx, req)
			if err != nil {
				return err
			}
			if err := a.Finish(ctx, api, receipt, &w); err != nil || !w.Wanted() || a.JSON() || a.Flags.Quiet {
				return err
			}
			if i, err := api.Instance(ctx, names[0]); err == nil && i.State == seedbed.InstanceRunning {
				a.Say("%s is %s at %s", i.Name, i.State, addresses(i))
			}
			return nil
		}),
		ValidArgsFunction: a.Completion(cli.NoNames, cli.ComposedProfiles),
	}
	define.Add(c, "define", "d", "D", "define the instance", true)
	start.Add(c, "start", "s", "S", "start it once it is defined", true)
	c.Flags().StringArrayVarP(&args, "script-arg", "a", nil, "argument of the script as `key=value`, over those of the profile (repeatable)")
	c.Flags().StringVar(&ready, "ready", "", "when the job has succeeded, as `CONDITION`: started (the default), metadata (the guest has fetched its user-data) or report (cloud-init has phoned home)")
	params.Add(c)
	w.AddJob(a, c)
	return c
}
