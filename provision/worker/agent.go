package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/provision/effects"
)

const (
	// exitTime is how long a call waits for a program in a guest to exit. The API's calls have longer.
	exitTime = 6 * time.Second
	// firstLook and lastLook are the intervals at which the agent is asked whether it has.
	firstLook = 20 * time.Millisecond
	lastLook  = time.Second
	// filePart is how much of a file is read or written in one request.
	filePart = 48 << 10
	// maxAgentRequest limits a request. libvirt spoils one that does not fit into a socket's buffer, which has about 200 KiB.
	maxAgentRequest = 160 << 10
	// maxAgentAnswer limits the answer of an agent.
	maxAgentAnswer = 8 << 20
	// maxNothing is how many times in a row an agent may read or write nothing.
	maxNothing = 100
	// closeTime limits the closing of a file in a guest. It is shorter than what the end of Serve may take.
	closeTime = 3 * time.Second
	// lookTime limits a question whether a program has exited, which goes on if those who asked leave.
	lookTime = 30 * time.Second
)

// agents runs programs and copies files in guests, by their agents. An agent is the guest's: nothing that it answers is trusted.
type agents struct {
	agent   Agent
	results *results
}

// ask asks an agent, and decodes what it returns.
func ask[T any](ctx context.Context, a agents, id seedbed.InstanceID, command string, arguments any) (T, error) {
	var reply struct {
		Return *T `json:"return"`
	}
	var none T
	request, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		return none, err
	}
	if len(request) > maxAgentRequest {
		return none, seedbed.Errorf(seedbed.ErrInvalid, "the program's path, arguments and input have %s, as the guest agent is sent them: "+
			"expected at most %s", seedbed.Bytes(len(request)), seedbed.Bytes(maxAgentRequest))
	}
	answer, err := a.agent.AskAgent(ctx, id, request)
	if err != nil {
		return none, err
	}
	if len(answer) > maxAgentAnswer {
		return none, seedbed.Errorf(seedbed.ErrTooLargeAnswer, "the guest agent of domain %s answers %s with %s, which is too much", id, command,
			seedbed.Bytes(len(answer)))
	}
	if err := json.Unmarshal(answer, &reply); err != nil || reply.Return == nil {
		return none, senseless(id, command)
	}
	return *reply.Return, nil
}

// senseless is the error of an agent whose answer cannot be.
func senseless(id seedbed.InstanceID, command string) error {
	return seedbed.Errorf(seedbed.ErrConflict, "the guest agent of domain %s answers %s with what is not an answer to it", id, command)
}

// exec starts a program. It returns its number, and wait the rest: only what can be asked for again has output.
func (a agents) exec(ctx context.Context, g effects.GuestCommand) (seedbed.GuestProcess, error) {
	if err := checkInstance(g.ID); err != nil {
		return seedbed.GuestProcess{}, err
	}
	if err := g.Command.Check(); err != nil {
		return seedbed.GuestProcess{}, err
	}
	arguments := map[string]any{"path": g.Command.Path, "arg": append([]string{}, g.Command.Arguments...), "capture-output": true}
	if len(g.Command.Data) > 0 {
		arguments["input-data"] = g.Command.Data
	}
	started, err := ask[struct {
		PID *int64 `json:"pid"`
	}](ctx, a, g.ID, "guest-exec", arguments)
	if err == nil && started.PID == nil {
		err = senseless(g.ID, "guest-exec")
	}
	if err != nil {
		return seedbed.GuestProcess{}, err
	}
	a.results.forget(effects.GuestProcess{ID: g.ID, Process: *started.PID})
	return seedbed.GuestProcess{ID: *started.PID}, nil
}

// exitStatus is what an agent answers to guest-exec-status.
type exitStatus struct {
	Exited   *bool  `json:"exited"`
	ExitCode int64  `json:"exitcode"`
	Signal   int64  `json:"signal"`
	Out      []byte `json:"out-data"`
	Err      []byte `json:"err-data"`
	OutCut   bool   `json:"out-truncated"`
	ErrCut   bool   `json:"err-truncated"`
}

// wait waits a while for the exit of a program. An agent tells it once; it can be asked for again for some minutes.
func (a agents) wait(ctx context.Context, g effects.GuestProcess) (seedbed.GuestProcess, error) {
	p := seedbed.GuestProcess{ID: g.Process}
	if err := checkInstance(g.ID); err != nil {
		return p, err
	}
	end := time.Now().Add(exitTime)
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		l, err := a.results.look(g, func() (seedbed.GuestProcess, error) {
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
			defer cancel()
			return a.status(limited, g)
		})
		if err != nil {
			return p, err
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return p, ctx.Err()
		}
		if l.err != nil || l.process.Exited {
			return l.process, l.err
		}
		if time.Now().Add(pause).After(end) {
			return p, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return p, ctx.Err()
		}
	}
}

