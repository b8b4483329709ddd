package feed

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/gofiber/fiber/v2"

	"seedbed"
)

// Guests is what a server asks about the guests of a node.
type Guests interface {
	// NodeBlob is the document of that digest, which a record of the node names;
	// seedbed.ErrNotFound for another, or none.
	NodeBlob(ctx context.Context, node, sha256 string) ([]byte, error)
	// NodeGuests are those of ids that the node serves, or has served.
	NodeGuests(ctx context.Context, node string, ids []seedbed.InstanceID) ([]seedbed.InstanceID, error)
}

// Nodes is what a server of other hosts' guest planes asks about them.
type Nodes interface {
	Guests
	// Node is the hypervisor of that name; seedbed.ErrNotFound if it does not exist.
	Node(ctx context.Context, name string) (seedbed.Node, error)
}

// peer is a connection of a caller that has proved which node it is on.
type peer interface {
	Peer() (node string, err error)
}

// ServeNodes answers the guest planes of other hosts on ln until ctx ends, which ends
// waiting polls at once, and returns nil then. The connections of ln tell which node's
// caller they are (Peer() (node string, err error)), and who is not in nodes is
// refused. Each is served what is its own node's: its records and their documents, and
// it may report only on its own guests. It faces guests, and may have been taken over by one.
func (s *Server) ServeNodes(ctx context.Context, ln net.Listener, nodes Nodes) error {
	return s.serve(ctx, ln, func(ctx context.Context, c *fiber.Ctx) (caller, error) { return admit(ctx, c, nodes) })
}

// ServeNode is ServeNodes for the guest plane of this host, which is served what is of
// node and no more: it faces guests as those of other hosts do. Who may connect is the
// business of the socket's file mode.
func (s *Server) ServeNode(ctx context.Context, ln net.Listener, node string, guests Guests) error {
	return s.serve(ctx, ln, func(context.Context, *fiber.Ctx) (caller, error) {
		return caller{node: node, guests: guests, here: true}, nil
	})
}

// caller is what is known of who sent a request.
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
			"this host is node %s, and the request about %.80q: set node alike for seedbedd and seedbed-metadata", who.node, node)
	}
	return seedbed.Errorf(seedbed.ErrForbidden,
		"the certificate is of node %s, and the request about %.80q: set node to what the certificate says, or issue another", who.node, node)
}

// ownEvents are those of events that are of the caller's guests. The others are
// dropped, and not refused: a plane that sends them by mistake would send them for ever.
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
