package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"seedbed"
)

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

func (a *App) status(err error) int {
	if err == nil {
		return exitDone
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
