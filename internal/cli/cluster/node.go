package cluster

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

func NodeCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "node", Aliases: []string{"nodes"}, Short: "Hypervisors"})
	c.AddCommand(nodeList(a), nodeShow(a), nodeAdd(a), nodeSet(a), nodeRemove(a),
		nodeCordon(a, "cordon NODE", "Give a node no new instances", true), nodeCordon(a, "uncordon NODE", "Let a node have new instances again", false),
		a.MaintenanceCommand("NODE", "every guest of a node", (*client.Client).AnnounceNode, (*client.Client).NodeMaintenance))
	return c
}

func nodeList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the hypervisors", Args: cobra.NoArgs,
		RunE: a.Do(func(ctx context.Context, _ []string) error {
			return cli.List(ctx, a, (*client.Client).Nodes, "no nodes: seedbed node add NODE --worker https://…", []string{"name", "state", "instances", "running", "vcpus", "memory", "free", "load", "seen"},
				func(n seedbed.NodeStatus) []string {
					row := []string{n.Name, string(n.State), strconv.Itoa(n.Instances), strconv.Itoa(n.Running), strconv.Itoa(n.VCPUs), gib(n.Memory), "", "", a.Ago(n.Seen)}
					if r := n.Report; r.CPUs > 0 {
						row[4], row[5] = fmt.Sprintf("%d of %d", n.VCPUs, r.CPUs), gib(n.Memory)+" of "+gib(r.Memory)
						row[6], row[7] = gib(r.MemoryFree), fmt.Sprintf("%.2f", r.Load)
					}
					return row
				})
		}),
	}
}

// gib is a size in GiB, to a tenth: what nodes have is no round number.
func gib(b seedbed.Bytes) string { return fmt.Sprintf("%.1fGiB", float64(b)/float64(seedbed.GiB)) }

func nodeShow(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "show NODE", Short: "Show a hypervisor", Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			return cli.Show(ctx, a, (*client.Client).Node, args[0], func(n seedbed.NodeStatus) [][2]string { return nodePairs(a, n) })
		}),
		ValidArgsFunction: a.Completion(cli.Nodes),
	}
}

func nodePairs(a *cli.App, n seedbed.NodeStatus) [][2]string {
	worker := n.Worker
	if worker == "" && !n.Created.IsZero() { // one that is none any more has no worker
		worker = "on the socket of the control host " + n.Name
	}
	pairs := [][2]string{
		{"name", n.Name}, {"state", string(n.State)}, {"problem", n.Problem}, {"worker", worker}, {"cordoned", cli.YesNo(n.Cordoned)}, {"control", cli.YesNo(n.Control)},
		{"instances", fmt.Sprintf("%d, %d running", n.Instances, n.Running)}, {"vcpus given out", strconv.Itoa(n.VCPUs)}, {"memory given out", gib(n.Memory)},
		{"seen", a.Moment(n.Seen)}, {"added", a.Moment(n.Created)},
	}
	if r := n.Report; r.CPUs > 0 {
		pairs = append(pairs, [][2]string{
			{"cpus", strconv.Itoa(r.CPUs)}, {"load", fmt.Sprintf("%.2f", r.Load)}, {"memory", fmt.Sprintf("%s, %s free", gib(r.Memory), gib(r.MemoryFree))},
			{"domains", fmt.Sprintf("%d running, of others too", r.Domains)}, {"hypervisor", r.Hypervisor + " on " + r.Arch},
		}...)
	}
	for _, p := range n.Report.Pools {
		shared := ""
		if p.Shared {
			shared = ", shared"
		}
		pairs = append(pairs, [2]string{"pool " + p.Name, fmt.Sprintf("%s, %s of %s free%s", p.Type, gib(p.Free), gib(p.Size), shared)})
	}
	return pairs
}

func nodeAdd(a *cli.App) *cobra.Command {
	var r client.NodeRequest
	c := &cobra.Command{
		Use: "add NODE --worker URL", Short: "Add a hypervisor",
		Long: `Add a hypervisor by the name that it has in its own configuration (node) and
certificates (seedbed cluster issue). A control host adds itself.`,
		Example: `  seedbed node add hv2 --worker https://hv2.example:7375`,
		Args:    cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			r.Name = args[0]
			api, err := a.Client()
			if err != nil {
				return err
			}
			n, err := api.AddNode(ctx, r)
			if err != nil {
				return err
			}
			return tellNode(a, n, "node %s added; its worker is asked for what it has now (seedbed node show %s)", n.Name, n.Name)
		}),
	}
	c.Flags().StringVar(&r.Worker, "worker", "", "`URL` at which its seedbed-worker serves control hosts (worker.cluster_listen)")
	c.Flags().BoolVar(&r.Cordoned, "cordoned", false, "give it no instances yet")
	_ = c.MarkFlagRequired("worker") // the flag exists: it was added above
	return c
}

func nodeSet(a *cli.App) *cobra.Command {
	var worker string
	c := &cobra.Command{
		Use: "set NODE --worker URL", Short: "Change where a hypervisor's worker is", Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			return changeNode(ctx, a, args[0], client.NodeChange{Worker: &worker}, "the worker of node %s is asked at the new address")
		}),
		ValidArgsFunction: a.Completion(cli.Nodes),
	}
	c.Flags().StringVar(&worker, "worker", "", "`URL` at which its seedbed-worker serves control hosts; empty for the socket of the control host of that name")
	_ = c.MarkFlagRequired("worker") // the flag exists: it was added above
	return c
}

func nodeCordon(a *cli.App, use, short string, cordoned bool) *cobra.Command {
	done := "node %s keeps what it has, and is given no new instances"
	if !cordoned {
		done = "node %s is given new instances again"
	}
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			return changeNode(ctx, a, args[0], client.NodeChange{Cordoned: &cordoned}, done)
		}),
		ValidArgsFunction: a.Completion(cli.Nodes),
	}
}

func changeNode(ctx context.Context, a *cli.App, name string, change client.NodeChange, done string) error {
	api, err := a.Client()
	if err != nil {
		return err
	}
	n, err := api.ChangeNode(ctx, name, change)
	if err != nil {
		return err
	}
	return tellNode(a, n, done, n.Name)
}

// tellNode tells what became of a node.
func tellNode(a *cli.App, n seedbed.NodeStatus, format string, args ...any) error {
	if a.JSON() {
		return a.PrintJSON(n)
	}
	a.Say(format, args...)
	return nil
}

func nodeRemove(a *cli.App) *cobra.Command {
	c := a.RemoveCommand("Forget a hypervisor that has nothing left", "Forget node %s", "node %s is forgotten", (*client.Client).RemoveNode)
	c.Use = "remove NODE"
	c.Long = `Forget a hypervisor that is cordoned (seedbed node cordon) and has no instances, no
jobs that wait or run, and no images that no other node can reach. A control host
that is a hypervisor is there again when its seedbedd starts, unless its
configuration has "hypervisor: false".`
	c.ValidArgsFunction = a.Completion(cli.Nodes)
	return c
}
