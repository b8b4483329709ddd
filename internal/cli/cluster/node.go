package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// NodeCommand returns the command node with its subcommands.
func NodeCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "node", Aliases: []string{"nodes"}, Short: "Manage nodes"})
	r := nodes(a)
	c.AddCommand(r.List(a, "list", "List nodes"), r.Show(a, "show NODE", "Show a node"), nodeTop(a), nodeAdd(a), nodeSet(a), nodeRemove(a),
		nodeCordon(a, "cordon NODE", "Exclude a node from placement", true),
		nodeCordon(a, "uncordon NODE", "Include a node in placement again", false), nodeDrain(a), nodeReady(a), nodeRebalance(a), nodeFence(a),
		a.MaintenanceCommand("NODE", "every guest of a node", (*client.Client).AnnounceNode, (*client.Client).NodeMaintenance))
	return c
}

func nodes(a *cli.App) cli.Resource[seedbed.NodeStatus] {
	return cli.Resource[seedbed.NodeStatus]{
		Some:    cli.Selected((*client.Client).ListNodes),
		Filters: []cli.Filter{cli.NameFilter(), cli.WordFilter("state", "only in this `STATE`", seedbed.NodeStates())},
		None:    "no nodes: seedbed node add NODE --worker https://…", Unmatched: "no matching nodes",
		Head: []string{"name", "state", "instances", "running", "vcpus", "memory", "free", "load", "seen"},
		Row: func(n seedbed.NodeStatus) []string {
			row := []string{
				n.Name, string(n.State), strconv.Itoa(n.Instances), strconv.Itoa(n.Running),
				strconv.Itoa(n.VCPUs), gib(n.Memory), "", "", a.Ago(n.Seen),
			}
			if r := n.Report; r.CPUs > 0 {
				row[4], row[5] = fmt.Sprintf("%d of %d", n.VCPUs, r.CPUs), gib(n.Memory)+" of "+gib(r.Memory)
				row[6], row[7] = gib(r.MemoryFree), fmt.Sprintf("%.2f", r.Load)
			}
			return row
		},
		One: cli.Named((*client.Client).Node), Pairs: nodePairs,
	}
}

// gib returns a size in GiB with one decimal, because the sizes of nodes are rarely round numbers.
func gib(b seedbed.Bytes) string { return fmt.Sprintf("%.1fGiB", float64(b)/float64(seedbed.GiB)) }

func nodePairs(a *cli.App, n seedbed.NodeStatus) [][2]string {
	worker := n.Worker
	if worker == "" && !n.Created.IsZero() { // a removed node has no worker
		worker = "on the socket of the control host " + n.Name
	}
	pairs := [][2]string{
		{"name", n.Name}, {"state", string(n.State)}, {"problem", n.Problem}, {"worker", worker},
		{"fence agent", n.Fencing.Agent}, {"fenced", a.Moment(n.Fencing.Fenced)}, {"fence failed", n.Fencing.Problem},
		{"cordoned", cli.YesNo(n.Cordoned)}, {"control", cli.YesNo(n.Control)},
		{"instances", fmt.Sprintf("%d, %d running", n.Instances, n.Running)},
		{"vcpus allocated", strconv.Itoa(n.VCPUs)}, {"memory allocated", gib(n.Memory)},
		{"seen", a.Moment(n.Seen)}, {"added", a.Moment(n.Created)},
	}
	if r := n.Report; r.CPUs > 0 {
		pairs = append(pairs, [][2]string{
			{"cpus", strconv.Itoa(r.CPUs)}, {"load", fmt.Sprintf("%.2f", r.Load)},
			{"memory", fmt.Sprintf("%s, %s free", gib(r.Memory), gib(r.MemoryFree))},
			{"domains", fmt.Sprintf("%d running, including foreign ones", r.Domains)}, {"hypervisor", r.Hypervisor + " on " + r.Arch},
			{"overlay address", overlayAddress(r)},
		}...)
	}
	for _, network := range slices.Sorted(maps.Keys(n.Report.LeftOut)) {
		pairs = append(pairs, [2]string{"left out", network + ": " + n.Report.LeftOut[network]})
	}
	for _, p := range n.Report.Pools {
		room := fmt.Sprintf("%s of %s free", gib(p.Free), gib(p.Size))
		if p.Problem != "" {
			room = "unavailable: " + p.Problem
		}
		pairs = append(pairs, [2]string{"pool " + p.Name, p.Type + cli.When(p.Shared, ", shared") + ", " + room})
	}
	return pairs
}

// overlayAddress returns where other nodes send the frames of overlays, with the MTU of the interface, and the
// public key of a node that encrypts them.
func overlayAddress(r seedbed.NodeReport) string {
	text := cli.When(r.Address.IsValid(), r.Address.String())
	if r.AddressMTU != 0 {
		text += fmt.Sprintf(", MTU %d", r.AddressMTU)
	}
	if r.Tunnel.Port != 0 {
		key := "key " + r.Tunnel.Key.String()
		if !r.Tunnel.Keyed() {
			key = "its key is not known"
		}
		text += fmt.Sprintf(", encrypted: UDP port %d, %s", r.Tunnel.Port, key)
	}
	return text
}

func nodeAdd(a *cli.App) *cobra.Command {
	var r wire.NodeRequest
	c := &cobra.Command{
		Use: "add NODE --worker URL", Short: "Add a node",
		Long: `Add a node by the name in its configuration (node) and its certificates (seedbed
cluster issue). A control host adds itself.`,
		Example: `  seedbed node add hv2 --worker https://hv2.example:7375`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Name = args[0]
			n, err := api.AddNode(ctx, r)
			return a.Tell(err, n, "node %s added; its worker is being queried (seedbed node show %s)", n.Name, n.Name)
		}),
	}
	a.Fill(c, &r,
		cli.Flag{Field: "worker", Usage: "`URL` of its seedbed-worker for control hosts (worker.cluster_listen)", Required: true},
		cli.Flag{Field: "cordoned", Usage: "add it cordoned"},
	)
	return c
}

func nodeSet(a *cli.App) *cobra.Command {
	var r wire.NodeChange
	c := &cobra.Command{
		Use: "set NODE --worker URL", Short: "Change the URL of a node's worker",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			return changeNode(ctx, a, api, args[0], r, "the worker of node %s is now reached at the new URL")
		}),
	}
	a.Fill(c, &r, cli.Flag{
		Field: "worker", Required: true,
		Usage: "`URL` of its seedbed-worker for control hosts; empty for the socket of the control host of that name",
	})
	return c
}

func nodeCordon(a *cli.App, use, short string, cordoned bool) *cobra.Command {
	done := "node %s is cordoned: existing instances stay, new ones go elsewhere"
	if !cordoned {
		done = "node %s is no longer cordoned"
	}
	return &cobra.Command{
		Use: use, Short: short,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			return changeNode(ctx, a, api, args[0], wire.NodeChange{Cordoned: &cordoned}, done)
		}),
	}
}

func changeNode(ctx context.Context, a *cli.App, api *client.Client, name string, change wire.NodeChange, done string) error {
	n, err := api.ChangeNode(ctx, name, change)
	return a.Tell(err, n, done, n.Name)
}

func nodeRemove(a *cli.App) *cobra.Command {
	c := a.RemoveCommand("remove NODE", "Remove an empty node", "Remove node %s", "node %s removed", (*client.Client).RemoveNode)
	c.Long = `Remove a node that is cordoned (seedbed node cordon) and has no instances, no queued or
running jobs, and no images that only it can reach. A control host that is also a node
adds itself again when its seedbedd starts, unless its configuration has
"hypervisor: false".`
	return c
}
