package storage

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// pool is a pool as nodes report it: a shared one once, and another once for each node.
type pool struct {
	Name   string        `json:"name"`
	Type   string        `json:"type"`
	Nodes  []string      `json:"nodes"`
	Size   seedbed.Bytes `json:"size"`
	Free   seedbed.Bytes `json:"free"`
	Shared bool          `json:"shared"`
	// Problem is why nodes cannot use it, each with its name.
	Problem string `json:"problem,omitempty"`
}

// PoolCommand returns the command pool with its subcommands.
func PoolCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "pool", Aliases: []string{"pools"}, Short: "Show pools, where images and disks are stored",
		Long: `Show pools, where images and disks are stored. They are configured on each node
(storage.pools).`,
	})
	r := cli.Resource[pool]{
		Some: cli.Selected(func(api *client.Client, ctx context.Context, s client.Selection) ([]pool, error) {
			nodes, err := api.Nodes(ctx)
			return poolsOf(nodes, s.Where["node"]), err
		}),
		Filters: []cli.Filter{{Name: "node", Usage: "only those of this `NODE`"}},
		None:    "no node has reported a pool: seedbed node list", Unmatched: "no matching pools",
		Head: []string{"name", "type", "shared", "free", "size", "nodes", "problem"},
		Row: func(p pool) []string {
			free, size := p.Free.Human(), p.Size.Human()
			if p.Size == 0 && p.Problem != "" {
				free, size = "", ""
			}
			return []string{p.Name, p.Type, cli.YesNo(p.Shared), free, size, strings.Join(p.Nodes, ", "), p.Problem}
		},
	}
	c.AddCommand(r.List(a, "list", "List pools, as nodes reported them last"))
	return c
}

// poolsOf returns the pools of nodes, or of the node with that name if it is not empty, by name.
func poolsOf(nodes []seedbed.NodeStatus, only string) []pool {
	all := []pool{}
	for _, n := range nodes {
		if only != "" && n.Name != only {
			continue
		}
		for _, p := range n.Report.Pools {
			problem := ""
			if p.Problem != "" {
				problem = n.Name + ": " + p.Problem
			}
			same := slices.IndexFunc(all, func(q pool) bool { return p.Shared && q.Shared && q.Name == p.Name && q.Type == p.Type })
			if same < 0 {
				all = append(all, pool{p.Name, p.Type, []string{n.Name}, p.Size, p.Free, p.Shared, problem})
				continue
			}
			q := &all[same]
			q.Nodes = append(q.Nodes, n.Name)
			if q.Size == 0 {
				q.Size, q.Free = p.Size, p.Free
			}
			if q.Problem != "" && problem != "" {
				problem = "; " + problem
			}
			q.Problem += problem
		}
	}
	slices.SortStableFunc(all, func(p, q pool) int { return strings.Compare(p.Name, q.Name) })
	return all
}
