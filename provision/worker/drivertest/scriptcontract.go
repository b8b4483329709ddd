package drivertest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker"
)

// ScriptTexts are scripts in the language of the driver under test.
type ScriptTexts struct {
	// Good logs "hello" in setup, returns "<domain/>" from create, adds the volume web1_sda of 1G
	// to pool default in prepare, and prints "installed" in install.
	Good string
	// Bad raises an error with the message "no luck" in install.
	Bad string
	// Broken cannot be loaded.
	Broken string
	// Endless never ends its setup.
	Endless string
}

// TestScripts is the contract of worker.Scripts.
func TestScripts(t *testing.T, texts ScriptTexts, open func(t *testing.T) worker.Scripts) {
	call := seedbed.Call{Job: "22222222-2222-4222-8222-222222222222", Epoch: 2, Stage: "install"}
	id := seedbed.InstanceID("ec200000-0000-4000-8000-000000000002")
	start := func(text string) seedbed.ScriptTurn {
		return seedbed.ScriptTurn{Start: &seedbed.ScriptStart{
			Instance: id, Name: "web1", Profile: "web", Number: "1", Text: text, Data: json.RawMessage(
				`{"volumes":[],"networks":[],"script_arguments":{}}`),
		}}
	}
	step := func(name string) seedbed.ScriptTurn { return seedbed.ScriptTurn{Step: name} }
	run := func(t *testing.T, s worker.Scripts, turn seedbed.ScriptTurn) (seedbed.ScriptResult, []seedbed.OutputLine) {
		t.Helper()
		var lines []seedbed.OutputLine
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		result, err := s.RunScript(ctx, call, turn, func(l seedbed.OutputLine) { lines = append(lines, l) })
		ok(t, "turn", err)
		return result, lines
	}
	has := func(t *testing.T, lines []seedbed.OutputLine, want seedbed.OutputLine) {
		t.Helper()
		for _, l := range lines {
			if l == want {
				return
			}
		}
		t.Errorf("output %v; want %v in it", lines, want)
	}

	t.Run("steps", func(t *testing.T) {
		s := open(t)
		if r, _ := run(t, s, start(texts.Good)); r.Kind != "class" && r.Kind != "function" || r.Failure != nil {
			t.Fatalf("began as %+v", r)
		}
		_, lines := run(t, s, step("setup"))
		has(t, lines, seedbed.OutputLine{Stream: "info", Text: "hello"})
		if r, _ := run(t, s, step("create")); r.XML != "<domain/>" {
			t.Errorf("create gave %+v", r)
		}
		r, _ := run(t, s, step("prepare"))
		if r.Call == nil || r.Call.Name != "add_volume" || r.Call.Pool != "default" || r.Call.Volume != "web1_sda" || r.Call.Size != "1G" {
			t.Fatalf("prepare gave %+v", r.Call)
		}
		if r, _ = run(t, s, seedbed.ScriptTurn{Answer: &seedbed.ScriptAnswer{ID: r.Call.ID, OK: true,
			Message: "made"}}); r.Call != nil || r.Failure != nil {
			t.Errorf("the answer gave %+v", r)
		}
		_, lines = run(t, s, step("install"))
		has(t, lines, seedbed.OutputLine{Stream: "stdout", Text: "installed"})
		run(t, s, step("cleanup"))
		ok(t, "close", s.CloseScript(t.Context(), call.Job, id))
		ok(t, "close again", s.CloseScript(t.Context(), call.Job, id))
		_, err := s.RunScript(t.Context(), call, step("cleanup"), nil)
		is(t, "a turn after the end", err, seedbed.ErrNotFound)
	})
	t.Run("failures", func(t *testing.T) {
		s := open(t)
		if r, _ := run(t, s, start(texts.Broken)); r.Failure == nil || r.Failure.Step != "load" || r.Failure.Traceback == "" {
			t.Errorf("a broken script began as %+v", r)
		}
		run(t, s, start(texts.Bad))
		r, _ := run(t, s, step("install"))
		if f := r.Failure; f == nil || f.Step != "install" || f.Message != "no luck" || f.Traceback == "" || f.Ended {
			t.Errorf("install gave %+v", r.Failure)
		}
		if r, _ := run(t, s, step("cleanup")); r.Failure != nil {
			t.Errorf("cleanup after it gave %+v", r.Failure)
		}
		ok(t, "close", s.CloseScript(t.Context(), call.Job, id))
	})
	t.Run("cut off", func(t *testing.T) {
		s := open(t)
		run(t, s, start(texts.Endless))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := s.RunScript(ctx, call, step("setup"), nil)
		is(t, "a turn whose time is over", err, context.DeadlineExceeded)
		_, err = s.RunScript(t.Context(), call, step("create"), nil)
		is(t, "a turn after it", err, seedbed.ErrNotFound)
	})
	t.Run("epochs", func(t *testing.T) {
		s := open(t)
		run(t, s, start(texts.Good))
		newer := call
		newer.Epoch++
		_, err := s.RunScript(t.Context(), newer, step("setup"), nil)
		is(t, "another epoch's turn", err, seedbed.ErrNotFound)
		_, err = s.RunScript(t.Context(), newer, start(texts.Good), nil)
		ok(t, "the newer epoch's start", err)
		_, err = s.RunScript(t.Context(), call, step("setup"), nil)
		is(t, "the former epoch's turn", err, seedbed.ErrNotFound)
		ok(t, "close", s.CloseScript(t.Context(), call.Job, id))
	})
}
