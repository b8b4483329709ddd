package worker

import "net"

// peer is a connection of a caller that has proved who it is.
type peer interface {
	// Peer is an error once the caller would be refused.
	Peer() (node string, err error)
}

// trusted tells why the caller on a connection would be refused now: a call without
// an end outlives certificates. Who may use a socket has been asked when it was opened.
func trusted(conn net.Conn) error {
	p, ok := conn.(peer)
	if !ok {
		return nil
	}
	_, err := p.Peer()
	return err
}
