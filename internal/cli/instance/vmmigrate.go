package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/internal/cli"
)

func vmMove(a *cli.App) *cobra.Command {
	var (
		m    = client.Move{Stay: true}
		cold bool
		p    powerFlags
	)
	c := vmGo(a, &m, "move NAME", "Move a stopped instance to another node, where it stays")
	c.Long = `Move an instance to another node, where it stays: the one of --node, or the one that the
placement chooses. It must be stopped, or --cold must be given: then its guest is shut down
as by seedbed vm stop, and started on the other node. All its volumes must be in pools that
both nodes share.`
	c.Example = `  seedbed vm move web1
  seedbed vm move web1 --node hv2 --cold --grace 5m`
	c.Flags().BoolVar(&cold, "cold", false, "shut down a guest that runs for the move, and start it again")
	p.add(c)
	plain := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if m.Power = p.power(); cold {
			m.Method = "cold"
		} else if m.Power != (client.Power{}) {
			return cli.Usagef("move %s: --force, --soft and --grace need --cold", args[0])
		}
		return plain(c, args)
	}
	return c
}

func vmMigrate(a *cli.App) *cobra.Command {
	m := client.Move{Method: "live"}
	c := vmGo(a, &m, "migrate NAME", "Migrate an instance to another node while its guest runs")
	c.Long = `Migrate an instance to another node while its guest runs: to the one of --node, or the one
that the placement chooses. All its volumes must be in pools that both nodes share, and
libvirt.migration must be set on the other node. The node from which it goes is kept: seedbed
vm unmigrate takes it back there. With --stay it is not.`
	c.Example = `  seedbed vm migrate web1
  seedbed vm migrate web1 --node hv2`
	c.Flags().BoolVar(&m.Stay, "stay", false, "stay on the other node, without a node to go back to")
	return c
}

func vmUnmigrate(a *cli.App) *cobra.Command {
	var (
		cold bool
		w    cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "unmigrate NAME", Short: "Take an instance back to the node that it was migrated from",
		Long: `Take an instance back to the node that it was migrated from: while its guest runs, or moved
if it is stopped. With --cold a guest that runs is shut down for it, and also if its system
template says migration_method shutdown.`,
		Example: "  seedbed vm unmigrate web1",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			i, err := api.Instance(ctx, args[0])
			if err != nil {
				return err
			}
			receipt, err := api.MigrateInstance(ctx, args[0], client.Move{Back: true, Method: i.LeavesBy(cold)})
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	c.Flags().BoolVar(&cold, "cold", false, "shut down a guest that runs for it, and start it again")
	w.AddJob(a, c)
	return c
}

// vmGo returns a command that takes an instance to another node, as m says when it runs.
func vmGo(a *cli.App, m *client.Move, use, short string) *cobra.Command {
	var (
		dry bool
		w   cli.WaitFlags
	)
	c := &cobra.Command{
		Use: use, Short: short,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if dry {
				return a.ShowPlan(api.PlanMigrate(ctx, args[0], *m))
			}
			receipt, err := api.MigrateInstance(ctx, args[0], *m)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	c.Flags().StringVar(&m.Node, "node", "", "the `NODE` to go to (default: the placement chooses)")
	c.Flags().BoolVar(&dry, "dry-run", false, "only show where it would go and what prevents it")
	w.AddJob(a, c)
	return c
}
