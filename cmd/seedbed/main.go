// Command seedbed is the operator's tool: it calls the REST API of seedbedd,
// signs and sends webhooks, and looks at the host for what is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal: isTerminal(os.Stdout),
		getenv:   os.Getenv,
		now:      time.Now,
	}
	status := a.main(ctx, os.Args[1:])
	stop()
	os.Exit(status)
}

// app is one run of the tool.
type app struct {
	in       io.Reader
	out, err io.Writer
	terminal bool // whether out is one
	getenv   func(string) string
	now      func() time.Time

	flags   globalFlags
	format  string // one of formats, once started
	started bool   // the command line was right, and its command has begun
}

// main runs one command line and gives the exit status.
func (a *app) main(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	status := a.status(err)
	if err != nil {
		fmt.Fprintln(a.err, "seedbed:", oneLine(err.Error()))
	}
	if _, said := errors.AsType[usageError](err); status == exitUsage && !said {
		fmt.Fprintln(a.err, "usage:", c.UseLine())
	}
	return status
}
