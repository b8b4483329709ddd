package cli

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"

	"seedbed"
)

// progress shows a running job. On a terminal it is a line that is redrawn; otherwise it is one
// line per event.
type progress struct {
	a     *App
	every bool

	mu    sync.Mutex
	job   seedbed.Job
	drawn int // how many lines are drawn
	// told is the last event of the stage that the job is in, and console the last line of the
	// guest's console while it is awaited.
	told    seedbed.Event
	console string
	// held are the events that say why the job fails. They wait for its end, because the error of the
	// command says that too.
	held []seedbed.Event
	quit chan struct{}
	wait sync.WaitGroup
}

func (a *App) newProgress(every bool) *progress {
	p := &progress{a: a, every: every, quit: make(chan struct{})}
	if p.a.Redraws() {
		p.wait.Go(p.tick)
	}
	return p
}

// Redraws reports whether the output may have lines that are redrawn.
func (a *App) Redraws() bool { return a.Terminal && !a.Flags.Quiet && !a.JSON() }

// tick redraws the line regularly for the elapsed time.
func (p *progress) tick() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

func (p *progress) seen(e seedbed.Event, j seedbed.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.job = j; e.Seq > 0 {
		p.told = e
		p.tell(e)
	}
	if p.a.Redraws() {
		p.draw()
	}
}

func (p *progress) tell(e seedbed.Event) {
	switch {
	case p.a.JSON():
		if p.every {
			_ = p.a.PrintJSONLine(e) // the last write reports a broken pipe
		}
	case p.a.Flags.Quiet && !p.every:
	case e.Level == "error" || strings.HasPrefix(e.Msg, seedbed.RolledBack):
		p.held = append(p.held, e)
	case p.every || !p.a.Terminal || e.Level != "info":
		p.print(e)
	}
}

func (p *progress) print(e seedbed.Event) {
	p.clear()
	fmt.Fprintf(p.a.Out, "%s %s %-8s %s\n", e.At.Local().Format(time.TimeOnly), p.a.Level(e.Level), e.Stage, OneLine(e.Msg))
}

// Level returns an event's level, in its colour.
func (a *App) Level(l string) string {
	padded := fmt.Sprintf("%-5s", l)
	if c, ok := stateColours[l]; ok {
		return a.paint(c, padded)
	}
	return padded
}

func (p *progress) clear() {
	for ; p.drawn > 1; p.drawn-- {
		fmt.Fprint(p.a.Out, "\r\x1b[K\x1b[1A")
	}
	if p.drawn == 1 {
		fmt.Fprint(p.a.Out, "\r\x1b[K")
		p.drawn = 0
	}
}

// end removes the bar, and shows those held events that failed, the error of the command, does not
// say. cause is the job's own error.
func (p *progress) end(cause string, failed error) {
	close(p.quit)
	p.wait.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	for _, e := range p.held {
		if failed == nil || !strings.Contains(failed.Error(), strings.TrimPrefix(e.Msg, "undo: ")) &&
			(cause == "" || !strings.HasSuffix(e.Msg, cause)) {
			p.print(e)
		}
	}
}

func (p *progress) draw() {
	if p.job.ID == "" {
		return
	}
	p.clear()
	lines := append([]string{p.line(Columns())}, p.awaited(Columns())...)
	fmt.Fprint(p.a.Out, strings.Join(lines, "\n"))
	p.drawn = len(lines)
}

// BarWidth is the width of a progress bar in characters.
const BarWidth = 24

// Bar returns a line of at most width columns with a progress bar and a text. done is the part that
// is done, from 0 to 1.
func Bar(done float64, width int, format string, args ...any) string {
	full := int(done * BarWidth)
	line := strings.Repeat("█", full) + strings.Repeat("░", BarWidth-full) + fmt.Sprintf(" %3d%% ", int(done*100))
	return text.Trim(line+fmt.Sprintf(format, args...), max(20, width-1))
}

// line returns the bar in at most width columns.
func (p *progress) line(width int) string {
	j := p.job
	stage := j.Stage
	if stage == "" || j.State != seedbed.JobRunning {
		stage = strings.TrimSpace(string(j.State) + " " + stage)
	}
	return Bar(fraction(j), width, "%s %s: %s %d/%d, %s", j.Kind, Printable(j.Subject),
		stage, min(j.Done+1, max(j.Total, 1)), max(j.Total, 1), Span(p.a.Now().Sub(j.Created)))
}

// fraction returns the part of a job that is done, from 0 to 1.
func fraction(j seedbed.Job) float64 {
	if j.State.Terminal() {
		return 1
	}
	if j.Total <= 0 {
		return 0
	}
	part := float64(min(100, max(0, j.Progress))) / 100
	return min(1, max(0, (float64(j.Done)+part)/float64(j.Total)))
}

// Columns returns the terminal's width.
func Columns() int {
	ws, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 {
		return 80
	}
	return int(ws.Col)
}
