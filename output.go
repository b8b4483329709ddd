package seedbed

import (
	"context"
	"time"
)

// The bounds of a job's output.
const (
	// MaxOutputLine is how much of one line is kept, in bytes.
	MaxOutputLine = 4 * KiB
	// MaxOutput is how much is kept of what one stage of a job puts out: its
	// beginning and its end. What is dropped between them is told in a line of OutputNote.
	MaxOutput = MiB
)

// OutputNote is the stream of the lines that Seedbed itself adds to a job's output.
const OutputNote = "note"

// OutputLine is one line that a command or script of a job put out, without its end.
type OutputLine struct {
	// Stream is "stdout", "stderr" or OutputNote.
	Stream string `json:"stream"`
	Text   string `json:"text"`
}

// JobOutput is a line of a job's output where it is kept. N grows within the
// job; it has gaps where lines were dropped.
type JobOutput struct {
	N     int64     `json:"n"`
	At    time.Time `json:"at"`
	Stage string    `json:"stage"`
	OutputLine
}

type outputTo struct{}

// WithOutput has what the commands put out, that are run with the context, go to
// give, line by line. give may be called from any goroutine, and must not block for long.
func WithOutput(ctx context.Context, give func(OutputLine)) context.Context {
	return context.WithValue(ctx, outputTo{}, give)
}

// OutputOf is where the output of commands that are run with the context goes; nil for nowhere.
func OutputOf(ctx context.Context) func(OutputLine) {
	give, _ := ctx.Value(outputTo{}).(func(OutputLine))
	return give
}
