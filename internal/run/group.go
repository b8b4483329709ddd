// Package run is what the daemons' mains share: flags and configuration, a
// group of tasks that end together, signals, what systemd wants to know, the
// log, unix sockets, and the health listener.
package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// stopPatience is how long a stop may take before the log names who is late.
const stopPatience = 10 * time.Second

// Group is the tasks of one daemon. The first that fails ends the others.
type Group struct {
	log   *slog.Logger
	tasks []task
}

type task struct {
	name string
	run  func(context.Context) error
}

// NewGroup makes an empty group.
func NewGroup(log *slog.Logger) *Group { return &Group{log: log} }

// Add adds a task before Run. It works until its context ends and returns only
// once all that it started has ended. It may end early with nil, which leaves
// the others alone.
func (g *Group) Add(name string, run func(context.Context) error) {
	g.tasks = append(g.tasks, task{name, run})
}

// Run starts all tasks, tells systemd that the daemon is ready (listeners are
// bound before), and waits for all of them. When ctx ends they are told to
// stop, which is no error; what comes back is the first failure, under its
// task's name.
func (g *Group) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wait    sync.WaitGroup
		mu      sync.Mutex
		running []string
		first   error
	)
	for _, t := range g.tasks {
		running = append(running, t.name)
	}
	for _, t := range g.tasks {
		wait.Go(func() {
			err := t.run(ctx)
			mu.Lock()
			defer mu.Unlock()
			running = slices.DeleteFunc(running, func(name string) bool { return name == t.name })
			if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return
			}
			if first == nil {
				first = fmt.Errorf("%s: %w", t.name, err)
			}
			cancel()
		})
	}
	g.notify(daemon.SdNotifyReady)

	ended := make(chan struct{})
	go func() { wait.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		g.notify(daemon.SdNotifyStopping)
		g.awaitStop(ended, func() string {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(running, ", ")
		})
	}
	return first
}

// awaitStop waits until all tasks have ended, and says who is late.
func (g *Group) awaitStop(ended <-chan struct{}, late func() string) {
	tick := time.NewTicker(stopPatience)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			g.log.Warn("still stopping", "tasks", late())
		}
	}
}

func (g *Group) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		g.log.Warn("cannot notify systemd", "state", state, "err", err)
	}
}
