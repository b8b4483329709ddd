// Package worker is the effects protocol between seedbedd, which decides, and
// seedbed-worker, which touches storage and hypervisor: Client is what the
// engine calls, Server is what the worker runs, and the interfaces in driver.go
// are what the server calls.
//
// The wire is HTTP and JSON over a unix socket, or over TLS between hosts. POST /v1/<effect> with a
// request gives NDJSON: lines of progress or events, blank lines once a second
// while nothing happens, and at last one line with the result or the error.
// POST /v1/cancel ends a running call or, without its ID, all of a job, whose
// earlier epochs are refused from then on. A call ends as well when its
// time is over, when its client has gone, or when a call of a higher epoch
// comes for the same job.
package worker

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"seedbed"
)

// request is the body of every call.
type request struct {
	// ID is the client's name for this one call; a cancel with it ends that call alone.
	ID string `json:"id,omitempty"`
	// Call is set for effects, and not for what only reads.
	Call seedbed.Call `json:"call,omitzero"`
	// TimeoutMS is how long the call may take, in milliseconds. Zero is for watch alone.
	TimeoutMS int64           `json:"timeout_ms,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
}

// line is one line of an answer: one of its fields is set.
type line struct {
	Progress *seedbed.Progress    `json:"progress,omitempty"`
	Event    *seedbed.DomainEvent `json:"event,omitempty"`
	Output   *seedbed.OutputLine  `json:"output,omitempty"`
	Result   json.RawMessage      `json:"result,omitempty"`
	Error    *wireError           `json:"error,omitempty"`
}

// wireError carries an error's kind and text.
type wireError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// The arguments of the effects that do not take a type of the domain.
type (
	volumeArgs struct {
		Pool     string             `json:"pool"`
		Name     string             `json:"name"`
		Instance seedbed.InstanceID `json:"instance"`
	}
	imageArgs struct {
		Pool string `json:"pool"`
		Name string `json:"name"`
		// Of is the job that made it; empty means the call's.
		Of seedbed.JobID `json:"of,omitempty"`
	}
	snapshotArgs struct {
		seedbed.SnapshotSpec
		// Of is the job that made it; empty means any.
		Of seedbed.JobID `json:"of,omitempty"`
	}
	trashArgs struct {
		Pool  string `json:"pool"`
		ID    string `json:"id"`
		Early bool   `json:"early,omitempty"`
	}
	domainArgs struct {
		ID seedbed.InstanceID `json:"id"`
	}
	consoleArgs struct {
		ID   seedbed.InstanceID `json:"id"`
		Tail seedbed.Bytes      `json:"tail"`
	}
	none struct{}
)

// The names of the effects.
const (
	cloneVolume    = "clone-volume"
	removeVolume   = "remove-volume"
	importImage    = "import-image"
	removeImage    = "remove-image"
	defineDomain   = "define-domain"
	startDomain    = "start-domain"
	shutdownDomain = "shutdown-domain"
	destroyDomain  = "destroy-domain"
	undefineDomain = "undefine-domain"
	domainState    = "domain-state"
	inventory      = "inventory"
	createSnapshot = "create-snapshot"
	removeSnapshot = "remove-snapshot"
	snapshots      = "snapshots"
	flattenVolume  = "flatten-volume"
	stopFlatten    = "stop-flatten"
	trashVolume    = "trash-volume"
	trash          = "trash"
	restoreVolume  = "restore-volume"
	discardVolume  = "discard-volume"
	purgeVolume    = "purge-volume"
	console        = "console"
	watch          = "watch"
	health         = "health"
	cancelCall     = "cancel"
)

const (
	// keepalive is how often a line is sent at least.
	keepalive = time.Second
	// maxTimeout is the longest that a call may ask for.
	maxTimeout = 24 * time.Hour
	// maxRequest and maxResult bound what is read of a request and of a line with a
	// result, in bytes.
	maxRequest = 8 << 20
	maxResult  = 64 << 20
	// maxLine bounds every other line. The longest are those of output, whose text of
	// seedbed.MaxOutputLine is six times as long when JSON escapes every byte.
	maxLine = 64 << 10
	// maxMessage bounds an error's text, which JSON may make as much longer.
	maxMessage = 8 << 10
	// maxConsole is the most that is read of a console in one call.
	maxConsole = 16 * seedbed.MiB
)

// ofNoKind tells whether err is of no kind that callers match.
func ofNoKind(err error) bool { return seedbed.KindName(err) == "internal" }

// failureLine is what answers a call that failed. An error of no kind that comes
// when the call's context has ended means the context's cause.
func failureLine(ctx context.Context, err error) line {
	if ctx.Err() != nil && ofNoKind(err) {
		err = context.Cause(ctx)
	}
	return errorLine(seedbed.KindName(err), err)
}

// errorLine is a line with an error, whose text is cut where it is too long for one.
func errorLine(kind string, err error) line {
	text := err.Error()
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return line{Error: &wireError{Kind: kind, Message: text}}
}