// status asks an agent whether a program has exited.
func (a agents) status(ctx context.Context, g effects.GuestProcess) (seedbed.GuestProcess, error) {
	p := seedbed.GuestProcess{ID: g.Process}
	s, err := ask[exitStatus](ctx, a, g.ID, "guest-exec-status", map[string]any{"pid": g.Process})
	if err == nil && (s.Exited == nil || s.ExitCode < math.MinInt32 || s.ExitCode > math.MaxUint32) {
		err = senseless(g.ID, "guest-exec-status")
	}
	switch {
	case errors.Is(err, seedbed.ErrAgentRefuses):
		err = seedbed.Errorf(seedbed.ErrAgentRefuses, "the guest agent does not know the program any more, and its output is lost: it was "+
			"asked for before, or was too much for the agent's time, or the agent was restarted: %v", err)
	case errors.Is(err, seedbed.ErrTooLargeAnswer):
		err = seedbed.Errorf(seedbed.ErrTooLargeAnswer, "the program has printed more than about 2 MiB, and all of it is lost, as is its exit "+
			"code: have it write to a file, and copy that: %v", err)
	}
	if err != nil || !*s.Exited {
		return p, err
	}
	p.Exited, p.ExitCode, p.Signal = true, int(s.ExitCode), s.Signal
	p.Stdout, p.Stderr, p.Truncated = s.Out, s.Err, s.OutCut || s.ErrCut
	return p, nil
}

// copy serves the copy of one file.
func (a agents) copy(ctx context.Context, f seedbed.GuestFile, c *duplex.Conn) error {
	if err := f.Check(); err != nil {
		return err
	}
	mode, do := "r", a.read
	if f.Write {
		mode, do = "w", a.write
	}
	handle, err := ask[int64](ctx, a, f.ID, "guest-file-open", map[string]any{"path": f.Path, "mode": mode})
	if err != nil && f.Write && (errors.Is(err, seedbed.ErrUnavailable) || ctx.Err() != nil) {
		return fmt.Errorf("%w: the file may have been emptied", err)
	}
	if err != nil {
		return err
	}
	sent := make(chan duplex.Message)
	over := make(chan struct{})
	var receiver sync.WaitGroup
	receiver.Go(func() {
		defer close(sent)
		for {
			m, err := c.Receive()
			if err != nil {
				return
			}
			select {
			case sent <- m:
			case <-over:
			}
		}
	})
	err = do(ctx, f.ID, handle, c, sent)
	close(over)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	_, closeErr := ask[struct{}](closing, a, f.ID, "guest-file-close", map[string]any{"handle": handle})
	if err == nil {
		err = closeErr
	}
	if err == nil {
		err = seedbed.ErrCopied
	}
	if errors.Is(err, errLeft) {
		c.Close() // there is no one to tell
	} else {
		c.End(seedbed.EndNote(err).JSON())
	}
	receiver.Wait()
	return nil
}

// read sends a guest's file.
func (a agents) read(ctx context.Context, id seedbed.InstanceID, handle int64, c *duplex.Conn, sent <-chan duplex.Message) error {
	const command = "guest-file-read"
	size, nothing := seedbed.Bytes(0), 0
	for {
		part, err := ask[struct {
			Data []byte `json:"buf-b64"`
			EOF  bool   `json:"eof"`
		}](ctx, a, id, command, map[string]any{"handle": handle, "count": filePart})
		if nothing++; len(part.Data) > 0 {
			nothing = 0
		}
		if err == nil && (len(part.Data) > filePart || nothing > maxNothing) {
			err = senseless(id, command)
		}
		if size += seedbed.Bytes(len(part.Data)); err == nil && size > seedbed.MaxGuestFile {
			err = tooLargeFile()
		}
		if err != nil {
			return err
		}
		if len(part.Data) > 0 {
			if err := c.Send(duplex.Message{Data: part.Data}); err != nil {
				return errLeft
			}
		}
		if part.EOF {
			return nil
		}
		select {
		case _, ok := <-sent: // what it says is not for a file that is read
			if !ok {
				return errLeft
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
	}
}

func tooLargeFile() error {
	return seedbed.Errorf(seedbed.ErrInvalid, "the file is larger than %s, which is the most", seedbed.MaxGuestFile)
}

// write writes a guest's file.
func (a agents) write(ctx context.Context, id seedbed.InstanceID, handle int64, _ *duplex.Conn, sent <-chan duplex.Message) error {
	size := seedbed.Bytes(0)
	for {
		var m duplex.Message
		var ok bool
		select {
		case m, ok = <-sent:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch {
		case !ok:
			return errLeft
		case m.Text:
			var n seedbed.ConsoleNote
			if json.Unmarshal(m.Data, &n) != nil || n.Note != seedbed.NoteEnd {
				continue
			}
			_, err := ask[struct{}](ctx, a, id, "guest-file-flush", map[string]any{"handle": handle})
			return err
		}
		if size += seedbed.Bytes(len(m.Data)); size > seedbed.MaxGuestFile {
			return tooLargeFile()
		}
		if err := a.put(ctx, id, handle, m.Data); err != nil {
			return err
		}
	}
}

// put writes bytes to a guest's file.
func (a agents) put(ctx context.Context, id seedbed.InstanceID, handle int64, b []byte) error {
	const command = "guest-file-write"
	for nothing := 0; len(b) > 0; {
		part := b[:min(len(b), filePart)]
		wrote, err := ask[struct {
			Count int `json:"count"`
		}](ctx, a, id, command, map[string]any{"handle": handle, "buf-b64": part})
		if nothing++; wrote.Count > 0 {
			nothing = 0
		}
		if err == nil && (wrote.Count < 0 || wrote.Count > len(part) || nothing > maxNothing) {
			err = senseless(id, command)
		}
		if err != nil {
			return err
		}
		b = b[wrote.Count:]
	}
	return nil
}
