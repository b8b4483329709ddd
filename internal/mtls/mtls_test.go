package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
)

// TestCallers checks that only a certificate of the right role admits a caller.
func TestCallers(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	other, _ := authority(t)
	w := open(t, issue(t, a, Worker, "hv1"), Worker, "hv1")
	addr := serve(t, w, Control, handshakeTime, nil)
	same := func(*x509.Certificate) {}
	for name, c := range map[string]struct {
		pair    *tls.Certificate
		version uint16
		said    string
		problem string
	}{
		"right":               {pair: new(forge(t, a, Control, "cp1", same)), said: "cp1"},
		"another node, right": {pair: new(forge(t, a, Control, "cp2", same)), said: "cp2"},
		"none":                {problem: "certificate required"},
		"wrong role":          {pair: new(forge(t, a, Metadata, "hv2", same)), problem: "bad certificate"},
		"a server's":          {pair: new(forge(t, a, Worker, "hv2", same)), problem: "bad certificate"},
		"another authority's": {pair: new(forge(t, other, Control, "cp1", same)), problem: "bad certificate"},
		"expired": {pair: new(forge(t, a, Control, "cp1",
			func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) })), problem: "bad certificate"},
		"not yet valid": {pair: new(forge(t, a, Control, "cp1",
			func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })), problem: "bad certificate"},
		"two roles": {pair: new(forge(t, a, Control, "cp1",
			func(c *x509.Certificate) { c.Subject.Organization = []string{"seedbed:control", "seedbed:worker"} })), problem: "bad certificate"},
		"no role": {pair: new(forge(t, a, Control, "cp1", func(c *x509.Certificate) { c.Subject.Organization = nil })),
			problem: "bad certificate"},
		"no node":             {pair: new(forge(t, a, Control, "", same)), problem: "bad certificate"},
		"a name that is none": {pair: new(forge(t, a, Control, "../cp1", same)), problem: "bad certificate"},
		"TLS 1.2":             {pair: new(forge(t, a, Control, "cp1", same)), version: tls.VersionTLS12, problem: "protocol version"},
		"its role in the unit": {pair: new(forge(t, a, Control, "cp1", func(c *x509.Certificate) {
			c.Subject.Organization, c.Subject.OrganizationalUnit = nil, []string{"seedbed:control"}
		})), problem: "bad certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := &tls.Config{InsecureSkipVerify: true, MaxVersion: c.version}
			if c.pair != nil {
				conf.Certificates = []tls.Certificate{*c.pair}
			}
			said, err := ask(t.Context(), addr, conf)
			if c.problem == "" && (err != nil || said != c.said) ||
				c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem) || said != "") {
				t.Errorf("got %q, %v; want %q, an error with %q", said, err, c.said, c.problem)
			}
		})
	}
}

// TestServers checks that a server is trusted only with a certificate of the right role, node and
// address.
func TestServers(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	other, _ := authority(t)
	cp := open(t, issue(t, a, Control, "cp1"), Control, "cp1")
	start := func(role Role, node string, by *Authority) string {
		i := open(t, issue(t, by, role, node), role, node)
		i.held.Now().authority.AddCert(a.cert) // it trusts cp1, if cp1 trusts it
		return serve(t, i, Control, handshakeTime, nil)
	}
	right := start(Worker, "hv1", a)
	for name, c := range map[string]struct {
		addr, node, host string
		role             Role
		problem          string
	}{
		"right":                {right, "hv1", "127.0.0.1", Worker, ""},
		"any node":             {right, "", "127.0.0.1", Worker, ""},
		"by name":              {right, "hv1", "hv1", Worker, ""},
		"another node":         {right, "hv2", "127.0.0.1", Worker, `its certificate is of node "hv1", expected hv2`},
		"another address":      {right, "hv1", "127.0.0.2", Worker, "its certificate is not for 127.0.0.2: issue it with --host 127.0.0.2"},
		"another name":         {right, "hv1", "hv1.example", Worker, "issue it with --host hv1.example"},
		"another role":         {right, "hv1", "127.0.0.1", Control, "expected seedbed:control"},
		"a control host":       {start(Control, "hv1", a), "hv1", "127.0.0.1", Worker, "expected seedbed:worker"},
		"another authority's":  {start(Worker, "hv1", other), "hv1", "127.0.0.1", Worker, "was not signed by the authority of this installation"},
		"no TLS, no end of it": {silent(t), "hv1", "127.0.0.1", Worker, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, err := ask(t.Context(), c.addr, cp.Client(c.role, c.node, c.host))
			if c.problem == "" && (err != nil || said != "cp1") || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("got %q, %v; want an error with %q", said, err, c.problem)
			}
		})
	}
}

