package plans

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// maxScriptEvents limits how many lines of a script's own log become events of its job. All of them
// are in its output.
const maxScriptEvents = 200

// scriptTurn continues the script and serves its calls, until it has done what the turn asks for or
// has failed. After an error it no longer runs.
func (t *task) scriptTurn(ctx context.Context, turn seedbed.ScriptTurn) (seedbed.ScriptResult, error) {
	for {
		var result seedbed.ScriptResult
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
			result, err = effects.RunScript.Do(ctx, t.Worker(), call, turn, effects.OnOutput(t.scriptLine))
			return err
		})
		if err != nil {
			t.script.live = false
			if lostScript(err) { // its worker was restarted: start it again
				err = seedbed.Errorf(seedbed.ErrUnavailable, "%v", err)
			}
			return result, fmt.Errorf("run the script: %w", err)
		}
		if result.Call == nil {
			return result, nil
		}
		answer, err := t.scriptCall(ctx, *result.Call)
		if err != nil {
			t.script.live = false
			return result, err
		}
		turn = seedbed.ScriptTurn{Answer: &answer}
	}
}

// scriptFailed reports a failure, and runs the script's own cleanup, as PVC does. An exception in
// the cleanup is ignored, because everything is removed anyway.
func (t *task) scriptFailed(ctx context.Context, f seedbed.ScriptFailure, step string) error {
	if f.Step == "" {
		f.Step = step
	}
	f = t.script.covered(f)
	for line := range strings.Lines(f.Traceback) {
		t.Output(seedbed.OutputLine{Stream: "stderr", Text: seedbed.ClipTo(strings.TrimRight(line, "\n"), int(seedbed.MaxOutputLine)-3)})
	}
	if f.Traceback != "" {
		t.Event("error", t.Progress(), "%s", lastOf(f.Traceback, 3<<10))
	}
	failure := &scriptFailure{f, t.script.run.Script.Name}
	if f.Offline {
		t.Output(seedbed.OutputLine{Stream: seedbed.OutputNote, Text: offline(failure.script)})
		t.Event("error", t.Progress(), "%s", offline(failure.script))
	}
	t.script.live, t.script.begun = false, 0
	if f.Ended || f.Step == "load" || f.Step == "cleanup" {
		return failure
	}
	t.script.failed = true
	result, err := t.scriptTurn(ctx, seedbed.ScriptTurn{Step: "cleanup"})
	if err == nil && result.Failure != nil {
		err = &scriptFailure{t.script.covered(*result.Failure), failure.script}
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, engine.ErrLost) {
		t.Event("warn", t.Progress(), "after the failure: %s", err)
	}
	if errors.Is(err, engine.ErrLost) {
		return err
	}
	return failure
}

// scriptLine records a line that the script has printed or logged.
func (t *task) scriptLine(l seedbed.OutputLine) {
	l.Text = t.script.covers.Replace(l.Text)
	switch l.Stream {
	case "info", "warn", "error":
		if t.script.told++; t.script.told <= maxScriptEvents {
			t.Event(l.Stream, t.Progress(), "%s", l.Text)
		}
		l.Stream = "stdout"
	case "stdout", "stderr":
	default:
		l.Stream = seedbed.OutputNote
	}
	t.Output(l)
}

// covered returns a failure without secrets.
func (s *scriptSide) covered(f seedbed.ScriptFailure) seedbed.ScriptFailure {
	f.Class, f.Message, f.Traceback = s.covers.Replace(f.Class), s.covers.Replace(f.Message), s.covers.Replace(f.Traceback)
	return f
}

// lastOf returns the end of a text, from the start of a line, with at most n bytes.
func lastOf(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	if _, rest, ok := strings.Cut(s, "\n"); ok {
		s = rest
	}
	return "…\n" + strings.ToValidUTF8(s, "")
}
