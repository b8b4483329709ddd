package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// Directory is the record of the installation's nodes.
type Directory interface {
	Nodes(ctx context.Context) ([]seedbed.Node, error)
	// NoteNode records the result of asking a node's worker: its report or, unless it is empty, the
	// problem that prevented an answer.
	NoteNode(ctx context.Context, name string, r seedbed.NodeReport, problem string, at time.Time) error
}

// Config lists the workers and says how they are reached.
type Config struct {
	Directory Directory
	// Dial makes the client of a node's worker, or says why it cannot be reached.
	Dial func(seedbed.Node) (*Client, error)
	// Home is the node of this control host, which is preferred if several nodes can do something.
	Home string
	Log  *slog.Logger
}

// Fleet holds the workers of all nodes of an installation. Its methods may be called at the same
// time.
type Fleet struct {
	cfg   Config
	every intervals
	mu    sync.Mutex
	nodes []seedbed.Node
	known map[string]dialled
}

// dialled is a client with the address that it was made for.
type dialled struct {
	worker string
	client *Client
}

// intervals are fixed internal waits.
type intervals struct {
	look   time.Duration // between two reads of the directory
	report time.Duration // between two reports of a worker
	ask    time.Duration // for one answer of one worker
}

// Open makes a Fleet with the nodes as of now. Run keeps it up to date.
func Open(ctx context.Context, c Config) (*Fleet, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	f := &Fleet{cfg: c, known: map[string]dialled{}, every: intervals{look: time.Second, report: 15 * time.Second, ask: 10 * time.Second}}
	if err := f.look(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// look reads the directory.
func (f *Fleet) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.every.ask)
	defer cancel()
	nodes, err := f.cfg.Directory.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = nodes
	for name := range f.known {
		if !slices.ContainsFunc(nodes, func(n seedbed.Node) bool { return n.Name == name }) {
			delete(f.known, name)
		}
	}
	return nil
}

// Nodes returns the nodes by name, as of at most a second ago.
func (f *Fleet) Nodes() []seedbed.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nodes)
}

// Of returns the worker of a node. For a node that is unknown or has no address, all calls of that
// worker fail with ErrUnavailable and say what is missing.
func (f *Fleet) Of(node string) effects.Worker { return f.client(node) }

func (f *Fleet) client(node string) *Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.nodes, func(n seedbed.Node) bool { return n.Name == node })
	if at < 0 {
		var names []string
		for _, n := range f.nodes {
			names = append(names, n.Name)
		}
		return absent(seedbed.Errorf(seedbed.ErrUnavailable,
			"node %q is not a hypervisor of this installation, which has %s: add it with seedbed node add %s --worker https://…",
			node, cmp.Or(strings.Join(names, ", "), "none"), node))
	}
	n := f.nodes[at]
	if have, ok := f.known[node]; ok && have.worker == n.Worker {
		return have.client
	}
	client, err := f.cfg.Dial(n)
	if err != nil {
		return absent(err) // the next call tries again: what is missing may be there by then
	}
	client.incarnation = func() int64 { return f.incarnation(node) }
	f.known[node] = dialled{n.Worker, client}
	return client
}

// incarnation returns that of a node, as far as it is known.
func (f *Fleet) incarnation(node string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.Name == node {
			return n.Fencing.Incarnation
		}
	}
	return 0
}

// FenceStatus asks the fence agent of a node whether the node is on, from a worker of another node that answers.
func (f *Fleet) FenceStatus(ctx context.Context, node string, c seedbed.FenceCall) (on bool, from string, err error) {
	err = seedbed.Errorf(seedbed.ErrUnavailable, "no other node answers that could ask the fence agent of node %s", node)
	for _, n := range f.Nodes() {
		if n.Name == node || n.Gone(time.Now()) {
			continue
		}
		state, asked := effects.FenceStatus.Ask(ctx, f.Of(n.Name), c)
		if err = asked; err == nil || !errors.Is(err, seedbed.ErrUnavailable) {
			return state.On, n.Name, err
		}
	}
	return false, "", err
}

// absent returns a client without a worker. All of its calls return err.
func absent(err error) *Client {
	return newClient("", func(context.Context) (net.Conn, error) { return nil, err })
}

// named returns the node of that name, or an error if there is none.
func (f *Fleet) named(node string) (seedbed.Node, error) {
	for _, n := range f.Nodes() {
		if n.Name == node {
			return n, nil
		}
	}
	return seedbed.Node{}, seedbed.Errorf(seedbed.ErrNotFound, "node %q does not exist: see seedbed node list", node)
}

// chosen returns the node that is named or, if node is empty, all nodes.
func (f *Fleet) chosen(node string) ([]seedbed.Node, error) {
	if node == "" {
		return f.Nodes(), nil
	}
	n, err := f.named(node)
	return []seedbed.Node{n}, err
}

// Run follows the directory, and asks every worker for its report, until ctx ends.
func (f *Fleet) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { f.report(ctx) })
	tick := time.NewTicker(f.every.look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		before := f.Nodes()
		if err := f.look(ctx); err != nil {
			if ctx.Err() == nil {
				f.cfg.Log.Warn("the nodes are as they were read last", "err", err)
			}
			continue
		}
		for _, n := range f.Nodes() { // nodes that are new, or at a new address, are asked at once
			if !slices.ContainsFunc(before, func(b seedbed.Node) bool { return b.Name == n.Name && b.Worker == n.Worker }) {
				group.Go(func() { f.reportOf(ctx, n.Name) })
			}
		}
	}
}
