package cluster

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// StatusCommand returns the command status.
func StatusCommand(a *cli.App) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "status", Short: "Show the installation on one screen",
		Long: `Show the installation on one screen: its health, and the objects and the last jobs of the
project. "seedbed doctor" also checks this host and suggests what to do.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, _ []string) error {
			var in seedbed.Scope
			if all {
				in = seedbed.AllProjects()
			}
			o, err := api.Overview(ctx, in)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(o)
			}
			printOverview(a, api.Where(), o)
			return nil
		}),
	}
	c.Flags().BoolVar(&all, cli.AllProjects, false, "count what all projects have, which only an admin of the installation sees")
	return c
}

func printOverview(a *cli.App, where string, o wire.Overview) {
	health := fmt.Sprintf("all %d checks passed", o.Checks)
	if len(o.Wrong) > 0 {
		health = fmt.Sprintf("%d of %d checks found a problem: seedbed doctor", len(o.Wrong), o.Checks)
	}
	all, running := o.Counts.Total(), o.Counts.Total(seedbed.InstanceRunning)
	nodes, on := nodeStates(o.Nodes), " on "+o.Node
	if o.Node == "" { // it is kept from the caller
		health, nodes, on = "", "", ""
	}
	a.PrintPairs([][2]string{
		{"seedbedd", fmt.Sprintf("%s%s, at %s", o.Version, on, where)},
		{"health", health},
		{"nodes", nodes},
		{"project", cmp.Or(o.Project, "all")},
		{"instances", fmt.Sprintf("%d%s", all.Count, states(o.Counts))},
		{"allocated", fmt.Sprintf("%d vCPUs, %s (running: %d vCPUs, %s)", all.VCPUs, all.Memory, running.VCPUs, running.Memory)},
		{"volumes", fmt.Sprintf("%d, %s", o.Counts.Volumes, o.Counts.Disks)},
		{"jobs", fmt.Sprintf("%d running, %d queued, %d rolling back; %d failed in the last 24 hours",
			o.Counts.Jobs[seedbed.JobRunning], o.Counts.Jobs[seedbed.JobQueued], o.Counts.Jobs[seedbed.JobUndoing], o.Counts.Failed)},
		{"catalogue", fmt.Sprintf("%d images, %d profiles, %d networks", o.Counts.Images, o.Counts.Profiles, o.Counts.Networks)},
	})
	if len(o.Wrong) > 0 {
		fmt.Fprintln(a.Out)
		rows := cli.Each(o.Wrong, func(c seedbed.Check) []string { return []string{"problem", c.Name, cli.OneLine(c.Detail)} })
		a.PrintTable([]string{"", "check", "found"}, rows, "")
	}
	fmt.Fprintln(a.Out)
	a.PrintTable([]string{"job", "kind", "subject", "state", "stage", "started", "took"}, cli.Each(o.Jobs, a.JobRow), "no jobs yet")
}

// nodeStates returns the nodes by state, such as "3: 2 ready, 1 away".
func nodeStates(nodes map[seedbed.NodeState]int) string {
	var parts []string
	all := 0
	for _, s := range []seedbed.NodeState{seedbed.NodeReady, seedbed.NodeCordoned, seedbed.NodeAway, seedbed.NodeFenced} {
		if n := nodes[s]; n > 0 {
			all += n
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if all == 0 {
		return "0"
	}
	return fmt.Sprintf("%d: %s", all, strings.Join(parts, ", "))
}

// states returns the instances by state, such as ": 3 running, 1 stopped".
func states(c seedbed.Counts) string {
	var parts []string
	for _, s := range seedbed.InstanceStates() {
		if n := c.Total(s).Count; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return cli.When(len(parts) > 0, ": "+strings.Join(parts, ", "))
}
