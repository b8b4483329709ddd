package instance

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
)

func TestDecryptPassword(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	raw, err := rsa.EncryptPKCS1v15(rand.Reader, &key.PublicKey, []byte("s3cret!"))
	if err != nil {
		t.Fatal(err)
	}
	encrypted := base64.StdEncoding.EncodeToString(raw)
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ encrypted, file, want, err string }{
		"PKCS #1":         {encrypted, file("pkcs1", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), "s3cret!", ""},
		"PKCS #8":         {encrypted, file("pkcs8", "PRIVATE KEY", pkcs8), "s3cret!", ""},
		"another's key":   {encrypted, file("other", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(other)), "", "is not encrypted for"},
		"OpenSSH's form":  {encrypted, file("openssh", "OPENSSH PRIVATE KEY", []byte("x")), "", "ssh-keygen -p -m PEM"},
		"public key":      {encrypted, file("public", "PUBLIC KEY", []byte("x")), "", "is not an RSA private key"},
		"no PEM":          {encrypted, empty, "", "is not a PEM file"},
		"in clear":        {"s3cret!", filepath.Join(dir, "pkcs1"), "", "is not base64"},
		"base64 of clear": {base64.StdEncoding.EncodeToString([]byte("s3cret!")), filepath.Join(dir, "pkcs1"), "", "is not encrypted for"},
	} {
		got, err := decryptPassword(tt.encrypted, tt.file)
		if got != tt.want || tt.err != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.err)) ||
			tt.err == "" && err != nil {
			t.Errorf("%s: %q, %v; want %q and an error that says %q", name, got, err, tt.want, tt.err)
		}
	}
}
