package mtls

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"seedbed/internal/lab/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

// patience is the longest time for any step of these tests.
const patience = time.Minute

// authority makes an authority in its own directory.
func authority(t *testing.T) (*Authority, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	if _, err := NewAuthority(dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	a, err := OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a, dir
}

// issue makes the files of that role and node, for connections to 127.0.0.1.
func issue(t *testing.T, a *Authority, role Role, node string) Files {
	t.Helper()
	dir := t.TempDir()
	made, err := a.Issue(dir, node, role, []string{"127.0.0.1"}, time.Hour, false)
	if err != nil {
		t.Fatal(err)
	}
	return Files{Name: "cluster." + string(role), CA: filepath.Join(dir, authorityCert), Cert: made.Cert, Key: made.Key}
}

// forge makes a key pair as Issue would, after change has changed the certificate.
func forge(t *testing.T, a *Authority, role Role, node string, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	now := time.Now()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: node, Organization: []string{role.organization()}},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: role.usages(), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	change(template)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	made := Issued{Cert: filepath.Join(dir, "c"), Key: filepath.Join(dir, "k")}
	if err := write(made, template, a.cert, key, a.key, false); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(made.Cert, made.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func open(t *testing.T, files Files, role Role, node string) *Identity {
	t.Helper()
	i, err := Open(files, role, node, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// serve answers callers of that role on loopback with their node. It passes their connections to
// each unless that is nil.
func serve(t *testing.T, i *Identity, callers Role, limit time.Duration, each func(*Conn)) (addr string) {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := i.listen(raw, callers, limit)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("accept: %v", err)
				}
				return
			}
			conn := c.(*Conn)
			if each != nil {
				each(conn)
				continue
			}
			node, err := conn.Peer()
			if err != nil {
				t.Errorf("peer: %v", err)
			}
			_, _ = io.WriteString(conn, node)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return raw.Addr().String()
}

// ask connects and reads the server's answer.
func ask(ctx context.Context, addr string, conf *tls.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	// A request is being sent when the refusal arrives: the caller must still see it.
	_, _ = conn.Write(make([]byte, 4096))
	said, err := io.ReadAll(conn)
	return string(said), err
}

func replaceFile(t *testing.T, to, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	// The size or the time differs, whatever the resolution of the file system's clock is.
	next := to + ".next"
	if err := os.WriteFile(next, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, to); err != nil {
		t.Fatal(err)
	}
}
