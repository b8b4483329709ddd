package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// nodeRates is what the running instances of a node use.
type nodeRates struct {
	Node      string `json:"node"`
	Instances int    `json:"instances"`
	// CPUs and Total are what the node has, Free its memory that is free, and Load its load average over a minute.
	CPUs  int           `json:"cpus"`
	Total seedbed.Bytes `json:"total"`
	Free  seedbed.Bytes `json:"free"`
	Load  float64       `json:"load"`
	cli.Rates
}

func nodeTop(a *cli.App) *cobra.Command {
	var top cli.Top
	c := &cobra.Command{
		Use: "top", Short: "Show what the running instances of each node use",
		Long: `Show what the running instances of each node use: processors (100% is one of them), memory,
disks and network. On a terminal, the table is renewed until Ctrl-C; otherwise, and with JSON,
it is printed once. FREE and LOAD are those of the node as it last reported, with all that
runs there. They do not depend on --all-projects, without which only instances of the project
are counted.`,
		Args: cobra.NoArgs,
		RunE: a.Call(func(ctx context.Context, api *client.Client, _ []string) error {
			return top.Run(ctx, a, api, "", func(all []cli.InstanceRates) error {
				nodes, err := api.ListNodes(ctx, client.Selection{})
				if err != nil {
					return err
				}
				rates := ratesOfNodes(nodes, all)
				slices.SortFunc(rates, func(x, y nodeRates) int { return cmp.Or(top.Compare(x.Rates, y.Rates), cmp.Compare(x.Node, y.Node)) })
				rows := cli.Each(rates, func(n nodeRates) []string {
					return append([]string{n.Node, fmt.Sprint(n.Instances), fmt.Sprint(n.CPUs), fmt.Sprintf("%.2f", n.Load),
						gib(n.Free) + " of " + gib(n.Total)}, cli.RateCells(n.Rates)...)
				})
				return a.ShowTable(rates, append([]string{"name", "running", "cpus", "load", "free"}, cli.RateHead...), rows, "no nodes")
			})
		}),
	}
	top.AddTo(a, c)
	return c
}

// ratesOfNodes adds up what the instances of each node use.
func ratesOfNodes(nodes []seedbed.NodeStatus, instances []cli.InstanceRates) []nodeRates {
	all := cli.Each(nodes, func(n seedbed.NodeStatus) nodeRates {
		return nodeRates{Node: n.Name, CPUs: n.Report.CPUs, Total: n.Report.Memory, Free: n.Report.MemoryFree, Load: n.Report.Load}
	})
	for _, i := range instances {
		if at := slices.IndexFunc(all, func(n nodeRates) bool { return n.Node == i.Node }); at >= 0 {
			all[at].Instances++
			all[at].Rates = all[at].Rates.Plus(i.Rates)
		}
	}
	return all
}
