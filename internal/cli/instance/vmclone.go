package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

func vmClone(a *cli.App) *cobra.Command {
	var (
		r   seedbed.CloneRequest
		dry bool
		w   cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "clone VM NAME", Short: "Make an instance with copies of the disks of another one",
		Long: `Make an instance with the configuration of another one and copies of its disks. It has an
ID, MAC addresses, addresses and a report address of its own, so cloud-init takes it for a
new instance. The other one stays as it is. It may run if its pools are on Ceph; in a
directory pool it must be stopped. Volumes that are attached to it are left out.`,
		Example: `  seedbed vm clone web1 web2
  seedbed vm clone web1 web2 --snapshot before --network lan=test --off`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Name = args[1]
			if dry {
				return a.ShowPlan(api.PlanClone(ctx, args[0], r))
			}
			receipt, err := api.CloneInstance(ctx, args[0], r)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
		ValidArgsFunction: a.Completion(cli.Instances, cli.NoNames),
	}
	a.Fill(c, &r,
		cli.Flag{Field: "snapshot", Usage: "`SNAPSHOT` of VM whose content the disks have (default: what they have now)"},
		cli.Flag{Field: "networks", Name: "network", Usage: "network for one of VM, as `OLD=NEW` (repeatable)",
			ParseAll: cli.Mapping("network")},
		freezeFlag(),
		cli.Flag{Field: "generalise", Usage: "remove from the first disk what tells machines apart"},
		cli.Flag{Field: "off", Usage: "leave the instance off"},
		cli.Flag{Field: "node", Usage: "`NODE` that is to have it (default: chosen by the placement)"},
	)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be made and what prevents it")
	w.AddJob(a, c)
	return c
}
