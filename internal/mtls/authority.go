package mtls

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"seedbed"
	"seedbed/internal/durable"
)

// These are the files in an authority's directory.
const (
	authorityCert = "ca.pem"
	authorityKey  = "ca.key"
)

// skew is how long before its creation a certificate becomes valid, to allow for clock differences.
const skew = time.Hour

// Authority signs the certificates of one installation.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Issued names a pair of new files.
type Issued struct {
	Cert string `json:"cert"`
	Key  string `json:"key"`
	// Node and Role are empty for an authority.
	Node    string    `json:"node,omitempty"`
	Role    Role      `json:"role,omitempty"`
	Hosts   []string  `json:"hosts,omitempty"`
	Expires time.Time `json:"expires"`
}

// NewAuthority creates an authority in dir, which it creates with mode 0700. All hosts get ca.pem,
// and none needs ca.key. It returns ErrExists if there already is an authority.
func NewAuthority(dir string, valid time.Duration) (Issued, error) {
	made := Issued{Cert: filepath.Join(dir, authorityCert), Key: filepath.Join(dir, authorityKey)}
	for _, name := range []string{made.Cert, made.Key} {
		if _, err := os.Lstat(name); err == nil {
			return made, seedbed.Errorf(seedbed.ErrExists, "%s exists already: make an authority in a new directory", name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return made, err
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Seedbed cluster of " + now.Format(time.DateOnly)},
		NotBefore: now.Add(-skew), NotAfter: now.Add(valid),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return made, err
	}
	made.Expires = template.NotAfter
	return made, write(made, template, template, key, key, false)
}

// OpenAuthority reads the authority in dir. Other users must not be able to read the key.
func OpenAuthority(dir string) (*Authority, error) {
	name := filepath.Join(dir, authorityCert)
	text, err := readFile(name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "no authority exists in %s: make one with \"seedbed cluster ca %s\"", dir, dir)
	}
	if err != nil {
		return nil, err
	}
	all, err := certificates(name, text)
	if err != nil {
		return nil, err
	}
	keyName := filepath.Join(dir, authorityKey)
	if text, err = readFile(keyName, true); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s holds no private key in PEM (PKCS #8)", keyName)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is not readable: expected a private key without a passphrase (PKCS #8)", keyName)
	}
	key, ok := parsed.(crypto.Signer)
	public, comparable := all[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !comparable || !public.Equal(key.Public()) || !all[0].IsCA {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is not the key of an authority in %s", keyName, name)
	}
	return &Authority{cert: all[0], key: key}, nil
}

// write signs a certificate, and writes it and its key.
func write(made Issued, template, parent *x509.Certificate, key, signer crypto.Signer, replace bool) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("make %s: %w", made.Cert, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("make %s: %w", made.Key, err)
	}
	if err := os.MkdirAll(filepath.Dir(made.Cert), 0o700); err != nil {
		return err
	}
	if !replace {
		for _, name := range []string{made.Cert, made.Key} {
			if _, err := os.Lstat(name); err == nil {
				return seedbed.Errorf(seedbed.ErrExists, "%s already exists: use --replace to issue it again", name)
			}
		}
	}
	// The key comes first: a program that reads between the two writes finds a pair that does not
	// match, and reads again.
	if err := place(made.Key, "PRIVATE KEY", private, 0o600); err != nil {
		return err
	}
	return place(made.Cert, "CERTIFICATE", der, 0o644)
}

// place writes a file in PEM, which is complete whenever another program reads it.
func place(name, kind string, der []byte, mode fs.FileMode) error {
	return durable.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
