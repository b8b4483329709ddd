package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
)

func block(kind string, der []byte, err error) []byte {
	if err != nil {
		panic(err) // a key that was just made always encodes
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func TestPair(t *testing.T) {
	t.Parallel()
	text, err := New()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Certificate.CheckSignature(x509.SHA256WithRSA, p.Certificate.RawTBSCertificate, p.Certificate.Signature); err != nil {
		t.Error(err)
	}
	if y := time.Until(p.Certificate.NotAfter).Hours() / 24 / 365; y < 49 {
		t.Errorf("it lasts %.0f years", y)
	}
	certificate := Encode(p.Certificate.Raw)
	private := text[:bytes.Index(text, certificate)]
	old := block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(p.Key), nil)
	if q, err := Parse(append(certificate, old...)); err != nil || !q.Key.Equal(p.Key) {
		t.Errorf("in PKCS #1, after its certificate: %v", err)
	}

	other, err := New()
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curveDER, curveErr := x509.MarshalPKCS8PrivateKey(curve)
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"nothing":        {nil, "the identity key is missing"},
		"no certificate": {private, "the identity certificate is missing"},
		"no key":         {certificate, "the identity key is missing"},
		"another's": {
			append(bytes.Clone(certificate), other[:bytes.Index(other, []byte("-----BEGIN CERT"))]...), "not that of the identity key",
		},
		"weak":           {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(weak), nil), "1024 bits"},
		"no RSA":         {block("PRIVATE KEY", curveDER, curveErr), "not an RSA key"},
		"broken":         {block("PRIVATE KEY", []byte("x"), nil), "not readable"},
		"broken, public": {block("CERTIFICATE", []byte("x"), nil), "not readable"},
		"with passphrase": {
			[]byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\neA==\n-----END ENCRYPTED PRIVATE KEY-----\n"), "the identity key is missing",
		},
	} {
		if _, err := Parse(tt.text); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want one that says %q", name, err, tt.want)
		}
	}

	dir := t.TempDir()
	key, cert := filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem")
	for path, b := range map[string][]byte{key: private, cert: certificate} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if q, err := Load(key, cert); err != nil || !q.Key.Equal(p.Key) {
		t.Errorf("from files: %v", err)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(key, cert); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "everyone may use") {
		t.Errorf("a key that everyone may read: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "none"), cert); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
