package mtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// Issue creates a certificate for a node's role, and its key, in dir: ROLE.pem and ROLE.key, mode
// 0600, next to a copy of the authority's ca.pem. hosts are the names and addresses, in addition to
// the node's name, by which others reach it. If the files exist, they are replaced if replace is
// set; otherwise Issue returns ErrExists. The certificate expires no later than the authority.
func (a *Authority) Issue(dir, node string, role Role, hosts []string, valid time.Duration, replace bool) (Issued, error) {
	made := Issued{Cert: filepath.Join(dir, string(role)+".pem"), Key: filepath.Join(dir, string(role)+".key"), Node: node, Role: role}
	if err := seedbed.CheckName("node", node); err != nil {
		return made, err
	}
	if !slices.Contains(Roles(), role) {
		return made, seedbed.Errorf(seedbed.ErrInvalid, "role %q does not exist: expected control, worker, metadata or libvirt", role)
	}
	now := time.Now().UTC().Truncate(time.Second)
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: node, Organization: []string{role.organization()}},
		NotBefore: later(now.Add(-skew), a.cert.NotBefore), NotAfter: earlier(now.Add(valid), a.cert.NotAfter),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: role.usages(),
	}
	if role == Libvirt {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment // which libvirt up to 9 expects, whatever the key
	}
	if !template.NotAfter.After(now) {
		return made, seedbed.Errorf(seedbed.ErrInvalid,
			"the authority has expired on %s: make another in another directory (docs/how-to/cluster.md)",
			a.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if role != Metadata { // which is only a client
		if err := addHosts(template, node, hosts); err != nil {
			return made, err
		}
		if len(template.DNSNames)+len(template.IPAddresses) == 0 {
			return made, seedbed.Errorf(seedbed.ErrInvalid,
				"node %s has a name that is not a DNS name: pass the address at which others reach it with --host", node)
		}
		made.Hosts = append(made.Hosts, template.DNSNames...)
		for _, ip := range template.IPAddresses {
			made.Hosts = append(made.Hosts, ip.String())
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return made, err
	}
	made.Expires = template.NotAfter
	if err := write(made, template, a.cert, key, a.key, replace); err != nil {
		return made, err
	}
	ca := filepath.Join(dir, authorityCert)
	if _, err := os.Lstat(ca); err == nil { // it may also hold the previous authority
		return made, nil
	}
	return made, place(ca, "CERTIFICATE", a.cert.Raw, 0o644)
}

// addHosts adds names and addresses to a certificate, the node's name first.
func addHosts(template *x509.Certificate, node string, hosts []string) error {
	if hostName(node) {
		template.DNSNames = []string{node}
	}
	for _, host := range hosts {
		ip := net.ParseIP(host)
		switch {
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		case !hostName(host):
			return seedbed.Errorf(seedbed.ErrInvalid,
				"%q is neither a host name nor an IP address: expected one such as hv2.example or 10.0.0.2, without a port", host)
		case !slices.Contains(template.DNSNames, host):
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return nil
}

// hostName reports whether a certificate can be for that name (RFC 1123, 2.1). Wildcards are not
// valid.
func hostName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "-") != label {
			return false
		}
		for _, r := range label {
			if r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
				return false
			}
		}
	}
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
