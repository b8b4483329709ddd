package guestplane

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/run"
	"seedbed/netcfg"
)

// TakeDown removes what the guest plane made in the kernel. The daemon itself never does that:
// stopping or upgrading it does not affect guests. A running daemon would make everything again, so
// TakeDown returns seedbed.ErrInUse while one runs. Holding the daemon's health address keeps it
// from starting during the cleanup.
func TakeDown(ctx context.Context, health string, log *slog.Logger, force bool) error {
	ln, err := run.ListenLoopback(ctx, health)
	if errors.Is(err, unix.EADDRINUSE) {
		return seedbed.Errorf(seedbed.ErrInUse, "seedbed-metadata is running (it answers on %s): stop it first", health)
	}
	if err != nil {
		return err
	}
	defer ln.Close()
	m, err := netcfg.Open(log)
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Cleanup(ctx, force)
}
