package feed

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/gofiber/fiber/v2"

	"seedbed"
)

// Guests is what a server needs to know about the guests of a node.
type Guests interface {
	// NodeBlob returns the document of that digest if a record of the node names it; otherwise
	// seedbed.ErrNotFound.
	NodeBlob(ctx context.Context, node, sha256 string) ([]byte, error)
	// NodeGuests returns those of ids that the node serves or has served.
	NodeGuests(ctx context.Context, node string, ids []seedbed.InstanceID) ([]seedbed.InstanceID, error)
}

// Nodes is what a server needs to know about other nodes.
type Nodes interface {
	Guests
	// Node returns the node of that name; seedbed.ErrNotFound if it does not exist.
	Node(ctx context.Context, name string) (seedbed.Node, error)
}

// peer is a connection of a caller that has proved which node it is on.
type peer interface {
	Peer() (node string, err error)
}

// ServeNodes answers the guest planes of other nodes on ln until ctx ends, which ends waiting polls
// at once, and then returns nil. The connections of ln name the node of their caller (Peer() (node
// string, err error)). A caller that is not in nodes is refused. Each caller gets only the records
// of its own node and their documents, and may report only on its own guests: it faces guests, and
// one of them may have taken it over.
func (s *Server) ServeNodes(ctx context.Context, ln net.Listener, nodes Nodes) error {
	return s.serve(ctx, ln, func(ctx context.Context, c *fiber.Ctx) (caller, error) { return admit(ctx, c, nodes) })
}

// ServeNode is like ServeNodes for the guest plane of this host, which gets only what belongs to
// node, since it faces guests as well. The file mode of the socket decides who may connect.
func (s *Server) ServeNode(ctx context.Context, ln net.Listener, node string, guests Guests) error {
	return s.serve(ctx, ln, func(context.Context, *fiber.Ctx) (caller, error) {
		return caller{node: node, guests: guests, here: true}, nil
	})
}

// caller is what is known about the sender of a request.
type caller struct {
	node   string
	guests Guests
	// here is true for a caller on this host, which needs no certificate.
	here bool
}

const callerKey = "seedbed.caller"

// callerOf returns the caller of an admitted request.
func callerOf(c *fiber.Ctx) caller { return c.Locals(callerKey).(caller) }

// admit identifies the caller of a request.
func admit(ctx context.Context, c *fiber.Ctx, nodes Nodes) (caller, error) {
	p, ok := c.Context().Conn().(peer)
	if !ok {
		return caller{}, errors.New("the connection does not identify its peer")
	}
	node, err := p.Peer()
	if err != nil {
		c.Context().SetConnectionClose()
		return caller{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	_, err = nodes.Node(ctx, node)
	if errors.Is(err, seedbed.ErrNotFound) {
		return caller{}, seedbed.Errorf(seedbed.ErrForbidden, "node %s is not one of this installation: seedbed node add %s", node, node)
	}
	return caller{node: node, guests: nodes}, err
}

// about refuses requests about a node other than the caller's.
func (who caller) about(node string) error {
	switch {
	case who.node == node:
		return nil
	case who.here:
		return seedbed.Errorf(seedbed.ErrForbidden,
			"this host is node %s, but the request is for %.80q: set node to the same name for seedbedd and seedbed-metadata", who.node, node)
	}
	return seedbed.Errorf(seedbed.ErrForbidden,
		"the certificate is for node %s, but the request is for %.80q: set node to the name in the certificate, or issue another certificate",
		who.node, node)
}

// ownEvents returns the events that belong to the caller's guests. It drops the others instead of
// refusing them, because a guest plane that sends them by mistake would retry forever.
func (s *Server) ownEvents(ctx context.Context, who caller, events []seedbed.GuestEvent) ([]seedbed.GuestEvent, error) {
	if len(events) == 0 {
		return events, nil
	}
	var ids []seedbed.InstanceID
	for _, e := range events {
		if !slices.Contains(ids, e.Instance) {
			ids = append(ids, e.Instance)
		}
	}
	own, err := who.guests.NodeGuests(ctx, who.node, ids)
	if err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(events, func(e seedbed.GuestEvent) bool { return !slices.Contains(own, e.Instance) })
	if n := len(events) - len(kept); n > 0 {
		s.log.Warn("events of instances that the node does not serve are dropped", "node", who.node, "events", n)
	}
	return kept, nil
}
