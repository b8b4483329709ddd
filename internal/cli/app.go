// Package cli is seedbed's command line. It has what all commands share.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
)

// App is one run of the tool.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // whether Out is a terminal
	// ErrTerminal is whether Err is one.
	ErrTerminal bool
	Getenv      func(string) string
	Now         func() time.Time
	Commands    func(*App) []*cobra.Command // the tool's commands

	Flags   GlobalFlags
	job     seedbed.JobOptions          // of the jobs that the command starts
	format  string                      // one of formats, set before a command runs
	bound   map[*cobra.Command][]*Bound // by the command whose fields they set
	failsAs map[*cobra.Command]int      // see FailAs
	started bool                        // the command line was valid, and its command has begun

	completes bool // the shell asks for the rest of a command line, see [App.CompleteFlag]
}

// Main runs one command line and returns the exit status.
func (a *App) Main(ctx context.Context, args []string) int {
	a.completes = len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
	root := a.Root()
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	status := a.status(err)
	switch all, several := errors.AsType[Failures](err); {
	case several:
		for _, e := range all {
			fmt.Fprintln(a.Err, "seedbed:", OneLine(e.Error()))
		}
	case err != nil && err.Error() != "": // an empty one has said everything
		said := err.Error()
		if question := didYouMean(meantNames(ctx, c, err)); question != "" {
			said += " (" + question + ")"
		}
		fmt.Fprintln(a.Err, "seedbed:", OneLine(said))
	}
	if _, said := errors.AsType[usageError](err); status == exitUsage && !said {
		fmt.Fprintln(a.Err, "usage:", c.UseLine())
	}
	if _, elsewhere := errors.AsType[programStatus](err); err != nil && !elsewhere {
		return cmp.Or(a.failsAs[c], status)
	}
	return status
}

// FailAs makes a command end with that exit status whenever it fails by itself: the others are those of a program elsewhere.
func (a *App) FailAs(c *cobra.Command, status int) {
	if a.failsAs == nil {
		a.failsAs = map[*cobra.Command]int{}
	}
	a.failsAs[c] = status
}

// GuestOutputs returns the outputs for the text of a guest. What is a terminal is kept from being controlled by it, unless raw is
// set; what is not gets every byte.
func (a *App) GuestOutputs(raw bool) (out, err io.Writer) {
	out, err = a.Out, a.Err
	if a.Terminal && !raw {
		out = NewSafeWriter(out)
	}
	if a.ErrTerminal && !raw {
		err = NewSafeWriter(err)
	}
	return out, err
}

// These are the exit statuses that longHelp documents.
const (
	exitDone = iota
	exitFailed
	exitUsage
	exitNotFound
	exitRefused
	exitTimedOut
)

// usageError is the error of a wrong command line.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

// Usagef returns the error of a wrong command line.
func Usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// timedOut is the error when --timeout has passed.
type timedOut struct{ msg string }

func (e timedOut) Error() string { return e.msg }

// TimedOutf returns the error when --timeout has passed.
func TimedOutf(format string, args ...any) error { return timedOut{fmt.Sprintf(format, args...)} }

// programStatus is the exit status of a program elsewhere, which the tool's is to be. Without a message, the program has said everything.
type programStatus struct {
	code int
	msg  string
}

func (p programStatus) Error() string { return p.msg }

// Exit returns the error that ends the tool as a program elsewhere has ended: with its exit code, which is not 0. The message may
// be empty.
func Exit(code int, msg string) error { return programStatus{code, msg} }

// status returns the exit status for an error. For several objects it is the one that all failures
// have, and otherwise that of a failure.
func (a *App) status(err error) int {
	if err == nil {
		return exitDone
	}
	if all, ok := errors.AsType[Failures](err); ok && len(all) > 0 {
		first := a.status(all[0])
		for _, e := range all {
			if a.status(e) != first {
				return exitFailed
			}
		}
		return first
	}
	if p, ok := errors.AsType[programStatus](err); ok {
		if p.code&0xff == 0 { // Windows has larger ones
			return exitFailed
		}
		return p.code & 0xff
	}
	if _, ok := errors.AsType[usageError](err); ok || !a.started {
		return exitUsage
	}
	if _, ok := errors.AsType[timedOut](err); ok || errors.Is(err, context.DeadlineExceeded) {
		return exitTimedOut
	}
	if errors.Is(err, seedbed.ErrNotFound) {
		return exitNotFound
	}
	for _, refused := range []error{
		seedbed.ErrExists, seedbed.ErrInvalid, seedbed.ErrInUse, seedbed.ErrForbidden,
		seedbed.ErrUnauthenticated, seedbed.ErrConflict, seedbed.ErrFull,
	} {
		if errors.Is(err, refused) {
			return exitRefused
		}
	}
	return exitFailed
}

// OneLine returns a message without line ends and control characters, because parts of it may come
// from a guest or a server.
func OneLine(s string) string {
	return strings.Join(strings.Fields(Printable(s)), " ")
}
