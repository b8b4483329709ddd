package seedbed

import (
	"context"
	"time"
)

// The bounds of a job's output.
const (
	// MaxOutputLine is how much of one line is kept, in bytes.
	MaxOutputLine = 4 * KiB
	// MaxOutput is how much is kept of the output of one stage of a job: its beginning and its end.
	// A line of OutputNote says how much was dropped between them.
	MaxOutput = MiB
)

// OutputNote is the stream of the lines that Seedbed itself adds to a job's output.
const OutputNote = "note"

// OutputLine is one line of output of a command or script of a job, without the line break.
type OutputLine struct {
	// Stream is "stdout" or "stderr"; "info", "warn" or "error" for what a script logs; "sandbox" for
	// what the sandbox refuses a script; or OutputNote.
	Stream string `json:"stream"`
	Text   string `json:"text"`
}

// JobOutput is a stored line of a job's output. N grows within the job and has gaps where lines
// were dropped.
type JobOutput struct {
	N     int64     `json:"n"`
	At    time.Time `json:"at"`
	Stage string    `json:"stage"`
	OutputLine
}

type outputTo struct{}

// WithOutput returns ctx for commands whose output is passed to give, line by line. give may be
// called from any goroutine and must not block for long.
func WithOutput(ctx context.Context, give func(OutputLine)) context.Context {
	return context.WithValue(ctx, outputTo{}, give)
}

// OutputOf returns the function that receives the output of commands run with ctx; nil if none
// does.
func OutputOf(ctx context.Context) func(OutputLine) {
	give, _ := ctx.Value(outputTo{}).(func(OutputLine))
	return give
}
