// Command seedbed is the operator's tool. It calls seedbedd's REST API, signs and sends webhooks,
// and looks for problems of the host.
package main

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"seedbed/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	a := &cli.App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Terminal: cli.IsTerminal(os.Stdout), ErrTerminal: cli.IsTerminal(os.Stderr),
		Getenv:   os.Getenv,
		Now:      time.Now,
		Commands: commands,
	}
	status := a.Main(ctx, os.Args[1:])
	stop()
	os.Exit(status)
}
