package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"seedbed"
)

// AskAgent implements worker.Agent.
func (h *Hypervisor) AskAgent(ctx context.Context, id seedbed.InstanceID, request []byte) (answer []byte, err error) {
	var agent func([]byte) ([]byte, error)
	err = h.effect(ctx, "AskAgent", func() error {
		d, err := h.look(ctx, id)
		switch {
		case err != nil:
			return err
		case d.state != seedbed.DomainRunning && d.state != seedbed.DomainPaused:
			return seedbed.Errorf(seedbed.ErrConflict, "domain %s is off", d.spec.Name)
		case d.agent == nil:
			return seedbed.Errorf(seedbed.ErrConflict, "no guest agent answers in domain %s", d.spec.Name)
		}
		agent = d.agent
		return nil
	})
	if err != nil {
		return nil, err
	}
	return agent(request)
}

// SetAgent gives a domain's guest an agent; nil takes it away.
func (h *Hypervisor) SetAgent(id seedbed.InstanceID, answer func(request []byte) ([]byte, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, ok := h.domains[id]; ok {
		d.agent = answer
	}
}

// GuestAgent is the agent of a guest with files and a few programs.
type GuestAgent struct {
	mu      sync.Mutex
	Files   map[string]string
	open    map[int64]*openFile
	ended   map[int64]map[string]any // what guest-exec-status answers, by the process
	last    int64
	frozen  bool
	freezes int
}

// Frozen reports whether the guest's file systems are frozen, and how often they were.
func (g *GuestAgent) Frozen() (now bool, times int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.frozen, g.freezes
}

type openFile struct {
	path string
	at   int
}

// NewGuestAgent returns the agent of a guest without files.
func NewGuestAgent() *GuestAgent {
	return &GuestAgent{Files: map[string]string{}, open: map[int64]*openFile{}, ended: map[int64]map[string]any{}}
}

// File returns the content of a file.
func (g *GuestAgent) File(path string) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text, ok := g.Files[path]
	return text, ok
}

// SetFile writes a file.
func (g *GuestAgent) SetFile(path, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Files[path] = text
}

// agentRequest has the arguments of all requests.
type agentRequest struct {
	Execute   string `json:"execute"`
	Arguments struct {
		Path   string    `json:"path"`
		Arg    agentArgs `json:"arg"`
		Input  []byte    `json:"input-data"`
		PID    int64     `json:"pid"`
		Mode   string    `json:"mode"`
		Handle int64     `json:"handle"`
		Count  int       `json:"count"`
		Buf    []byte    `json:"buf-b64"`
	} `json:"arguments"`
}

// agentArgs are the arguments of a program. An agent does not take null for them.
type agentArgs []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *agentArgs) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return errors.New("invalid parameter type for 'arg', expected: array")
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// Answer answers one request.
func (g *GuestAgent) Answer(request []byte) ([]byte, error) {
	var r agentRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	v, err := g.do(r)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrAgentRefuses, "the guest agent refuses: %v", err)
	}
	return json.Marshal(map[string]any{"return": v})
}

func (g *GuestAgent) do(r agentRequest) (any, error) {
	a := r.Arguments
	switch r.Execute {
	case "guest-fsfreeze-freeze":
		if g.frozen {
			return nil, errors.New("the command guest-fsfreeze-freeze has been disabled: the guest is frozen")
		}
		g.frozen = true
		g.freezes++
		return 2, nil
	case "guest-fsfreeze-thaw":
		if !g.frozen {
			return 0, nil
		}
		g.frozen = false
		return 2, nil
	case "guest-exec":
		return g.exec(a.Path, a.Arg, string(a.Input))
	case "guest-exec-status":
		status, ok := g.ended[a.PID]
		if !ok {
			return nil, fmt.Errorf("PID %d does not exist", a.PID)
		}
		if status["exited"] == true {
			delete(g.ended, a.PID)
		}
		return status, nil
	case "guest-file-open":
		if _, ok := g.Files[a.Path]; !ok && a.Mode == "r" {
			return nil, fmt.Errorf("failed to open file '%s' (mode: 'r'): No such file or directory", a.Path)
		}
		if a.Mode == "w" {
			g.Files[a.Path] = ""
		}
		g.last++
		g.open[g.last] = &openFile{path: a.Path}
		return g.last, nil
	}
	f, ok := g.open[a.Handle]
	if !ok {
		return nil, fmt.Errorf("handle '%d' has not been found", a.Handle)
	}
	switch r.Execute {
	case "guest-file-read":
		rest := g.Files[f.path][f.at:]
		part := rest[:min(len(rest), a.Count)]
		f.at += len(part)
		return map[string]any{"count": len(part), "buf-b64": []byte(part), "eof": len(part) == len(rest)}, nil
	case "guest-file-write":
		n := min(len(a.Buf), 40<<10) // less than it is given
		g.Files[f.path] += string(a.Buf[:n])
		return map[string]any{"count": n, "eof": false}, nil
	case "guest-file-flush":
		return struct{}{}, nil
	case "guest-file-close":
		delete(g.open, a.Handle)
		return struct{}{}, nil
	}
	return nil, fmt.Errorf("the command %s has not been found", r.Execute)
}

// exec runs echo, cat, which shows its input, fail, which exits with 3, and sleep, which does not exit.
func (g *GuestAgent) exec(path string, args []string, input string) (any, error) {
	status := map[string]any{"exited": true, "exitcode": 0}
	switch path {
	case "echo":
		status["out-data"] = []byte(strings.Join(args, " ") + "\n")
	case "cat":
		status["out-data"] = []byte(input)
	case "fail":
		status["exitcode"] = 3
		status["err-data"] = []byte("it \x1b[31mfailed\n")
	case "killed":
		status = map[string]any{"exited": true, "signal": 9, "out-truncated": true}
	case "sleep":
		status = map[string]any{"exited": false}
	default:
		return nil, fmt.Errorf("guest agent command failed, error was 'Failed to execute child process “%s”'", path)
	}
	g.last++
	g.ended[g.last] = status
	return map[string]any{"pid": g.last}, nil
}

// End ends the programs that run, with an exit code.
func (g *GuestAgent) End(code int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, status := range g.ended {
		if status["exited"] == false {
			status["exited"], status["exitcode"] = true, code
		}
	}
}

// Opened returns how many files are open.
func (g *GuestAgent) Opened() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}