// TestExpiredServer checks that a server with an expired certificate is not trusted, and that the
// caller's error names the dates.
func TestExpiredServer(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	pair := forge(t, a, Worker, "hv1", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := ln.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	cp := open(t, issue(t, a, Control, "cp1"), Control, "cp1")
	if _, err := ask(t.Context(), ln.Addr().String(), cp.Client(Worker, "hv1", "127.0.0.1")); err == nil ||
		!strings.Contains(err.Error(), "is valid from") {
		t.Errorf("got %v", err)
	}
}

// TestReload checks that changed files, including those of the authority, are used from the next
// connection on.
func TestReload(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	next, _ := authority(t)
	files := issue(t, a, Worker, "hv1")
	said := &record{}
	w, err := Open(files, Worker, "hv1", slog.New(slog.NewTextHandler(said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	before := w.held.Now().pair.Leaf
	conns := make(chan *Conn, 1)
	addr := serve(t, w, Control, handshakeTime, func(c *Conn) { conns <- c })
	conf := func(by *Authority) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{forge(t, by, Control, "cp1", func(*x509.Certificate) {})}}
	}
	client, err := tls.Dial("tcp", addr, conf(a))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	old := <-conns
	defer old.Close()
	if node, err := old.Peer(); node != "cp1" || err != nil {
		t.Errorf("peer %q, %v", node, err)
	}

	// A certificate and a key that do not match change nothing.
	fresh := issue(t, next, Worker, "hv1")
	replaceFile(t, files.Key, fresh.Key)
	replaceFile(t, files.Cert, fresh.Cert)
	eventually(t, "the files are looked at", func() bool {
		if _, err := old.Peer(); err != nil || !w.held.Now().pair.Leaf.Equal(before) {
			t.Fatalf("with files that do not fit: %v", err)
		}
		return said.has("new certificates cannot be used")
	})
	replaceFile(t, files.CA, fresh.CA)
	eventually(t, "a connection from before has no peer any more", func() bool {
		_, err := old.Peer()
		return err != nil && strings.Contains(err.Error(), "not signed by the authority")
	})
	if _, err := ask(t.Context(), addr, conf(a)); err == nil {
		t.Error("the former authority's caller is let in")
	}
	now, err := tls.Dial("tcp", addr, conf(next))
	if err != nil {
		t.Fatal(err)
	}
	defer now.Close()
	c := <-conns
	defer c.Close()
	if node, err := c.Peer(); node != "cp1" || err != nil {
		t.Errorf("peer %q, %v", node, err)
	}
	if !now.ConnectionState().PeerCertificates[0].Equal(w.held.Now().pair.Leaf) {
		t.Error("the new certificate is not served")
	}
}

// record keeps the log's records.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(r.text.String(), text)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("did not come to pass: %s", what)
		}
	}
}

func TestErrorsHaveKinds(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	i := open(t, issue(t, a, Control, "cp1"), Control, "cp1")
	if _, err := i.verify(nil, Worker, x509.ExtKeyUsageServerAuth); seedbed.KindName(err) != "unauthenticated" {
		t.Errorf("no certificate: %v", err)
	}
	leaf := forge(t, a, Metadata, "hv1", func(*x509.Certificate) {}).Leaf
	if _, err := i.verify([]*x509.Certificate{leaf}, Worker, x509.ExtKeyUsageClientAuth); seedbed.KindName(err) != "forbidden" {
		t.Errorf("another role: %v", err)
	}
}
