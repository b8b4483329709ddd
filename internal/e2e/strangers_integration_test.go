//go:build integration && libvirt

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// strangers: nobody without the certificate of the right role, by the right
// authority, gets anything of a worker or of the feed; and a guest plane gets
// what is its own host's alone.
func (w *twoNodes) strangers(t *testing.T) {
	ours, others := filepath.Join(w.Dir, "ca"), filepath.Join(w.Dir, "others")
	cli(t, w.Stack, "cluster", "ca", others)
	cli(t, w.Stack, "cluster", "issue", others, "hv2", "--role", "control,metadata")
	dial := dialIn(w.other.Host.FarNetns())
	ask := func(cert, url string) (status int, body string, err error) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(ours, "ca.pem"))
		if err != nil {
			t.Fatal(err)
		}
		conf := &tls.Config{RootCAs: x509.NewCertPool()}
		conf.RootCAs.AppendCertsFromPEM(text)
		if cert != "" {
			pair, err := tls.LoadX509KeyPair(cert+".pem", cert+".key")
			if err != nil {
				t.Fatal(err)
			}
			conf.Certificates = []tls.Certificate{pair}
		}
		c := http.Client{Transport: &http.Transport{DialContext: dial, TLSClientConfig: conf, DisableKeepAlives: true}, Timeout: time.Minute}
		resp, err := c.Get(url)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), err
	}
	worker, feed := w.other.URL+"/v1/state", "https://"+w.Feed+"/v1/feed?node=hv2&since=0&wait=0s&generation="
	for _, c := range []struct{ name, cert, url string }{
		{"worker without a certificate", "", worker},
		{"worker by another authority", others + "/hv2/control", worker},
		{"worker in another role", ours + "/hv2/metadata", worker},
		{"feed without a certificate", "", feed},
		{"feed by another authority", others + "/hv2/metadata", feed},
		{"feed in another role", ours + "/hv2/worker", feed},
	} {
		if status, body, err := ask(c.cert, c.url); err == nil || !strings.Contains(err.Error(), "tls:") {
			t.Errorf("%s: status %d %q, %v; want the handshake refused", c.name, status, body, err)
		}
	}
	if status, body, err := ask(ours+"/lab/control", worker); err != nil || status >= 500 {
		t.Errorf("the worker with the right certificate: %d %q, %v", status, body, err)
	}
	if status, body, err := ask(ours+"/hv2/metadata", feed); err != nil || status != 200 || !strings.Contains(body, "guest2") {
		t.Errorf("the feed with the right certificate: %d %q, %v", status, body, err)
	}
	if status, body, err := ask(ours+"/hv2/metadata", strings.Replace(feed, "node=hv2", "node=lab", 1)); err != nil || status != 403 {
		t.Errorf("another node's feed: %d %q, %v; want 403", status, body, err)
	}
}
