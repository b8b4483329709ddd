package feed

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/gofiber/fiber/v2"

	"seedbed"
)

// Nodes is what a server of other hosts' guest planes asks about them.
type Nodes interface {
	// Node is the hypervisor of that name; seedbed.ErrNotFound when there is none.
	Node(ctx context.Context, name string) (seedbed.Node, error)
	// NodeBlob is Blob for a document that a record of the node names;
	// seedbed.ErrNotFound for another.
	NodeBlob(ctx context.Context, node, sha256 string) ([]byte, error)
	// NodeGuests are those of ids that the node serves, or has served.
	NodeGuests(ctx context.Context, node string, ids []seedbed.InstanceID) ([]seedbed.InstanceID, error)
}

// peer is a connection of a caller that has proved which node it is on.
type peer interface {
	Peer() (node string, err error)
}

// ServeNodes is Serve for the guest planes of other hosts. The connections of ln
// tell which node's caller they are (Peer() (node string, err error)), and who is not
// in nodes is refused. Each is served what is its own node's: its records and their
// documents, and it tells of its own guests alone. It faces guests, and may
// have been taken over by one.
func (s *Server) ServeNodes(ctx context.Context, ln net.Listener, nodes Nodes) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.serve(ctx, cancel, ln, s.app(ctx, func(c *fiber.Ctx) error { return admit(ctx, c, nodes) }))
}

// ServeNode is Serve for the guest plane of this host, which is served what is of
// node and no more: it faces guests as those of other hosts do.
func (s *Server) ServeNode(ctx context.Context, ln net.Listener, node string, nodes Nodes) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.serve(ctx, cancel, ln, s.app(ctx, func(c *fiber.Ctx) error {
		c.Locals(callerKey, caller{node: node, nodes: nodes, here: true})
		return c.Next()
	}))
}

// caller is what is known of who sent a request. There is none where everybody is
// served everything.
type caller struct {
	node  string
	nodes Nodes
	// here tells that it is on this host, and needs no certificate.
	here bool
}

const callerKey = "seedbed.caller"

// admit finds out who sent a request.
func admit(ctx context.Context, c *fiber.Ctx, nodes Nodes) error {
	p, ok := c.Context().Conn().(peer)
	if !ok {
		return errors.New("a connection does not tell whose it is")
	}
	node, err := p.Peer()
	if err != nil {
		c.Context().SetConnectionClose()
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	_, err = nodes.Node(ctx, node)
	if errors.Is(err, seedbed.ErrNotFound) {
		return seedbed.Errorf(seedbed.ErrForbidden, "node %s is not one of this installation: seedbed node add %s", node, node)
	}
	if err != nil {
		return err
	}
	c.Locals(callerKey, caller{node: node, nodes: nodes})
	return c.Next()
}

// ofCaller refuses what is about another node than the caller's.
func ofCaller(c *fiber.Ctx, node string) error {
	who, ok := c.Locals(callerKey).(caller)
	switch {
	case !ok || who.node == node:
		return nil
	case who.here:
		return seedbed.Errorf(seedbed.ErrForbidden, "this host is node %s, and the request about %.80q: set node alike for seedbedd and seedbed-metadata", who.node, node)
	}
	return seedbed.Errorf(seedbed.ErrForbidden, "the certificate is of node %s, and the request about %.80q: set node to what the certificate says, or issue another", who.node, node)
}

// document is a document that the caller may have.
func (s *Server) document(ctx context.Context, c *fiber.Ctx, sum string) ([]byte, error) {
	if who, ok := c.Locals(callerKey).(caller); ok {
		return who.nodes.NodeBlob(ctx, who.node, sum)
	}
	return s.store.Blob(ctx, sum)
}

// ownEvents are those of events that are of the caller's guests. The others are
// dropped, and not refused: a plane that sends them by mistake would send them for ever.
func (s *Server) ownEvents(ctx context.Context, c *fiber.Ctx, events []seedbed.GuestEvent) ([]seedbed.GuestEvent, error) {
	who, ok := c.Locals(callerKey).(caller)
	if !ok || len(events) == 0 {
		return events, nil
	}
	var ids []seedbed.InstanceID
	for _, e := range events {
		if !slices.Contains(ids, e.Instance) {
			ids = append(ids, e.Instance)
		}
	}
	own, err := who.nodes.NodeGuests(ctx, who.node, ids)
	if err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(events, func(e seedbed.GuestEvent) bool { return !slices.Contains(own, e.Instance) })
	if n := len(events) - len(kept); n > 0 {
		s.log.Warn("events of instances that the node does not serve are dropped", "node", who.node, "events", n)
	}
	return kept, nil
}
