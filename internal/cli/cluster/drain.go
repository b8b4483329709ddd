package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// maxParallel is how many instances a drain takes away at the same time at most.
const maxParallel = 32

// nodeDrain returns the command that empties a node.
func nodeDrain(a *cli.App) *cobra.Command {
	var (
		parallel int
		cold     bool
	)
	c := &cobra.Command{
		Use: "drain NODE", Short: "Take all instances of a node to other nodes",
		Long: `Cordon a node, and take all its instances to other nodes, which the placement chooses:
those that run are migrated while they run, and those that are stopped are moved. One whose
system template says migration_method shutdown is shut down for it, and with --cold each one.
An instance that cannot leave is named at the end, and the others still go. The command can be
repeated. seedbed node ready takes those that were migrated back, and lets new ones come again. Guests
read at events/maintenance that their host is to be maintained, as with seedbed node cordon.`,
		Example: `  seedbed node drain hv2
  seedbed node drain hv2 --parallel 4`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if err := checkParallel(parallel); err != nil {
				return err
			}
			of := seedbed.InstanceQuery{Node: args[0], Scope: seedbed.AllProjects()}
			may := of
			may.Limit = 1
			if _, err := api.ListInstances(ctx, may); err != nil { // before anything is changed
				return err
			}
			cordoned := true
			if _, err := api.ChangeNode(ctx, args[0], wire.NodeChange{Cordoned: &cordoned}); err != nil {
				return err
			}
			all, err := api.ListInstances(ctx, of)
			if err != nil {
				return err
			}
			if err := drain(ctx, a, api, args[0], all, parallel, cold); err != nil {
				return err
			}
			left, err := api.ListInstances(ctx, of)
			if err != nil {
				return err
			}
			if len(left) > 0 { // those were on their way to the node, or being made
				return seedbed.Errorf(seedbed.ErrConflict, "node %s has %d more instances, such as %s: drain it again", args[0], len(left),
					left[0].FullName())
			}
			a.Say("node %s is cordoned, and has no instances", args[0])
			return nil
		}),
	}
	c.Flags().IntVar(&parallel, "parallel", 1, "take `N` instances away at the same time, up to 32")
	c.Flags().BoolVar(&cold, "cold", false, "shut down guests that run, and start them on the other node")
	return c
}

// nodeReady returns the command that ends a drain.
func nodeReady(a *cli.App) *cobra.Command {
	var parallel int
	c := &cobra.Command{
		Use: "ready NODE", Short: "Use a node again, and take back the instances that were migrated from it",
		Long: `Uncordon a node, and take the instances back that were migrated from it for a while, as
seedbed vm unmigrate does with each. Those that were moved or stay where they are for good
are not among them. What was announced to the guests of the node ends. An instance that
cannot come back is named at the end, and the others still do. The command can be repeated.`,
		Example: `  seedbed node ready hv2`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if err := checkParallel(parallel); err != nil {
				return err
			}
			all, err := api.ListInstances(ctx, seedbed.InstanceQuery{Scope: seedbed.AllProjects()})
			if err != nil { // before anything is changed
				return err
			}
			cordoned := false
			if _, err := api.ChangeNode(ctx, args[0], wire.NodeChange{Cordoned: &cordoned}); err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(i seedbed.Instance) bool { return i.Home != args[0] })
			err = moveAll(ctx, a, api, parallel, cli.Each(all, func(i seedbed.Instance) departure {
				return departure{i.FullName(), client.Move{Back: true, Method: i.LeavesBy(false)}, "is back on node " + args[0]}
			}))
			if err == nil {
				a.Say("node %s is no longer cordoned", args[0])
			}
			return err
		}),
	}
	c.Flags().IntVar(&parallel, "parallel", 1, "take `N` instances back at the same time, up to 32")
	return c
}

func checkParallel(n int) error {
	if n < 1 || n > maxParallel {
		return cli.Usagef("--parallel %d: expected 1 to %d", n, maxParallel)
	}
	return nil
}

// departure is an instance that is to leave its node.
type departure struct {
	instance seedbed.InstanceName
	by       client.Move
	done     string // what is said then
}

// drained is what became of an instance.
type drained struct {
	departure
	job seedbed.Job
	err error
}

// drain takes instances away from a node, some at a time, and prints what becomes of each.
func drain(ctx context.Context, a *cli.App, api *client.Client, node string, all []seedbed.Instance, parallel int, cold bool) error {
	return moveAll(ctx, a, api, parallel, cli.Each(all, func(i seedbed.Instance) departure {
		return departure{i.FullName(), client.Move{Method: i.LeavesBy(cold)}, "has left node " + node}
	}))
}

// moveAll takes instances to other nodes in their order, some at a time, and prints what becomes of each.
func moveAll(ctx context.Context, a *cli.App, api *client.Client, parallel int, all []departure) error {
	slots, ends := make(chan struct{}, parallel), make(chan drained)
	go func() {
		for _, d := range all {
			slots <- struct{}{}
			go func() {
				job, err := leave(ctx, api, d)
				<-slots
				ends <- drained{d, job, err}
			}()
		}
	}()
	var failed cli.Failures
	jobs := []seedbed.Job{}
	for range all {
		end := <-ends
		if end.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", end.instance, end.err))
			continue
		}
		jobs = append(jobs, end.job)
		a.Say("%s %s", end.instance, end.done)
	}
	if a.JSON() {
		if err := a.PrintJSON(jobs); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

// leave takes one instance to another node, and waits until it is there.
func leave(ctx context.Context, api *client.Client, d departure) (seedbed.Job, error) {
	in := api.In(d.instance.Project)
	receipt, err := in.MigrateInstance(ctx, d.instance.Name, d.by)
	if err != nil {
		return seedbed.Job{}, err
	}
	job, err := in.WaitJob(ctx, string(receipt.Job), nil)
	if err == nil && job.State != seedbed.JobSucceeded {
		err = fmt.Errorf("it is still there: %s (seedbed job show %s)", strings.TrimSpace(job.Error), job.ID.Short())
	}
	return job, err
}
