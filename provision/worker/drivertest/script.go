package drivertest

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"seedbed"
)

// Scripts is a worker.Scripts in memory. A script for it has a line for each thing
// that a step does, such as
//
//	setup: log hello
//	create: xml <domain/>
//	prepare: add_volume default web1_sda 1G
//	prepare: clone_volume default web1_sdb debian
//	install: fail no mirror
//	cleanup: print done
//
// and the step "load" for what happens as it is loaded. "hang" waits until the
// turn is cut off, and "die" ends the script's process.
type Scripts struct {
	failpoints
	// Missing are the programs that the host lacks.
	Missing  []string
	mu       sync.Mutex
	sessions map[seedbed.JobID]*scriptSession
	starts   []seedbed.ScriptStart
}

type scriptSession struct {
	epoch int64
	start seedbed.ScriptStart
	step  string
	left  []string // what the step still has to do
	xml   string
	calls int64
	dead  bool
}

// NewScripts makes one without sessions.
func NewScripts() *Scripts { return &Scripts{sessions: map[seedbed.JobID]*scriptSession{}} }

// Starts are what the sessions began with, in their order.
func (s *Scripts) Starts() []seedbed.ScriptStart {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seedbed.ScriptStart{}, s.starts...)
}

// Live is how many sessions there are.
func (s *Scripts) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Lose ends all sessions, as the worker's restart does.
func (s *Scripts) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// Tools implements worker.Scripts.
func (s *Scripts) Tools([]string) []string { return append([]string{}, s.Missing...) }

// CloseScript implements worker.Scripts.
func (s *Scripts) CloseScript(ctx context.Context, job seedbed.JobID, _ seedbed.InstanceID) error {
	return s.around(ctx, "CloseScript", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, job)
		return nil
	})
}

// RunScript implements worker.Scripts.
func (s *Scripts) RunScript(ctx context.Context, call seedbed.Call, turn seedbed.ScriptTurn, output func(seedbed.OutputLine)) (result seedbed.ScriptResult, err error) {
	if output == nil {
		output = func(seedbed.OutputLine) {}
	}
	err = s.around(ctx, "RunScript", func() error {
		result, err = s.run(ctx, call, turn, output)
		return err
	})
	if err != nil {
		s.mu.Lock()
		delete(s.sessions, call.Job)
		s.mu.Unlock()
	}
	return result, err
}

func (s *Scripts) run(ctx context.Context, call seedbed.Call, turn seedbed.ScriptTurn, output func(seedbed.OutputLine)) (seedbed.ScriptResult, error) {
	s.mu.Lock()
	if turn.Start != nil {
		s.sessions[call.Job] = &scriptSession{epoch: call.Epoch, start: *turn.Start}
		s.starts = append(s.starts, *turn.Start)
	}
	session := s.sessions[call.Job]
	s.mu.Unlock()
	switch {
	case session == nil, session.epoch != call.Epoch:
		return seedbed.ScriptResult{}, seedbed.Errorf(seedbed.ErrNotFound, "the script of job %s does not run here any more", call.Job.Short())
	case turn.Start != nil:
		session.begin("load")
	case turn.Step != "":
		if len(session.left) > 0 {
			return seedbed.ScriptResult{}, seedbed.Errorf(seedbed.ErrInvalid, "the script waits for an answer")
		}
		session.begin(turn.Step)
	case turn.Answer == nil || turn.Answer.ID != session.calls || len(session.left) == 0:
		return seedbed.ScriptResult{}, seedbed.Errorf(seedbed.ErrInvalid, "the script waits for no such answer")
	case !turn.Answer.OK:
		session.left = nil
		return session.failed(turn.Answer.Message), nil
	default:
		session.left = session.left[1:]
	}
	return session.goOn(ctx, output)
}

// begin has the session do what its script says of a step.
func (s *scriptSession) begin(step string) {
	s.step, s.left, s.xml = step, nil, ""
	for line := range strings.Lines(s.start.Text) {
		of, what, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if of == step && !s.dead {
			s.left = append(s.left, what)
		}
	}
}

func (s *scriptSession) goOn(ctx context.Context, output func(seedbed.OutputLine)) (seedbed.ScriptResult, error) {
	if s.dead {
		return s.failed("its process has ended"), nil
	}
	for ; len(s.left) > 0; s.left = s.left[1:] {
		verb, rest, _ := strings.Cut(s.left[0], " ")
		switch verb {
		case "log":
			output(seedbed.OutputLine{Stream: "info", Text: rest})
		case "print":
			output(seedbed.OutputLine{Stream: "stdout", Text: rest})
		case "xml":
			s.xml = strings.NewReplacer("NAME", s.start.Name, "UUID", string(s.start.Instance)).Replace(rest)
		case "fail":
			s.left = nil
			return s.failed(rest), nil
		case "die":
			s.dead, s.left = true, nil
			return s.failed("the script did not come to its end: killed"), nil
		case "hang":
			<-ctx.Done()
			return seedbed.ScriptResult{}, context.Cause(ctx)
		default:
			return seedbed.ScriptResult{Call: s.call(verb, strings.Fields(rest))}, nil
		}
	}
	if s.step == "load" {
		return seedbed.ScriptResult{Kind: "class"}, nil
	}
	return seedbed.ScriptResult{XML: s.xml}, nil
}

func (s *scriptSession) call(name string, args []string) *seedbed.ScriptCall {
	s.calls++
	args = append(args, "", "", "")
	c := &seedbed.ScriptCall{ID: s.calls, Name: name, Pool: args[0], Volume: strings.NewReplacer("NAME", s.start.Name, "UUID", string(s.start.Instance)).Replace(args[1])}
	if name == "clone_volume" {
		c.Source = args[2]
	} else {
		c.Size = args[2]
	}
	return c
}

func (s *scriptSession) failed(message string) seedbed.ScriptResult {
	return seedbed.ScriptResult{Failure: &seedbed.ScriptFailure{
		Step: s.step, Class: "ProvisioningError", Message: message,
		Traceback: "Traceback (most recent call last):\n  line " + strconv.FormatInt(s.calls, 10) + "\nProvisioningError: " + message + "\n", Ended: s.dead,
	}}
}
