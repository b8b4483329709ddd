package worker

import "net"

// peer is a connection of a caller that has been authenticated.
type peer interface {
	// Peer returns an error once the caller would be refused.
	Peer() (node string, err error)
}

// trusted returns why the caller on a connection would be refused now, because a call without an
// end may outlive certificates. Access to a unix socket was checked when it was opened.
func trusted(conn net.Conn) error {
	p, ok := conn.(peer)
	if !ok {
		return nil
	}
	_, err := p.Peer()
	return err
}
