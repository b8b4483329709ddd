package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// followAll prints the events of all jobs after a place, as they come. In JSON it prints one event
// per line. It returns without an error when it is interrupted or its time has passed.
func followAll(ctx context.Context, a *cli.App, api *client.Client, after int64, timeout time.Duration) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	err := api.FollowEvents(limited, after, func(e seedbed.NumberedEvent) error {
		if a.JSON() {
			return json.NewEncoder(a.Out).Encode(e)
		}
		_, err := fmt.Fprintf(a.Out, "%s %s %s %-18s %-8s %s\n", e.At.Local().Format(time.TimeOnly), e.Job.Short(), a.Level(e.Level),
			string(e.Kind)+" "+cli.Printable(e.Subject), e.Stage, cli.OneLine(e.Msg))
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
