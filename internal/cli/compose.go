package cli

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

func (a *App) ComposeCommand() *cobra.Command {
	var (
		define, start switchFlag
		args          []string
		ready         string
		params        paramFlags
		w             WaitFlags
	)
	c := &cobra.Command{
		Use: "create NAME PROFILE", Short: "Make an instance of a profile, and start it", Args: cobra.ExactArgs(2),
		Long: `Make an instance of a profile, and start it. --no-start defines it and leaves it
off: seedbed vm start starts it. --no-define makes its disks alone, by the names that
PVC gives them (NAME_DISK): at the end they are nobody's, and no instance is there.`,
		RunE: a.Do(func(ctx context.Context, names []string) error {
			api, err := a.Client()
			if err != nil {
				return err
			}
			values, err := params.values(a)
			if err != nil {
				return err
			}
			if params.interactive {
				p, err := api.ProvisionerProfile(ctx, names[1])
				if err != nil {
					return err
				}
				if err := params.complete(a, p.Params, values); err != nil {
					return err
				}
			}
			given, err := lines(values)
			if err != nil {
				return err
			}
			task, err := api.Compose(ctx, client.ComposeRequest{
				Name: names[0], Params: given, Profile: names[1], Define: define.wanted(), Start: define.wanted() && start.wanted(), Arguments: args,
				Ready: seedbed.Ready(ready),
			})
			if err != nil {
				return err
			}
			if w.wanted() {
				return a.composed(ctx, api, task, names[0], &w)
			}
			if a.JSON() {
				return a.PrintJSON(task)
			}
			a.Say("Task ID: %s assigned to node %s; follow it with: seedbed job watch %s", task.ID, Printable(task.RunOn), task.ID)
			return nil
		}),
		ValidArgsFunction: a.Completion(NoNames, composedProfiles),
	}
	define.add(c, "define", "d", "D", "define the instance", true)
	start.add(c, "start", "s", "S", "start it once it is defined", true)
	c.Flags().StringArrayVarP(&args, "script-arg", "a", nil, "argument of the script as `key=value`, over those of the profile (repeatable)")
	c.Flags().StringVar(&ready, "ready", "", "what ends the job: started (the default), metadata (the guest has fetched its user-data) or report (cloud-init has phoned home)")
	params.add(c)
	w.AddJob(c)
	return c
}

// composed follows the job to its end, and tells where the instance is.
func (a *App) composed(ctx context.Context, api *client.Client, task client.Task, name string, w *WaitFlags) error {
	if err := a.Follow(ctx, api, task.ID, w.Timeout, false); err != nil || a.JSON() || a.Flags.Quiet {
		return err
	}
	if i, err := api.Instance(ctx, name); err == nil && i.State == seedbed.InstanceRunning {
		a.Say("%s is %s at %s", i.Name, i.State, addresses(i))
	}
	return nil
}
