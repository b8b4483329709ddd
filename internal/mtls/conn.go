package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
)

// Conn is a connection of a caller that has proved who it is.
type Conn struct {
	*tls.Conn
	listener *listener
	node     string
	closing  sync.Once
}

// Peer is the caller's node, when its certificate would be taken now as well: a connection
// may outlive the certificate and its authority.
func (c *Conn) Peer() (node string, err error) {
	l := c.listener
	leaf, err := l.id.verify(c.ConnectionState().PeerCertificates, l.callers, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return "", fmt.Errorf("the caller: %w", err)
	}
	return leaf.Subject.CommonName, nil
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.closing.Do(func() { c.listener.unseat(c.node) })
	return err
}
