package drivertest

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"seedbed"
)

// Scripts is a worker.Scripts in memory. A script for it has one line for each action of a step,
// such as
//
//	setup: log hello
//	create: xml <domain/>
//	prepare: add_volume default web1_sda 1G
//	prepare: clone_volume default web1_sdb debian
//	install: map web1_sda
//	install: mount web1_sda
//	install: offline
//	install: fail no mirror
//	cleanup: print done
//
// The step "load" runs when the script is loaded. "hang" waits until the turn is interrupted, and
// "die" ends the script's process. After "offline" a failure of a script without the network says
// that it tried to use one. The end of a session unmounts and unmaps what its script has
// mounted and mapped.
type Scripts struct {
	failpoints
	// Missing are the programs that the host lacks.
	Missing []string
	// Pool is where volumes are mapped; nil if none are.
	Pool     *Pool
	mu       sync.Mutex
	sessions map[seedbed.JobID]*scriptSession
	starts   []seedbed.ScriptStart
}

type scriptSession struct {
	job     seedbed.JobID
	epoch   int64
	start   seedbed.ScriptStart
	step    string
	left    []string // what the step still has to do
	xml     string
	calls   int64
	dead    bool
	offline bool     // it has tried to reach the network, and has none
	ended   bool     // it is closed, and accepts nothing more
	mapped  []string // volumes
	mounted []string // file systems, of mapped volumes
}

// NewScripts makes a Scripts without sessions.
func NewScripts() *Scripts { return &Scripts{sessions: map[seedbed.JobID]*scriptSession{}} }

// Starts returns what the sessions were started with, in order.
func (s *Scripts) Starts() []seedbed.ScriptStart {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seedbed.ScriptStart{}, s.starts...)
}

// Live returns the number of sessions.
func (s *Scripts) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Lose ends all sessions, as a restart of the worker does.
func (s *Scripts) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for job := range s.sessions {
		s.end(job)
	}
}

// Tools implements worker.Scripts.
func (s *Scripts) Tools([]string) []string { return append([]string{}, s.Missing...) }

// CloseScript implements worker.Scripts.
func (s *Scripts) CloseScript(ctx context.Context, job seedbed.JobID, _ seedbed.InstanceID) error {
	return s.around(ctx, "CloseScript", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(job)
		return nil
	})
}

// RunScript implements worker.Scripts.
func (s *Scripts) RunScript(ctx context.Context, call seedbed.Call, turn seedbed.ScriptTurn,
	output func(seedbed.OutputLine)) (result seedbed.ScriptResult, err error) {
	if output == nil {
		output = func(seedbed.OutputLine) {}
	}
	err = s.around(ctx, "RunScript", func() error {
		result, err = s.run(ctx, call, turn, output)
		return err
	})
	if err != nil {
		s.mu.Lock()
		s.end(call.Job)
		s.mu.Unlock()
	}
	return result, err
}

func (s *Scripts) run(ctx context.Context, call seedbed.Call, turn seedbed.ScriptTurn,
	output func(seedbed.OutputLine)) (seedbed.ScriptResult, error) {
	s.mu.Lock()
	if turn.Start != nil {
		s.end(call.Job)
		s.sessions[call.Job] = &scriptSession{job: call.Job, epoch: call.Epoch, start: *turn.Start}
		s.starts = append(s.starts, *turn.Start)
	}
	session := s.sessions[call.Job]
	s.mu.Unlock()
	switch {
	case session == nil, session.epoch != call.Epoch:
		return seedbed.ScriptResult{}, seedbed.Errorf(seedbed.ErrNotFound, "the script of job %s no longer runs here", call.Job.Short())
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
	return s.goOn(ctx, session, output)
}

// begin makes the session do what its script says for a step.
func (s *scriptSession) begin(step string) {
	s.step, s.left, s.xml = step, nil, ""
	for line := range strings.Lines(s.start.Text) {
		of, what, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if of == step && !s.dead {
			s.left = append(s.left, what)
		}
	}
}

func (s *Scripts) goOn(ctx context.Context, in *scriptSession, output func(seedbed.OutputLine)) (seedbed.ScriptResult, error) {
	if in.dead {
		return in.failed("its process has ended"), nil
	}
	for ; len(in.left) > 0; in.left = in.left[1:] {
		verb, rest, _ := strings.Cut(in.left[0], " ")
		switch verb {
		case "log":
			output(seedbed.OutputLine{Stream: "info", Text: rest})
		case "print":
			output(seedbed.OutputLine{Stream: "stdout", Text: rest})
		case "xml":
			in.xml = in.fill(rest)
		case "map", "mount":
			if err := s.hold(in, verb, in.fill(rest)+in.start.Suffix); err != nil {
				in.left = nil
				return in.failed(err.Error()), nil
			}
		case "fail":
			in.left = nil
			return in.failed(rest), nil
		case "offline":
			in.offline = !in.start.Options.Network
		case "die":
			in.dead, in.left = true, nil
			return in.failed("the script did not run to its end: killed"), nil
		case "hang":
			<-ctx.Done()
			return seedbed.ScriptResult{}, context.Cause(ctx)
		default:
			return seedbed.ScriptResult{Call: in.call(verb, strings.Fields(rest))}, nil
		}
	}
	if in.step == "load" {
		return seedbed.ScriptResult{Kind: "class"}, nil
	}
	return seedbed.ScriptResult{XML: in.xml}, nil
}

// fill replaces NAME and UUID by the instance's name and ID.
func (s *scriptSession) fill(text string) string {
	return strings.NewReplacer("NAME", s.start.Name, "UUID", string(s.start.Instance)).Replace(text)
}

func (s *scriptSession) call(name string, args []string) *seedbed.ScriptCall {
	s.calls++
	args = append(args, "", "", "")
	c := &seedbed.ScriptCall{ID: s.calls, Name: name, Pool: args[0], Volume: s.fill(args[1])}
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
		Traceback: "Traceback (most recent call last):\n  line " + strconv.FormatInt(s.calls,
			10) + "\nProvisioningError: " + message + "\n", Offline: s.offline, Ended: s.dead,
	}}
}
