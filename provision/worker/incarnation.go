package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/durable"
	"seedbed/provision/effects"
)

// heardWithin is how long after the last request of a control host a worker starts guests. A node is fenced later than that, so a
// worker that was frozen, or cut off, starts nothing before it has heard whether its node was fenced.
const heardWithin = 30 * time.Second

// Incarnation is which life of its node the worker is in. It refuses jobs once the node was fenced, until it is admitted again.
type Incarnation struct {
	path string // where it is kept; empty for nowhere
	now  func() time.Time

	mu sync.Mutex
	// mine is what the worker was admitted to, and newest the highest of which it has heard.
	mine, newest int64
	heard        time.Time
}

// OpenIncarnation reads what is kept in the file at path.
func OpenIncarnation(path string) (*Incarnation, error) {
	i := &Incarnation{path: path, now: time.Now}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return i, nil
	}
	if err == nil {
		i.mine, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	if err != nil {
		return nil, fmt.Errorf("incarnation of the node: %w", err)
	}
	i.newest = i.mine
	return i, nil
}

// hear notes the incarnation in a request.
func (i *Incarnation) hear(n int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.newest, i.heard = max(i.newest, n), i.now()
}

// current returns ErrStale for a call of a control host that has not heard of the latest fence of the node, and ErrUnavailable for each
// call until the worker was admitted after it.
func (i *Incarnation) current(n int64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.newest > i.mine:
		return seedbed.Errorf(seedbed.ErrUnavailable, "the node was fenced (incarnation %d, and the worker was admitted to %d): "+
			"it does nothing before it is admitted again", i.newest, i.mine)
	case n < i.mine:
		return seedbed.Errorf(seedbed.ErrUnavailable, "the node was fenced since: its incarnation is %d, and not %d", i.mine, n)
	}
	return nil
}

// awake returns ErrUnavailable unless a control host was heard of a short while ago, and has not fenced the node.
func (i *Incarnation) awake() error {
	i.mu.Lock()
	mine, since := i.mine, i.now().Sub(i.heard)
	i.mu.Unlock()
	if since > heardWithin {
		return seedbed.Errorf(seedbed.ErrUnavailable, "no control host was heard of for %s, and the node may have been fenced: "+
			"it starts no guest", since.Round(time.Second))
	}
	return i.current(mine)
}

// admitted returns what the worker was admitted to.
func (i *Incarnation) admitted() int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mine
}

// admit removes the domains of instances that are on other nodes now, and then lets the worker do jobs of an incarnation.
func (s *Server) admit(ctx context.Context, a effects.Admission) (effects.None, error) {
	i := s.incarnation
	if mine := i.admitted(); a.Incarnation < mine {
		return effects.None{}, seedbed.Errorf(seedbed.ErrStale, "the worker was admitted to incarnation %d of its node, which is "+
			"later than %d", mine, a.Incarnation)
	}
	for _, id := range a.Elsewhere {
		if err := checkInstance(id); err != nil {
			return effects.None{}, err
		}
		for _, end := range []func(context.Context, seedbed.InstanceID) error{s.hypervisor.DestroyDomain, s.hypervisor.UndefineDomain} {
			if err := end(ctx, id); err != nil {
				return effects.None{}, fmt.Errorf("remove the domain of instance %s, which is on another node: %w", id, err)
			}
		}
		s.log.Warn("the domain of an instance was removed, which was started on another node", "instance", id)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if a.Incarnation < i.newest {
		return effects.None{}, seedbed.Errorf(seedbed.ErrStale, "the node was fenced again: its incarnation is %d", i.newest)
	}
	if i.path != "" && a.Incarnation != i.mine {
		if err := durable.WriteFile(i.path, []byte(strconv.FormatInt(a.Incarnation, 10)+"\n"), 0o600); err != nil {
			return effects.None{}, fmt.Errorf("keep the incarnation of the node: %w", err)
		}
	}
	i.mine, i.newest = a.Incarnation, a.Incarnation
	return effects.None{}, nil
}

// Fences runs the fence agents of other nodes.
type Fences interface {
	// RunFence runs an agent with an action of fence-agents (off, status) and returns its exit status: 0 for success, and for the status of
	// a node that is off 2. Errors: ErrNotFound without that agent, ErrForbidden for one that users other than root could have written.
	// No error has a secret in it.
	RunFence(ctx context.Context, c seedbed.FenceCall, action string) (status int, said string, err error)
}

// The exit status of a fence agent that was asked for the status of its node.
const (
	nodeOn  = 0
	nodeOff = 2
)

// runFence runs a fence agent.
func (s *Server) runFence(ctx context.Context, c seedbed.FenceCall, action string) (int, string, error) {
	if s.fences == nil {
		return 0, "", seedbed.Errorf(seedbed.ErrInvalid, "this worker runs no fence agents")
	}
	for _, options := range []map[string]string{c.Options, c.Secrets} {
		if err := seedbed.CheckFence(c.Agent, options); err != nil {
			return 0, "", err
		}
	}
	return s.fences.RunFence(ctx, c, action)
}

// fenceNode switches another node off, and asks whether it is. An agent that fails is believed if the node is off nevertheless.
func (s *Server) fenceNode(ctx context.Context, c seedbed.FenceCall) error {
	status, said, err := s.runFence(ctx, c, "off")
	if err != nil {
		return err
	}
	state, err := s.fenceStatus(ctx, c)
	switch {
	case err != nil && status != 0:
		return seedbed.Errorf(seedbed.ErrConflict, "%s failed with status %d: %s", c.Agent, status, said)
	case err != nil:
		return err
	case state.On:
		return seedbed.Errorf(seedbed.ErrConflict, "%s was to switch the node off, and says that it is on: %s", c.Agent, said)
	}
	return nil
}

// fenceStatus asks an agent whether its node is on.
func (s *Server) fenceStatus(ctx context.Context, c seedbed.FenceCall) (effects.FenceState, error) {
	status, said, err := s.runFence(ctx, c, "status")
	if err == nil && status != nodeOn && status != nodeOff {
		err = seedbed.Errorf(seedbed.ErrConflict, "%s does not know whether the node is on: status %d: %s", c.Agent, status, said)
	}
	return effects.FenceState{On: status == nodeOn}, err
}
