package instance

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/internal/cli"
)

func vmTop(a *cli.App) *cobra.Command {
	var top cli.Top
	var node string
	c := &cobra.Command{
		Use: "top", Short: "Show what running instances use",
		Long: `Show what running instances use: processors (100% is one of them), memory, disks and network.
On a terminal, the table is renewed until Ctrl-C; otherwise, and with JSON, it is printed
once. Memory is what the guest uses, if it says so, of what it has; RESIDENT is what that
takes of the node's memory. REQUESTS are those of all disks.`,
		Args: cobra.NoArgs,
		RunE: a.Call(func(ctx context.Context, api *client.Client, _ []string) error {
			return top.Run(ctx, a, api, node, func(all []cli.InstanceRates) error {
				all = top.Sorted(all)
				head := []string{"name", "node", "vcpus"}
				if top.All() {
					head = append([]string{"project"}, head...)
				}
				rows := cli.Each(all, func(i cli.InstanceRates) []string {
					row := []string{i.Name, i.Node, fmt.Sprint(i.VCPUs)}
					if top.All() {
						row = append([]string{i.Project}, row...)
					}
					return append(row, cli.RateCells(i.Rates)...)
				})
				return a.ShowTable(all, append(head, cli.RateHead...), rows, "no running instances")
			})
		}),
	}
	top.AddTo(a, c)
	c.Flags().StringVar(&node, "node", "", "only those on this `NODE`")
	return c
}
