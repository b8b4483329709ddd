package main

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/lab"
	"seedbed/internal/testdb"
	"seedbed/provision"
	"seedbed/provision/intake"
	"seedbed/provision/record"
)

// TestOpenHooks checks that the receiver follows the configuration. It uses TLS, trusts the
// configured authority and proxies, refuses longer bodies, and refuses deliveries when the queue is
// full.
func TestOpenHooks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, log := testdb.Open(t), slog.New(slog.DiscardHandler)
	defer db.Close()
	for _, h := range []seedbed.Hook{
		{Name: "makes", Actions: []string{seedbed.DoCreate, seedbed.DoPlan}},
		{Name: "ignores", HookSettings: seedbed.HookSettings{When: "false"}},
		{Name: "proxied", HookSettings: seedbed.HookSettings{When: "false", CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}},
	} {
		h.Scheme, h.Insecure, h.Subjects = seedbed.SchemeNone, true, []string{"ci.example"}
		if _, err := db.CreateHook(ctx, h); err != nil {
			t.Fatal(err)
		}
	}
	_, err := db.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate},
		Instance: &seedbed.Instance{ID: seedbed.NewInstanceID(), Name: "web1", Node: "hv1", VCPUs: 1, Memory: seedbed.GiB}})
	if err != nil {
		t.Fatal(err)
	}

	c := config.Default()
	dir := t.TempDir()
	cert, roots := lab.SelfSigned(t, dir)
	own := []tls.Certificate{cert}
	c.Webhook.TLS = config.WebhookTLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"),
		ClientCA: filepath.Join(dir, "cert.pem")}
	c.Webhook.MaxBody, c.Webhook.TrustedProxies = seedbed.KiB, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Jobs.MaxQueued, c.API.TLS.Cert = 1, "set"
	server, err := openHooks(c, db, provision.NewIntake(db, intake.Serving{Node: "hv1"}), record.Renderer{}, log)
	if err != nil {
		t.Fatal(err)
	}
	if server.APIBase != "https://127.0.0.1:7370" || !server.Certificates || server.HookNow == nil {
		t.Errorf("the receiver has %+v", server.Config)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- server.Serve(serving, ln) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	const create = `{"action": "create", "name": "web2", "profile": "small"}`
	for _, test := range []struct {
		name, hook, body, from string
		own                    []tls.Certificate
		status                 int
		says                   string
	}{
		{"a certificate", "ignores", create, "", own, 202, "ignored"},
		{"no certificate", "ignores", create, "", nil, 401, ""},
		{"a long body", "ignores", `{"name": "` + strings.Repeat("x", 1024) + `"}`, "", own, 413, ""},
		{"from elsewhere", "proxied", create, "198.51.100.1", own, 401, ""},
		{"through a proxy", "proxied", create, "192.0.2.1", own, 202, "ignored"},
		{"a full queue", "makes", create, "", own, 429, "1 jobs wait already"},
		{"what the intake says", "makes", `{"action": "plan", "name": "web1", "profile": "small"}`, "", own, 200, `profile \"small\"`},
		{"no hook", "none", create, "", own, 401, ""},
	} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: test.own}}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+ln.Addr().String()+"/hooks/"+test.hook,
			strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if test.from != "" {
			req.Header.Set("X-Forwarded-For", test.from)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		transport.CloseIdleConnections()
		if err != nil || res.StatusCode != test.status || !strings.Contains(string(text), test.says) {
			t.Errorf("%s: %d %s, %v; want %d with %q", test.name, res.StatusCode, text, err, test.status, test.says)
		}
	}

	// Without a certificate it does not use TLS. With a missing certificate file it is not opened.
	c.Webhook.TLS = config.WebhookTLS{}
	if plain, err := openHooks(c, db, nil, record.Renderer{}, log); err != nil || plain.TLS != nil || plain.Certificates {
		t.Errorf("without a certificate: %+v, %v", plain, err)
	}
	c.Webhook.TLS = config.WebhookTLS{Cert: filepath.Join(dir, "none.pem"), Key: filepath.Join(dir, "key.pem")}
	if _, err := openHooks(c, db, nil, record.Renderer{}, log); err == nil || !strings.Contains(err.Error(), "webhook.tls") {
		t.Errorf("with a certificate that is not there: %v", err)
	}
}
