package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	pair := a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	var err error
	if a.cert, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	a.key = pair.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

// issue signs a certificate, the first one by itself.
func (a *authority) issue(t *testing.T, c *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	by, with := a.cert, a.key
	if by == nil {
		by, with = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, with)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func server(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

func client(name string, dns ...string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: dns, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// save writes a certificate in PEM.
func save(t *testing.T, files httpserve.Certificates, pair tls.Certificate) {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		files.Key: {Type: "EC PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func secured(t *testing.T, c Config) (s *service, files httpserve.Certificates, a *authority) {
	t.Helper()
	files, a = secure(t, &c)
	return start(t, c), files, a
}

// secure gives a server a certificate, and whom it believes.
func secure(t *testing.T, c *Config) (files httpserve.Certificates, a *authority) {
	t.Helper()
	dir := t.TempDir()
	a = newAuthority(t)
	files = httpserve.Certificates{Name: "webhook.tls", Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir,
		"key.pem"), ClientCA: filepath.Join(dir, "ca.pem")}
	save(t, files, a.issue(t, server("first")))
	if err := os.WriteFile(files.ClientCA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.TLS, err = httpserve.NewTLS(files, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return files, a
}

// post sends one delivery over TLS, and tells whose certificate it saw.
func post(t *testing.T, s *service, a *authority, path string, header map[string]string, body string,
	own ...tls.Certificate) (status int, seen string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool, Certificates: own}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		if k != "Host" && k != "Content-Length" {
			req.Header.Set(k, v)
		}
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.TLS.PeerCertificates[0].Subject.CommonName
}

// 19: new certificates are taken up, and connections that are open go on.
func TestPitfall19TLSReload(t *testing.T) {
	t.Parallel()
	s, files, a := secured(t, Config{Hooks: testDirectory(t), Intake: &ledger{}})
	headers := func() map[string]string { return signed(vectorKey(t), "msg_1", time.Now(), create) }
	if status, seen := post(t, s, a, "/hooks/ci", headers(), create); status != 202 || seen != "first" {
		t.Fatalf("%d from %s", status, seen)
	}
	open, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: a.pool})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := open.Handshake(); err != nil {
		t.Fatal(err)
	}
	save(t, files, a.issue(t, server("second")))
	for deadline := time.Now().Add(time.Minute); ; {
		status, seen := post(t, s, a, "/hooks/ci", headers(), create)
		if status != 202 {
			t.Fatalf("%d from %s", status, seen)
		}
		if seen == "second" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not used")
		}
	}
	io.WriteString(open, message("POST", "/hooks/ci", headers(), create))
	buffer := make([]byte, 12)
	if _, err := io.ReadFull(open, buffer); err != nil || string(buffer) != "HTTP/1.1 202" {
		t.Errorf("the open connection: %q, %v", buffer, err)
	}
}

// A hook that lists names takes deliveries from holders of such a certificate alone.
func TestCertificates(t *testing.T) {
	t.Parallel()
	d := testDirectory(t)
	d.hooks["alerts"] = seedbed.Hook{Name: "alerts", HookSettings: seedbed.HookSettings{Scheme: seedbed.SchemeAlertmanager,
		Subjects: []string{"alertmanager.example"},
		Mapping:  `{"action": "create", "name": body.groupLabels.name, "profile": "small"}`}}
	d.hooks["open"] = seedbed.Hook{Name: "open", HookSettings: seedbed.HookSettings{Scheme: seedbed.SchemeNone,
		Insecure: true, Subjects: []string{"common"}}}
	l := &ledger{}
	s, _, a := secured(t, Config{Hooks: d, Intake: l})
	stranger := newAuthority(t)
	alert := `{"version":"4","groupKey":"g","groupLabels":{"name":"web1"},"alerts":[]}`
	plain := map[string]string{"Content-Type": "application/json"}
	for _, test := range []struct {
		name, path, body string
		own              []tls.Certificate
		status           int
	}{
		{"named", "/hooks/alerts", alert, []tls.Certificate{a.issue(t, client("am", "alertmanager.example"))}, 202},
		{"another name", "/hooks/alerts", alert, []tls.Certificate{a.issue(t, client("am", "other.example"))}, 401},
		{"no certificate", "/hooks/alerts", alert, nil, 401},
		{"by its common name", "/hooks/open", create, []tls.Certificate{a.issue(t, client("common"))}, 202},
		{"unsigned, and none", "/hooks/open", create, nil, 401},
	} {
		if status, _ := post(t, s, a, test.path, plain, test.body, test.own...); status != test.status {
			t.Errorf("%s: %d, want %d", test.name, status, test.status)
		}
	}
	if len(l.requests) != 2 || l.requests[0].Name != "web1" {
		t.Errorf("requests %+v", l.requests)
	}
	conn, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: a.pool, MaxVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{stranger.issue(t, client("am", "alertmanager.example"))}})
	if err == nil {
		conn.Close()
		t.Error("a certificate of a stranger's authority is taken")
	}
}

func TestNewTLSRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.pem")
	if err := os.WriteFile(bad, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := httpserve.Certificates{Name: "webhook.tls", Cert: filepath.Join(dir, "c.pem"), Key: filepath.Join(dir, "k.pem")}
	save(t, good, newAuthority(t).issue(t, server("x")))
	for _, files := range []httpserve.Certificates{{Name: "webhook.tls", Cert: bad, Key: bad}, {Name: "webhook.tls",
		Cert: dir + "/none", Key: bad}, {Name: "webhook.tls", Cert: good.Cert, Key: good.Key, ClientCA: bad}} {
		if _, err := httpserve.NewTLS(files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "webhook.tls") {
			t.Errorf("%+v: %v", files, err)
		}
	}
}
