// Package mtls authenticates the programs on the hosts of an installation to each other. It uses
// TLS 1.3, in which both sides have a certificate of the installation's own authority. The subject
// identifies the program:
//
//	O  = seedbed:control, seedbed:worker, seedbed:metadata or seedbed:libvirt, which is its role
//	CN = the host's node name
//
// A certificate of one role is not valid for another, so a certificate stolen from a node's guest
// plane does not give access to a worker. The installation's authority must sign no other
// certificates.
package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seedbed"
	"seedbed/internal/reload"
)

// Role is the role of a program in an installation.
type Role string

// The roles.
const (
	Control  Role = "control"  // seedbedd
	Worker   Role = "worker"   // seedbed-worker
	Metadata Role = "metadata" // seedbed-metadata
	Libvirt  Role = "libvirt"  // libvirtd and QEMU, for guests that go from one node to another
)

// Roles returns all roles.
func Roles() []Role { return []Role{Control, Worker, Metadata, Libvirt} }

// organization returns the role as a subject's O.
func (r Role) organization() string { return "seedbed:" + string(r) }

// usages returns the uses of a certificate of the role. A control host both serves guest planes and
// calls workers, and libvirt serves and calls that of other nodes.
func (r Role) usages() []x509.ExtKeyUsage {
	switch r {
	case Worker:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	case Metadata:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
}

// Files names the files of an identity, in PEM.
type Files struct {
	// Name is the errors' word for them: "cluster.worker".
	Name string
	// CA is the authority that signs all certificates. The file may hold several authorities, such
	// as the old and the new one.
	CA string
	// Cert and Key are this program's certificate and key.
	Cert, Key string
}

// Identity authenticates this program to the others. Its methods are safe for concurrent use.
type Identity struct {
	files Files
	role  Role
	node  string
	held  *reload.Value[held]
	log   *slog.Logger
}

// held is the content of the files.
type held struct {
	pair      tls.Certificate
	authority *x509.CertPool
	// ends is when the first certificate expires: this one, or one in its chain of trust.
	ends time.Time
}

// Open reads the identity of the program with that role on that node. Changed files are read again
// at the next connection. If the new files are invalid, the old ones stay in use, and the log has a
// warning. The error for invalid files has the kind seedbed.ErrInvalid, and says which file is
// wrong and what would be right.
func Open(files Files, role Role, node string, log *slog.Logger) (*Identity, error) {
	i := &Identity{files: files, role: role, node: node, log: log}
	var err error
	i.held, err = reload.Open([]string{files.CA, files.Cert, files.Key}, i.load, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.Name, err)
	}
	if left := time.Until(i.held.Now().ends); left < 0 {
		log.Error("the certificate has expired: the other hosts refuse it", "cert", files.Cert)
	}
	return i, nil
}

// Client returns the configuration for connections to a server of that role on that node, or on any
// node if node is empty. host is the host of the server's address, for which its certificate must
// also be valid.
func (i *Identity) Client(role Role, node, host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: host,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair := i.held.Now().pair
			return &pair, nil
		},
		// Verified below, with the current authority.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf, err := i.verify(s.PeerCertificates, role, x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			if err := leaf.VerifyHostname(host); err != nil {
				return seedbed.Errorf(seedbed.ErrForbidden, "its certificate is not for %s: issue it with --host %s", host, host)
			}
			if name := leaf.Subject.CommonName; node != "" && name != node {
				return seedbed.Errorf(seedbed.ErrForbidden, "its certificate is of node %.80q, expected %s", name, node)
			}
			return nil
		},
	}
}

// server returns the configuration for connections of callers of that role.
func (i *Identity) server(role Role) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair := i.held.Now().pair
			return &pair, nil
		},
		// Verified below, with the current authority. A session resumed from a ticket would have
		// been verified in the past.
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := i.verify(s.PeerCertificates, role, x509.ExtKeyUsageClientAuth)
			return err
		},
	}
}

// verify returns the peer's certificate if it is one of that role.
func (i *Identity) verify(chain []*x509.Certificate, role Role, usage x509.ExtKeyUsage) (*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, seedbed.Errorf(seedbed.ErrUnauthenticated, "the certificate is missing")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	leaf := chain[0]
	_, err := leaf.Verify(x509.VerifyOptions{Roots: i.held.Now().authority, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return nil, notTrusted(leaf, err)
	}
	return leaf, checkSubject(leaf, role)
}

// notTrusted returns an error that says why a certificate could not be verified.
func notTrusted(leaf *x509.Certificate, err error) error {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return seedbed.Errorf(seedbed.ErrUnauthenticated, "the certificate of %.80q is valid from %s to %s, or its authority's has expired",
			leaf.Subject.CommonName, leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return seedbed.Errorf(seedbed.ErrUnauthenticated,
			"the certificate of %.80q was not signed by the authority of this installation (cluster.ca)", leaf.Subject.CommonName)
	}
	return seedbed.Errorf(seedbed.ErrUnauthenticated, "the certificate of %.80q: %v", leaf.Subject.CommonName, err)
}

// checkSubject refuses a certificate of another role, or without a node.
func checkSubject(c *x509.Certificate, role Role) error {
	if o := c.Subject.Organization; len(o) != 1 || o[0] != role.organization() {
		return seedbed.Errorf(seedbed.ErrForbidden, "the certificate of %.80q is of %.80q, expected %s", c.Subject.CommonName, o,
			role.organization())
	}
	if err := seedbed.CheckName("node", c.Subject.CommonName); err != nil {
		return seedbed.Errorf(seedbed.ErrForbidden, "the certificate's common name: %v", err)
	}
	return nil
}
