package seedbed

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of error that callers match with errors.Is. Drivers translate foreign errors into one
// of them at their edge; the HTTP servers map each to one status code.
var (
	// ErrNotFound: the named thing does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists: a thing of that name exists already, or a claim is held.
	ErrExists = errors.New("already exists")
	// ErrInvalid: the request itself is wrong, and would be wrong at any time.
	ErrInvalid = errors.New("invalid")
	// ErrInUse: the thing cannot be removed or changed because something uses it.
	ErrInUse = errors.New("in use")
	// ErrForbidden: the caller is known, but may not do this.
	ErrForbidden = errors.New("forbidden")
	// ErrUnauthenticated: the caller did not prove who it is.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrStale: a newer epoch owns the job, so this writer must stop at once.
	ErrStale = errors.New("stale epoch")
	// ErrFull: the pool, disk or quota has no room left.
	ErrFull = errors.New("no space left")
	// ErrUnavailable: something that is needed does not answer; a later attempt may succeed.
	ErrUnavailable = errors.New("unavailable")
	// ErrConflict: the thing exists, but does not belong to Seedbed or is not as it must be.
	ErrConflict = errors.New("conflict")
	// ErrVersion: the database was written by a newer release.
	ErrVersion = errors.New("version mismatch")
)

// Error is an error of one Kind. Its text is written for the person who reads it: what is wrong,
// where, and what would be right.
type Error struct {
	// Kind is one of the sentinels of this package.
	Kind error
	// Msg is the whole message.
	Msg string
	// Holder is the job that holds the claim, for ErrExists of a claim; else empty.
	Holder JobID
}

// Error returns the message.
func (e *Error) Error() string { return e.Msg }

// Unwrap returns the kind, so that errors.Is matches it.
func (e *Error) Unwrap() error { return e.Kind }

// Errorf returns an *Error of kind with a formatted message.
func Errorf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Msg: fmt.Sprintf(format, args...)}
}

var kinds = []struct {
	name string
	err  error
}{
	{"not_found", ErrNotFound},
	{"exists", ErrExists},
	{"invalid", ErrInvalid},
	{"in_use", ErrInUse},
	{"forbidden", ErrForbidden},
	{"unauthenticated", ErrUnauthenticated},
	{"stale", ErrStale},
	{"full", ErrFull},
	{"unavailable", ErrUnavailable},
	{"conflict", ErrConflict},
	{"version", ErrVersion},
}

// KindName returns the wire name of err's kind, such as "not_found", or "internal" for an error
// without a kind. The protocols between the programs carry it.
func KindName(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "internal"
}

// KindError is the inverse of KindName. It returns an *Error with the kind that name stands for and
// the text msg, or a plain error for an unknown name.
func KindError(name, msg string) error {
	for _, k := range kinds {
		if k.name == name {
			return &Error{Kind: k.err, Msg: msg}
		}
	}
	return errors.New(msg)
}

// clipAt is how many bytes Clip keeps.
const clipAt = 80

// Clip bounds what a message quotes of untrusted text. It returns at most 80 bytes, as ClipTo does,
// and adds the length of s if that is longer.
func Clip(s string) string {
	if len(s) <= clipAt {
		return ClipTo(s, clipAt)
	}
	return fmt.Sprintf("%s (%d bytes)", ClipTo(s, clipAt), len(s))
}

// ClipTo returns at most n bytes of s, and "…" if s is longer. It replaces invalid UTF-8 by U+FFFD.
func ClipTo(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
