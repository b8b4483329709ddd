//go:build !libvirt

package main

import (
	"context"
	"log/slog"

	"seedbed"
	"seedbed/internal/config"
)

// serve returns ErrInvalid: this build has no hypervisor driver.
func serve(context.Context, config.Config, *slog.Logger) error {
	return seedbed.Errorf(seedbed.ErrInvalid,
		"this seedbed-worker was built without its drivers: build it with -tags libvirt (make build does)")
}
