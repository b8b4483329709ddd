package run

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Watchdog returns a task that notifies systemd twice per WatchdogSec= that the daemon is alive, as
// long as healthy returns nil within half that time (sd_watchdog_enabled(3)). Without a watchdog,
// the task ends at once.
func Watchdog(log *slog.Logger, healthy func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		limit, err := daemon.SdWatchdogEnabled(false)
		if err != nil {
			return fmt.Errorf("WATCHDOG_USEC: %w", err)
		}
		if limit <= 0 {
			return nil
		}
		tick := time.NewTicker(limit / 2)
		defer tick.Stop()
		for {
			if err := within(ctx, limit/2, healthy); err == nil {
				_, err = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
				if err != nil {
					log.Warn("cannot notify systemd", "state", daemon.SdNotifyWatchdog, "err", err)
				}
			} else if ctx.Err() == nil {
				log.Warn("not healthy: the watchdog is not notified", "err", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	}
}

func within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f(ctx)
}
