package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
)

// Conn is a connection of an authenticated caller.
type Conn struct {
	*tls.Conn
	listener *listener
	node     string
	closing  sync.Once
}

// Peer returns the caller's node. It returns an error if the caller's certificate is no longer
// valid, because a connection may outlive the certificate and its authority.
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
