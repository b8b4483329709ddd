// Package run is what the daemons' main functions share: flags and configuration, a group of tasks
// that end together, signals, systemd's notifications, the log, Unix sockets, and the health
// listener.
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

// stopPatience is how long a stop may take before the log names the tasks that still run.
const stopPatience = 10 * time.Second

// Group is the tasks of one daemon. The first task that fails ends the others.
type Group struct {
	log   *slog.Logger
	tasks []task
}

type task struct {
	name string
	run  func(context.Context) error
}

// NewGroup returns an empty group.
func NewGroup(log *slog.Logger) *Group { return &Group{log: log} }

// Add adds a task before Run. The task works until its context ends, and returns only once
// everything that it started has ended. If it returns nil early, the other tasks continue.
func (g *Group) Add(name string, run func(context.Context) error) {
	g.tasks = append(g.tasks, task{name, run})
}

// Run starts all tasks, notifies systemd that the daemon is ready (its listeners must already be
// bound), and waits for all tasks. When ctx ends, it stops the tasks; that is not an error. Run
// returns the first failure, with the name of its task.
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
	}
	if ctx.Err() != nil { // also if all have ended meanwhile
		g.notify(daemon.SdNotifyStopping)
		g.awaitStop(ended, func() string {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(running, ", ")
		})
	}
	return first
}

// awaitStop waits until all tasks have ended, and logs the names of those that are late.
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
