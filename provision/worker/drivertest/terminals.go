package drivertest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/provision/effects"
	"seedbed/provision/fleet"
	"seedbed/provision/worker"
)

// Terminals opens the consoles and screens of a hypervisor in memory by way of a worker of its own, as seedbedd does. Every instance that
// is asked for runs there.
type Terminals struct {
	*Hypervisor
	client *fleet.Client
	// Agent is the agent of all guests.
	Agent *GuestAgent
	// Pool is the pool "default", which has the files that were made of volumes.
	Pool *Pool
	// Stop ends the worker.
	Stop func() error
}

// NewTerminals starts the worker, with its socket in dir.
func NewTerminals(dir string) (*Terminals, error) {
	at := filepath.Join(dir, "worker.sock")
	ln, err := net.Listen("unix", at)
	if err != nil {
		return nil, err
	}
	t := &Terminals{Hypervisor: NewHypervisor(), client: fleet.NewClient(at), Agent: NewGuestAgent(), Pool: NewPool()}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	server := worker.New(worker.Config{Node: "hv1", Hypervisor: t.Hypervisor, Log: slog.New(slog.DiscardHandler),
		Pools: map[string]worker.Pool{"default": t.Pool}})
	go func() { served <- server.Serve(ctx, ln) }()
	t.Stop = sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	return t, nil
}

// Run makes an instance run, and its guest wait for input.
func (t *Terminals) Run(id seedbed.InstanceID) error {
	spec := seedbed.DomainSpec{ID: id, Name: string(id), Job: "test", System: &seedbed.System{Serial: true, VNC: true}}
	if err := t.DefineDomain(context.Background(), spec); err != nil {
		return err
	}
	t.SetAgent(id, t.Agent.Answer)
	return t.StartDomain(context.Background(), id)
}

// OpenConsole opens a session at the console of an instance.
func (t *Terminals) OpenConsole(ctx context.Context, _ string, s seedbed.ConsoleSession) (*duplex.Conn, error) {
	if err := t.wake(ctx, s.ID); err != nil {
		return nil, err
	}
	return effects.OpenConsole.Open(ctx, t.client, s)
}

// OpenScreen opens a session at the screen of an instance.
func (t *Terminals) OpenScreen(ctx context.Context, _ string, id seedbed.InstanceID) (*duplex.Conn, error) {
	if err := t.wake(ctx, id); err != nil {
		return nil, err
	}
	return effects.OpenScreen.Open(ctx, t.client, effects.DomainRef{ID: id})
}

// Screenshot returns what the screen of an instance shows.
func (t *Terminals) Screenshot(ctx context.Context, _ string, id seedbed.InstanceID) ([]byte, error) {
	if err := t.wake(ctx, id); err != nil {
		return nil, err
	}
	return effects.Screenshot.Ask(ctx, t.client, effects.DomainRef{ID: id})
}

// Usage returns what those instances have used that run, for each node, as if all were there.
func (t *Terminals) Usage(ctx context.Context, nodes []string) (all []seedbed.NodeUsage) {
	for _, n := range nodes {
		u := seedbed.NodeUsage{Node: n}
		var err error
		if u.Domains, err = effects.DomainUsage.Ask(ctx, t.client, effects.None{}); err != nil {
			u.Problem = err.Error()
		}
		u.At = time.Now()
		all = append(all, u)
	}
	return all
}

// GuestExec runs a program in an instance's guest.
func (t *Terminals) GuestExec(
	ctx context.Context, _ string, id seedbed.InstanceID, c seedbed.GuestCommand,
) (seedbed.GuestProcess, error) {
	if err := t.wake(ctx, id); err != nil {
		return seedbed.GuestProcess{}, err
	}
	return effects.GuestExec.Ask(ctx, t.client, effects.GuestCommand{ID: id, Command: c})
}

// GuestWait waits for a program in an instance's guest.
func (t *Terminals) GuestWait(ctx context.Context, _ string, id seedbed.InstanceID, process int64) (seedbed.GuestProcess, error) {
	return effects.GuestWait.Ask(ctx, t.client, effects.GuestProcess{ID: id, Process: process})
}

// OpenGuestFile copies a file of an instance's guest.
func (t *Terminals) OpenGuestFile(ctx context.Context, _ string, f seedbed.GuestFile) (*duplex.Conn, error) {
	if err := t.wake(ctx, f.ID); err != nil {
		return nil, err
	}
	return effects.OpenGuestFile.Open(ctx, t.client, f)
}

// wake makes an instance run that was not asked for before.
func (t *Terminals) wake(ctx context.Context, id seedbed.InstanceID) error {
	_, err := t.DomainState(ctx, id)
	if errors.Is(err, seedbed.ErrNotFound) {
		if err = t.Run(id); err == nil {
			t.Write(id, "login: ")
		}
	}
	return err
}

// OpenVolumeFile sends a file that was made of a volume.
func (t *Terminals) OpenVolumeFile(ctx context.Context, _ string, f seedbed.VolumeFile) (*duplex.Conn, error) {
	return effects.OpenVolumeFile.Open(ctx, t.client, f)
}
