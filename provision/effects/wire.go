package effects

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"seedbed"
)

// Request is the body of every call.
type Request struct {
	// ID is the client's name for this call; a cancel with this ID ends only this call.
	ID string `json:"id,omitempty"`
	// Call is set for effects, but not for queries.
	Call seedbed.Call `json:"call,omitzero"`
	// Incarnation is that of the worker's node, as the client knows it.
	Incarnation int64 `json:"incarnation,omitempty"`
	// TimeoutMS is how long the call may take, in milliseconds. Only watch may set zero.
	TimeoutMS int64           `json:"timeout_ms,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
}

// Line is one line of an answer: one of its fields is set.
type Line struct {
	Progress *seedbed.Progress    `json:"progress,omitempty"`
	Event    *seedbed.DomainEvent `json:"event,omitempty"`
	Output   *seedbed.OutputLine  `json:"output,omitempty"`
	Result   json.RawMessage      `json:"result,omitempty"`
	Error    *Failure             `json:"error,omitempty"`
}

// Failure carries an error's kind and text.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// CancelCall is the name of the call that ends calls. Its Request has no arguments.
const CancelCall = "cancel"

const (
	// Keepalive is the longest time between two lines.
	Keepalive = time.Second
	// MaxDomainXML is how many definitions of domains one query asks for.
	MaxDomainXML = 500
	// MaxTimeout is the longest time that a call may ask for.
	MaxTimeout = 24 * time.Hour
	// MaxRequest limits what is read of a request, in bytes.
	MaxRequest = 8 << 20
	// MaxResult limits what is read of a line with a result, in bytes.
	MaxResult = 64 << 20
	// MaxLine limits every other line. The longest are those of output, whose text of
	// seedbed.MaxOutputLine is six times as long if JSON escapes every byte.
	MaxLine = 64 << 10
	// maxMessage limits an error's text, which JSON may lengthen by the same factor.
	maxMessage = 8 << 10
	// MaxConsole is the most that is read of a console in one call.
	MaxConsole = 16 * seedbed.MiB
)

// OfNoKind reports whether err has no kind that callers can match.
func OfNoKind(err error) bool { return seedbed.KindName(err) == "internal" }

// FailureLine returns the answer to a call that failed. If the call's context has ended, the
// context's cause replaces an error without a kind.
func FailureLine(ctx context.Context, err error) Line {
	if ctx.Err() != nil && OfNoKind(err) {
		err = context.Cause(ctx)
	}
	return ErrorLine(seedbed.KindName(err), err)
}

// ErrorLine returns a line with an error. It cuts a text that is too long.
func ErrorLine(kind string, err error) Line {
	text := err.Error()
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return Line{Error: &Failure{Kind: kind, Message: text}}
}
