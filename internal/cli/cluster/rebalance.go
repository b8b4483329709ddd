package cluster

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// nodeRebalance returns the command that takes instances from nodes that have much to others.
func nodeRebalance(a *cli.App) *cobra.Command {
	var (
		parallel, moves int
		by              string
		dry             bool
	)
	c := &cobra.Command{
		Use: "rebalance", Short: "Take instances to other nodes, so that these are loaded alike",
		Long: `Take instances from nodes with much of what instances were given to nodes with little,
until these differ by less than a tenth. Few instances move, each one by an ordinary job,
and stay where they go. Placement groups, limits of system templates and cordons are
respected. What cannot leave its node, and what was migrated for a while only, is left
where it is. With --dry-run, nothing moves.`,
		Example: `  seedbed node rebalance --dry-run
  seedbed node rebalance --by vcpus --moves 5 --parallel 2`,
		Args: cobra.NoArgs,
		RunE: a.Call(func(ctx context.Context, api *client.Client, _ []string) error {
			if err := checkParallel(parallel); err != nil {
				return err
			}
			if moves < 1 || moves > seedbed.MaxRebalance {
				return cli.Usagef("--moves %d: expected 1 to %d", moves, seedbed.MaxRebalance)
			}
			plan, err := api.Rebalancing(ctx, by, moves)
			if err != nil {
				return err
			}
			if dry {
				return showRebalancing(a, plan)
			}
			if len(plan.Moves) == 0 {
				if a.JSON() {
					return a.PrintJSON([]seedbed.Job{})
				}
				a.Say("nothing is to be moved")
				return nil
			}
			return moveAll(ctx, a, api, parallel, cli.Each(plan.Moves, func(m seedbed.RebalanceMove) departure {
				return departure{seedbed.Named(m.Project, m.Name), client.Move{Node: m.To, Method: m.Method, Stay: true},
					fmt.Sprintf("has gone from node %s to %s", m.From, m.To)}
			}))
		}),
	}
	c.Flags().IntVar(&parallel, "parallel", 1, "move `N` instances at the same time, up to 32")
	c.Flags().IntVar(&moves, "moves", 10, "move `N` instances at most, up to 100")
	c.Flags().StringVar(&by, "by", seedbed.BalanceMemory, "what is balanced, as `RESOURCE`: memory or vcpus")
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would move")
	return c
}

func showRebalancing(a *cli.App, plan seedbed.Rebalancing) error {
	if a.JSON() {
		return a.PrintJSON(plan)
	}
	a.PrintTable([]string{"instance", "from", "to", "method", "vcpus", "memory"},
		cli.Each(plan.Moves, func(m seedbed.RebalanceMove) []string {
			return []string{seedbed.Named(m.Project, m.Name).String(), m.From, m.To, m.Method, cli.Number(m.VCPUs), cli.Size(m.Memory)}
		}), "nothing is to be moved")
	fmt.Fprintln(a.Out)
	a.PrintTable([]string{"node", "now", "then"}, cli.Each(plan.Loads, func(l seedbed.NodeLoad) []string {
		return []string{l.Node, fmt.Sprintf("%.0f%%", l.Before), fmt.Sprintf("%.0f%%", l.After)}
	}), "")
	return nil
}
