package metadata

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"seedbed"
)

// TestOpenSSLVerifies: the identity document with each of its signatures.
func TestOpenSSLVerifies(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(0x7fff_1234_5678),
		Subject:   pkix.Name{CommonName: "seedbed identity", Organization: []string{"Ü"}},
		NotBefore: now, NotAfter: now.Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	g := guestA()
	document := g.IdentityDocument()
	sum := sha256.Sum256(document)
	if g.Signature, err = rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:]); err != nil {
		t.Fatal(err)
	}
	view := View{Guest: g, Site: seedbed.Site{Certificate: cert}}
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certFile := file("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	spki, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	pubFile := file("pub.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}))
	read := func(leaf string) []byte {
		body, _, ok := Render(view, "/latest/dynamic/instance-identity/"+leaf)
		if !ok {
			t.Fatalf("%s is not there", leaf)
		}
		return body
	}
	openssl := func(args ...string) []byte {
		cmd := exec.Command("openssl", args...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, err.(*exec.ExitError).Stderr)
		}
		return out
	}
	for _, leaf := range []string{"pkcs7", "rsa2048"} {
		p7 := file(leaf, []byte("-----BEGIN PKCS7-----\n"+string(read(leaf))+"\n-----END PKCS7-----\n"))
		for _, tool := range []string{"smime", "cms"} {
			out := openssl(tool, "-verify", "-in", p7, "-inform", "PEM", "-certfile", certFile, "-noverify")
			if string(out) != string(document) {
				t.Errorf("%s of %s gives %q", tool, leaf, out)
			}
		}
	}
	raw, err := base64.StdEncoding.DecodeString(string(read("signature")))
	if err != nil {
		t.Fatal(err)
	}
	openssl("dgst", "-sha256", "-verify", pubFile, "-signature", file("signature", raw), file("document", read("document")))

	for name, spoil := range map[string]func(*View){
		"no signature":         func(v *View) { v.Guest.Signature = nil },
		"no certificate":       func(v *View) { v.Site.Certificate = nil },
		"no valid certificate": func(v *View) { v.Site.Certificate = cert[1:] },
	} {
		v := view
		spoil(&v)
		for _, leaf := range []string{"pkcs7", "rsa2048"} {
			if _, _, ok := Render(v, "/latest/dynamic/instance-identity/"+leaf); ok {
				t.Errorf("%s: there is a %s", name, leaf)
			}
		}
	}
}
