package profile

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"seedbed"
	"seedbed/internal/cli"
)

const (
	// bundleFormat is the version of bundles that this program reads and writes.
	bundleFormat = 1
	maxBundle    = 16 * seedbed.MiB
)

// bundle is a catalogue as a file.
type bundle struct {
	Format    int            `json:"seedbed_catalogue"`
	Made      time.Time      `json:"made"`
	Catalogue jsontext.Value `json:"catalogue"`
	Signature *bundleSigner  `json:"signature,omitzero"`
}

// bundleSigner is a bundle's signature and the public key that verifies it, in base64.
type bundleSigner struct {
	Key   []byte `json:"ed25519_key"`
	Value []byte `json:"value"`
}

// signed returns the bytes that a signature covers: the content in RFC 8785's form, so that white
// space and the order of members do not matter.
func (b bundle) signed() ([]byte, error) {
	canonical := b.Catalogue.Clone()
	if err := canonical.Canonicalize(); err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, "seedbed catalogue %d\n%s\n", b.Format, b.Made.UTC().Format(time.RFC3339)), canonical...), nil
}

// parseBundle parses a bundle strictly: an unknown member is an error.
func parseBundle(name string, text []byte) (b bundle, err error) {
	err = jsonv2.Unmarshal(text, &b, jsonv2.RejectUnknownMembers(true))
	switch {
	case err != nil:
		return b, seedbed.Errorf(seedbed.ErrInvalid, "%s is not a bundle of \"seedbed catalogue export\": %v", name, err)
	case b.Format != bundleFormat:
		return b, seedbed.Errorf(seedbed.ErrInvalid,
			"%s has format %d, but this program reads format %d: use the release that wrote it", name, b.Format, bundleFormat)
	case b.Catalogue.Kind() != '{':
		return b, seedbed.Errorf(seedbed.ErrInvalid, "%s holds no catalogue", name)
	case b.Signature != nil && (len(b.Signature.Key) != ed25519.PublicKeySize || len(b.Signature.Value) != ed25519.SignatureSize):
		return b, seedbed.Errorf(seedbed.ErrInvalid, "%s: the signature is not an ed25519 signature", name)
	}
	return b, nil
}

// format returns the bundle in the form of a file.
func (b bundle) format() ([]byte, error) {
	text, err := jsonv2.Marshal(b, jsontext.WithIndent("  "), jsonv2.Deterministic(true))
	return append(text, '\n'), err
}

// sign signs the bundle.
func (b *bundle) sign(key ed25519.PrivateKey) error {
	text, err := b.signed()
	if err != nil {
		return err
	}
	b.Signature = &bundleSigner{Key: key.Public().(ed25519.PublicKey), Value: ed25519.Sign(key, text)}
	return nil
}

// verify returns an error unless the holder of key has signed the bundle unchanged.
func (b bundle) verify(name string, key ed25519.PublicKey) error {
	if b.Signature == nil {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s is not signed, but --key requires a signature", name)
	}
	if !bytes.Equal(b.Signature.Key, key) {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s is signed by another key, %s", name, fingerprint(b.Signature.Key))
	}
	text, err := b.signed()
	if err != nil {
		return err
	}
	if !ed25519.Verify(key, text, b.Signature.Value) {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s was changed after it was signed: get it again from its signer", name)
	}
	return nil
}

// fingerprint returns a public key in a form for people.
func fingerprint(key []byte) string { return base64.StdEncoding.EncodeToString(key) }

// readPEM reads a file that holds one PEM block of the given type.
func readPEM(path, kind, hint string) ([]byte, error) {
	text, err := cli.ReadBounded(path, 64*seedbed.KiB)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kind {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s holds no %s in PEM: make it with %s", path, kind, hint)
	}
	return block.Bytes, nil
}

// readSigner reads a private key. Only the user may be able to read the file.
func readSigner(path string) (ed25519.PrivateKey, error) {
	const hint = `"openssl genpkey -algorithm ed25519 -out FILE"`
	der, err := readPEM(path, "PRIVATE KEY", hint)
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(path); err == nil && st.Mode().Perm()&0o077 != 0 {
		return nil, seedbed.Errorf(seedbed.ErrForbidden, "%s is a private key that other users can read: chmod 600 %s", path, path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is not an ed25519 key: make one with %s", path, hint)
	}
	return key, nil
}

// readVerifier reads a public key.
func readVerifier(path string) (ed25519.PublicKey, error) {
	const hint = `"openssl pkey -in PRIVATE -pubout -out FILE"`
	der, err := readPEM(path, "PUBLIC KEY", hint)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	key, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is not an ed25519 key: make one with %s", path, hint)
	}
	return key, nil
}
