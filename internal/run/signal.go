package run

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// Signals returns a context that ends at the first SIGINT or SIGTERM. The second signal calls exit
// with status 1 at once. stop restores the signals' default behaviour, and waits.
func Signals(ctx context.Context, log *slog.Logger, exit func(int)) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	got := make(chan os.Signal, 2)
	signal.Notify(got, unix.SIGINT, unix.SIGTERM)
	quit := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			case s := <-got:
				if n > 0 {
					log.Error("second signal, giving up", "signal", s.String())
					exit(1)
					return
				}
				log.Info("stopping", "signal", s.String())
				cancel()
			}
		}
	})
	return ctx, func() {
		signal.Stop(got)
		close(quit)
		wait.Wait()
		cancel()
	}
}
