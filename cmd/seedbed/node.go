package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed/api/client"
)

func (a *app) nodeCmd() *cobra.Command {
	c := group(&cobra.Command{Use: "node", Aliases: []string{"nodes"}, Short: "Hypervisors"})
	c.AddCommand(a.nodeList(), a.maintenanceCmd("NODE", "every guest of a node", (*client.Client).AnnounceNode, (*client.Client).NodeMaintenance))
	return c
}

func (a *app) nodeList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the host of seedbedd and those that have instances", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			return list(ctx, a, (*client.Client).Nodes, "no nodes", []string{"name", "control", "instances", "running", "vcpus", "memory"},
				func(n client.Node) []string {
					return []string{n.Name, yesNo(n.Control), strconv.Itoa(n.Instances), strconv.Itoa(n.Running), strconv.Itoa(n.VCPUs), n.Memory.String()}
				})
		}),
	}
}
