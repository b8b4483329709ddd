package cli

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"seedbed"
)

const (
	// consoleTail is how much of a console is read to find its last line.
	consoleTail = 4 * seedbed.KiB
	// While a guest is awaited, its console is read at these intervals: on a terminal, and otherwise,
	// where each new line is printed.
	consoleEvery  = 2 * time.Second
	consoleSeldom = 30 * time.Second
)

// stageReady is the stage of a job that waits for a guest.
const stageReady = "ready"

// awaits reports whether the job waits for its guest now.
func (p *progress) awaits() bool {
	return p.job.State == seedbed.JobRunning && p.job.Stage == stageReady
}

// awaited returns what the job waits for, since when, and the last line of the guest's console. Each
// line has at most width columns.
func (p *progress) awaited(width int) (lines []string) {
	if !p.awaits() || p.told.Stage != stageReady {
		return nil
	}
	since := fmt.Sprintf("%s: since %s, %s", OneLine(p.told.Msg), p.told.At.Local().Format(time.TimeOnly), Span(p.a.Now().Sub(p.told.At)))
	lines = append(lines, text.Trim("  "+since, max(20, width-1)))
	if p.console != "" {
		lines = append(lines, text.Trim("  console: "+p.console, max(20, width-1)))
	}
	return lines
}

// follow reads the console of a guest that is awaited at intervals until ctx ends, and shows its last
// line.
func (p *progress) follow(ctx context.Context, console func(context.Context, string, seedbed.Bytes) ([]byte, error)) {
	if p.every || p.a.Flags.Quiet || p.a.JSON() {
		return
	}
	every := consoleSeldom
	if p.a.Redraws() {
		every = consoleEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		name, awaits := p.job.Subject, p.awaits()
		p.mu.Unlock()
		if !awaits {
			continue
		}
		tail, err := console(ctx, name, consoleTail)
		if err != nil {
			continue // it is only shown for convenience, and not every caller may read it
		}
		p.mu.Lock()
		if line := lastLine(tail); line != p.console && line != "" {
			p.console = line
			if !p.a.Redraws() {
				fmt.Fprintf(p.a.Out, "%s %s %-8s console: %s\n", p.a.Now().Local().Format(time.TimeOnly), p.a.Level("info"), stageReady, line)
			}
		}
		p.mu.Unlock()
	}
}

// controlSequence is a control sequence of a terminal (ECMA-48).
var controlSequence = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// lastLine returns the last line of a console that is not empty, without control characters.
func lastLine(console []byte) string {
	lines := strings.FieldsFunc(controlSequence.ReplaceAllString(string(console), ""), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := len(lines) - 1; i >= 0; i-- {
		if line := OneLine(lines[i]); line != "" {
			return line
		}
	}
	return ""
}
