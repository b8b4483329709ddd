package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"seedbed"
)

// maxFile bounds the bytes that are read of a file.
const maxFile = 256 << 10

// load reads the files. It refuses those that the other hosts would refuse for any reason except
// their dates.
func (i *Identity) load() (h held, err error) {
	f := i.files
	ca, err := readFile(f.CA, false)
	if err != nil {
		return h, err
	}
	signers, err := certificates(f.CA, ca)
	if err != nil {
		return h, err
	}
	cert, err := readFile(f.Cert, false)
	if err != nil {
		return h, err
	}
	key, err := readFile(f.Key, true)
	if err != nil {
		return h, err
	}
	if h.pair, err = tls.X509KeyPair(cert, key); err != nil {
		return h, seedbed.Errorf(seedbed.ErrInvalid, "%s and %s: %v", f.Cert, f.Key, err)
	}
	h.authority = x509.NewCertPool()
	for _, c := range signers {
		h.authority.AddCert(c)
	}
	leaf := h.pair.Leaf
	if err := checkSubject(leaf, i.role); err != nil {
		return h, seedbed.Errorf(seedbed.ErrInvalid, "%s: %v", f.Cert, err)
	}
	if name := leaf.Subject.CommonName; name != i.node {
		return h, seedbed.Errorf(seedbed.ErrInvalid, "%s is of node %q, and this is %s: issue it for that name, or set node", f.Cert, name,
			i.node)
	}
	h.ends, err = i.until(leaf, h.pair.Certificate, h.authority)
	return h, err
}

// until returns when the first certificate of leaf's chain of trust expires.
func (i *Identity) until(leaf *x509.Certificate, sent [][]byte, authority *x509.CertPool) (time.Time, error) {
	between := x509.NewCertPool()
	for _, der := range sent[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	// The time is leaf's first day: a host with an expired certificate starts, and reports it.
	chains, err := leaf.Verify(
		x509.VerifyOptions{Roots: authority, Intermediates: between, KeyUsages: i.role.usages(), CurrentTime: leaf.NotBefore})
	if err != nil {
		return time.Time{}, seedbed.Errorf(seedbed.ErrInvalid, "%s is not trusted by %s: %v", i.files.Cert, i.files.CA, err)
	}
	var longest time.Time
	for _, chain := range chains {
		ends := chain[0].NotAfter
		for _, c := range chain {
			if c.NotAfter.Before(ends) {
				ends = c.NotAfter
			}
		}
		if ends.After(longest) {
			longest = ends
		}
	}
	return longest, nil
}

// certificates returns the certificates in a file, which must have at least one.
func certificates(name string, text []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s holds a %s: expected only certificates", name, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s holds a certificate that is not readable: %v", name, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s holds no certificate in PEM", name)
	}
	return all, nil
}

// readFile reads a small file. Other users must not be able to read a secret one.
func readFile(name string, secret bool) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if secret {
		if err := checkMode(name, info); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is larger than %d KiB: that is not a PEM file", name, maxFile>>10)
	}
	return text, nil
}

// checkMode refuses a key that users other than its owner may read or write. A key of root may be
// readable by a group.
func checkMode(name string, info fs.FileInfo) error {
	mode := info.Mode().Perm()
	owner := "another user than root"
	ofRoot := false
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == 0 {
		owner, ofRoot = "root", true
	}
	if mode&0o007 == 0 && (mode&0o070 == 0 || ofRoot && mode&0o030 == 0) {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrInvalid,
		"the private key %s has mode %04o and belongs to %s: "+
			"run chmod 600 on it, or chmod 640 if root owns it and only the daemon is in its group",
		name, mode, owner)
}
