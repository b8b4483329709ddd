// Package identity makes and reads the key that signs instance identity
// documents, and its certificate.
package identity

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"time"

	"seedbed"
)

// bits is the size of a key that is made here, and the least of one that is given.
const bits = 2048

// lifetime is that of a certificate that is made here. Nobody renews it: who
// verifies a document has the certificate itself, and trusts that.
const lifetime = 50 * 365 * 24 * time.Hour

// Pair is a key with its certificate.
type Pair struct {
	Key         *rsa.PrivateKey
	Certificate *x509.Certificate
}

// New makes a key and a certificate that it signed itself, as PEM: the private
// key (PKCS #8), then the certificate.
func New() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, fmt.Errorf("make the identity key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make the identity certificate: %w", err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	id := sha256.Sum256(x509.MarshalPKCS1PublicKey(&key.PublicKey))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Seedbed instance identity"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, SignatureAlgorithm: x509.SHA256WithRSA,
		BasicConstraintsValid: true, SubjectKeyId: id[:20],
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the identity certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write the identity key: %w", err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), Encode(certificate)...), nil
}

// Encode is a certificate in DER form as PEM.
func Encode(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

// Parse reads a key (PKCS #8 or PKCS #1) and a certificate in PEM, in any order
// and with anything between them. The error, of kind seedbed.ErrInvalid, holds
// nothing of the text.
func Parse(text []byte) (p Pair, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE":
			if p.Certificate != nil {
				continue // a chain: the first is the key's
			}
			if p.Certificate, err = x509.ParseCertificate(block.Bytes); err != nil {
				return Pair{}, seedbed.Errorf(seedbed.ErrInvalid, "the identity certificate is not readable: expected X.509 in PEM")
			}
		case "PRIVATE KEY", "RSA PRIVATE KEY":
			if p.Key, err = parseKey(block); err != nil {
				return Pair{}, err
			}
		}
	}
	switch {
	case p.Key == nil:
		return Pair{}, seedbed.Errorf(seedbed.ErrInvalid, "the identity key is missing: expected an RSA key of at least %d bits in PEM", bits)
	case p.Certificate == nil:
		return Pair{}, seedbed.Errorf(seedbed.ErrInvalid, "the identity certificate is missing: expected X.509 in PEM")
	case !p.Key.PublicKey.Equal(p.Certificate.PublicKey):
		return Pair{}, seedbed.Errorf(seedbed.ErrInvalid, "the identity certificate is not that of the identity key")
	}
	return p, nil
}

func parseKey(block *pem.Block) (*rsa.PrivateKey, error) {
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		other, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "the identity key is not readable: expected an RSA key without a passphrase in PEM")
		}
		var ok bool
		if key, ok = other.(*rsa.PrivateKey); !ok {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "the identity key is not an RSA key")
		}
	}
	if key.N.BitLen() < bits {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the identity key has %d bits: expected at least %d", key.N.BitLen(), bits)
	}
	return key, nil
}

const maxFile = 64 << 10

// Load reads the pair from two files. A key that everyone may read is refused.
func Load(keyFile, certificateFile string) (Pair, error) {
	key, err := read("identity.key", keyFile, 0o007)
	if err != nil {
		return Pair{}, err
	}
	certificate, err := read("identity.certificate", certificateFile, 0)
	if err != nil {
		return Pair{}, err
	}
	p, err := Parse(bytes.Join([][]byte{certificate, key}, []byte("\n")))
	if err != nil {
		return Pair{}, fmt.Errorf("identity.key %s, identity.certificate %s: %w", keyFile, certificateFile, err)
	}
	return p, nil
}

// read reads a file on which none of the forbidden permissions is set.
func read(what, path string, forbidden os.FileMode) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if st.Mode().Perm()&forbidden != 0 {
		return nil, seedbed.Errorf(seedbed.ErrInvalid,
			"%s: everyone may use %s (mode %o): expected chmod 640 or 600", what, path, st.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return text, nil
}
