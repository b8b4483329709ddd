package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"seedbed"
)

// sayTime bounds the sending of one message, which the runner waits for.
const sayTime = 30 * time.Second

// turn lets the script continue until it has done what is asked for, fails, or calls for a volume.
// After an error the session cannot continue.
func (s *session) turn(
	ctx context.Context,
	t seedbed.ScriptTurn,
	output func(seedbed.OutputLine),
) (result seedbed.ScriptResult, err error) {
	s.wake()
	s.lines.attach(output)
	defer s.lines.detach()
	// Messages on the channel overtake earlier output. A call comes from within a step, and
	// possibly from within a line.
	defer func() { s.box.Drain(result.Call == nil) }()
	ask, doing := s.begin(), "load"
	switch {
	case t.Start != nil:
	case t.Answer != nil:
		if t.Answer.ID != s.awaits || s.awaits == 0 {
			return seedbed.ScriptResult{}, seedbed.Errorf(seedbed.ErrInvalid, "the script does not wait for an answer to its call %d", t.Answer.ID)
		}
		ok, text := s.answered(ctx, *t.Answer)
		if ctx.Err() != nil {
			return seedbed.ScriptResult{}, context.Cause(ctx)
		}
		ask, doing, s.awaits = answer(t.Answer.ID, ok, text), "", 0
	case s.awaits != 0:
		return seedbed.ScriptResult{}, seedbed.Errorf(seedbed.ErrInvalid, "the script waits for the answer to its call %d", s.awaits)
	default:
		ask, doing = message{Op: "step", Step: t.Step}, t.Step
	}
	if err := s.say(ask); err != nil {
		return s.broken(doing, err)
	}
	for {
		select {
		case <-ctx.Done():
			return seedbed.ScriptResult{}, context.Cause(ctx)
		case <-s.stop:
			return seedbed.ScriptResult{}, s.gone()
		case h, ok := <-s.heard:
			if !ok {
				h.err = errors.New("its process ended")
			}
			if h.err != nil {
				return s.broken(doing, h.err)
			}
			result, done, err := s.hear(ctx, h.message)
			if err != nil || done {
				return result, err
			}
		}
	}
}

// hear handles one message of the runner. done reports whether it ends the turn.
func (s *session) hear(ctx context.Context, m message) (result seedbed.ScriptResult, done bool, err error) {
	switch m.Op {
	case "log":
		s.log(m)
		return result, false, nil
	case "ready":
		return seedbed.ScriptResult{Kind: m.Kind}, true, nil
	case "done":
		return seedbed.ScriptResult{XML: m.XML}, true, nil
	case "failed":
		return seedbed.ScriptResult{
			Failure: &seedbed.ScriptFailure{
				Step: m.Step, Class: m.Class, Message: m.Message, Traceback: m.Traceback, Offline: m.Unreached && !s.start.Options.Network,
			},
		}, true, nil
	}
	switch m.Call {
	case "add_volume", "clone_volume":
		s.awaits = m.ID
		return seedbed.ScriptResult{Call: &seedbed.ScriptCall{
			ID: m.ID, Name: m.Call, Pool: m.Args.Pool, Volume: m.Args.Name, Size: m.Args.Size, Source: m.Args.Source,
		}}, true, nil
	}
	text, err := s.device(ctx, m)
	if m.Call == "map_volume" && errors.Is(err, seedbed.ErrNotFound) && ctx.Err() == nil { // perhaps it is an image
		s.awaits, s.wants = m.ID, volume{m.Args.Pool, m.Args.Name}
		return seedbed.ScriptResult{Call: &seedbed.ScriptCall{ID: m.ID, Name: m.Call, Pool: m.Args.Pool, Volume: m.Args.Name}}, true, nil
	}
	if ctx.Err() != nil {
		return result, false, context.Cause(ctx)
	}
	ok := err == nil
	if err != nil {
		text = "ERROR: " + err.Error()
	}
	if err := s.say(answer(m.ID, ok, text)); err != nil {
		result, err = s.broken("", err)
		return result, true, err
	}
	return result, false, nil
}

// answered returns the answer to the script's call: the engine's, or for an image the device that
// shows it.
func (s *session) answered(ctx context.Context, a seedbed.ScriptAnswer) (ok bool, text string) {
	wants := s.wants
	s.wants = volume{}
	if !a.OK || wants == (volume{}) {
		return a.OK, a.Message
	}
	text, err := s.source(ctx, wants, a.Message)
	if err != nil {
		return false, "ERROR: " + err.Error()
	}
	return true, text
}

// log passes on a line of the script's log.
func (s *session) log(m message) {
	level := m.Level
	if level != "warn" && level != "error" {
		level = "info"
	}
	if s.logged <= 0 {
		return
	}
	if s.logged -= seedbed.Bytes(len(m.Msg) + 1); s.logged <= 0 {
		s.lines.line(seedbed.OutputLine{Stream: "warn", Text: "the script has logged as much as it may: the rest is left out"})
		return
	}
	for text := range strings.Lines(m.Msg) {
		s.lines.line(seedbed.OutputLine{Stream: level, Text: seedbed.ClipTo(strings.TrimRight(text, "\r\n"), int(seedbed.MaxOutputLine))})
	}
}

// gone returns the error of a turn whose session was closed.
func (s *session) gone() error {
	return seedbed.Errorf(seedbed.ErrNotFound, "the script of job %s was ended", s.call.Job.Short())
}

// broken returns the result of a turn whose channel broke. If the session itself closed it, the
// script has not failed.
func (s *session) broken(doing string, cause error) (seedbed.ScriptResult, error) {
	select {
	case <-s.stop:
		return seedbed.ScriptResult{}, s.gone()
	default:
		return s.ended(doing, cause), nil
	}
}

// ended returns the failure of a script whose process has ended or broke the protocol. It is the
// script's own failure: another attempt would end the same way.
func (s *session) ended(doing string, cause error) seedbed.ScriptResult {
	s.conn.Close()
	why := cause
	exit := make(chan error, 1)
	go func() { exit <- s.box.Wait() }()
	select {
	case err := <-exit:
		if err != nil {
			why = err
		}
	case <-time.After(5 * time.Second):
	}
	return seedbed.ScriptResult{Failure: &seedbed.ScriptFailure{
		Step: doing, Class: "ProvisioningError", Message: fmt.Sprintf("the script did not run to its end: %s", why), Ended: true,
	}}
}

// say sends a message to the runner, which must read it soon.
func (s *session) say(m message) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(sayTime)); err != nil {
		return err
	}
	return say(s.conn, m)
}

func answer(id int64, ok bool, text string) message {
	return message{Op: "answer", ID: id, OK: &ok, Message: text}
}
