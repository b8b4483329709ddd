// Package cli is seedbed's command line. It has what all commands share.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"seedbed"

	"github.com/spf13/cobra"
)

// App is one run of the tool.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // whether Out is a terminal
	Getenv   func(string) string
	Now      func() time.Time
	Commands func(*App) []*cobra.Command // the tool's commands

	Flags   GlobalFlags
	job     seedbed.JobOptions          // of the jobs that the command starts
	format  string                      // one of formats, set before a command runs
	bound   map[*cobra.Command][]*Bound // by the command whose fields they set
	started bool                        // the command line was valid, and its command has begun
}

// Main runs one command line and returns the exit status.
func (a *App) Main(ctx context.Context, args []string) int {
	root := a.Root()
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	status := a.status(err)
	if err != nil {
		fmt.Fprintln(a.Err, "seedbed:", OneLine(err.Error()))
	}
	if _, said := errors.AsType[usageError](err); status == exitUsage && !said {
		fmt.Fprintln(a.Err, "usage:", c.UseLine())
	}
	return status
}
