package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// waitEvery is the interval at which an instance is read that is waited for.
const waitEvery = 500 * time.Millisecond

// The conditions that "vm wait" knows besides the states of an instance.
const (
	waitReady   = "ready"
	waitRemoved = "removed"
)

func vmWait(a *cli.App) *cobra.Command {
	var (
		w   cli.WaitFlags
		sel selection
	)
	until := waitReady
	c := &cobra.Command{
		Use: "wait NAME...", Short: "Wait until instances are ready, running, stopped or removed",
		Long: `Wait until instances are ready, running, stopped or removed. An instance is ready when
what its profile waits for has happened: it was started, has fetched its user-data, or
has reported. Waiting for an instance that failed, or whose domain is gone, is an error,
and so is waiting for one that does not exist, unless until it is removed. After
--timeout the exit status is 5.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			names, err := sel.names(ctx, a, api, args)
			if err != nil {
				return err
			}
			limited, cancel := cli.Limited(ctx, w.Timeout)
			defer cancel()
			return cli.ForEach(names, func(name string) error {
				err := awaitInstance(limited, api, name, until)
				if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
					return cli.TimedOutf("%s is not %s after %s", name, until, w.Timeout)
				}
				return a.Report(err, "%s is %s", name, until)
			})
		}),
	}
	sel.add(a, c)
	cli.AddChoice(a, c, &until, "for", "", "`CONDITION` to wait for",
		waitReady, string(seedbed.InstanceRunning), string(seedbed.InstanceStopped), waitRemoved)
	w.AddTimeout(c)
	return c
}

// awaitInstance returns when an instance is as until says, or when it cannot become so by itself.
func awaitInstance(ctx context.Context, api *client.Client, name, until string) error {
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	for {
		i, err := api.Instance(ctx, name)
		switch {
		case errors.Is(err, seedbed.ErrNotFound) && until == waitRemoved:
			return nil
		case err != nil:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		case is(i, until):
			return nil
		case until != waitRemoved && (i.State == seedbed.InstanceFailed || i.State == seedbed.InstanceGone):
			return fmt.Errorf("instance %q is %s, and does not become %s by itself: seedbed vm show %s", name, i.State, until, name)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// is reports whether an instance is as until says.
func is(i seedbed.Instance, until string) bool {
	if until != waitReady {
		return string(i.State) == until
	}
	if i.State != seedbed.InstanceRunning {
		return false
	}
	switch i.Ready {
	case seedbed.ReadyReport:
		return !i.Reported.IsZero()
	case seedbed.ReadyStarted:
		return true
	}
	return !i.Fetched.IsZero()
}
