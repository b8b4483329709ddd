package fleet_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"seedbed/internal/mtls"
	"seedbed/internal/run"
	"seedbed/provision/fleet"
)

// transport is one way from a client to its worker. Every test of the package runs over each,
// because both must behave the same.
type transport interface {
	// name is for messages.
	name() string
	// place returns an address that nothing listens on yet, for clients.
	place(t *testing.T) string
	listen(t *testing.T, at string) net.Listener
	client(at string) *fleet.Client
	// dial connects as a control host does.
	dial(at string) (net.Conn, error)
}

// way is the transport of this run.
var way transport

// bothWays runs all tests over each transport.
type bothWays struct{ *testing.M }

func (m bothWays) Run() int {
	dir, err := os.MkdirTemp("", "worker-tls-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	remote, err := newOverTLS(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	worst := 0
	for _, way = range []transport{overSocket{}, remote} {
		worst = max(worst, m.M.Run())
	}
	return worst
}

// overSocket is a unix socket.
type overSocket struct{}

func (overSocket) name() string                     { return "a socket" }
func (overSocket) place(t *testing.T) string        { return filepath.Join(t.TempDir(), "w.sock") }
func (overSocket) client(at string) *fleet.Client   { return fleet.NewClient(at) }
func (overSocket) dial(at string) (net.Conn, error) { return net.Dial("unix", at) }
func (overSocket) listen(t *testing.T, at string) net.Listener {
	t.Helper()
	ln, err := run.Socket{Path: at, Mode: 0o660}.Listen(t.Context())
	must(t, "listen", err)
	return ln
}

// overTLS is TLS between two hosts, which are both this one.
type overTLS struct {
	dir         string
	node, other *mtls.Identity
}

func newOverTLS(dir string) (*overTLS, error) {
	if _, err := mtls.NewAuthority(dir, time.Hour); err != nil {
		return nil, err
	}
	o := &overTLS{dir: dir}
	var err error
	if o.node, err = o.identity(mtls.Worker, "n1"); err != nil {
		return nil, err
	}
	o.other, err = o.identity(mtls.Control, "cp1")
	return o, err
}

// identity issues a certificate and opens it.
func (o *overTLS) identity(role mtls.Role, node string) (*mtls.Identity, error) {
	a, err := mtls.OpenAuthority(o.dir)
	if err != nil {
		return nil, err
	}
	made, err := a.Issue(filepath.Join(o.dir, node), node, role, []string{"127.0.0.1"}, time.Hour, true)
	if err != nil {
		return nil, err
	}
	return mtls.Open(mtls.Files{Name: "cluster", CA: filepath.Join(o.dir, "ca.pem"), Cert: made.Cert, Key: made.Key}, role, node,
		slog.New(slog.DiscardHandler))
}

const scheme = "https://"

func (*overTLS) name() string { return "TLS" }

// firstPlace is another in each process, and places are the places of this one so far.
var (
	firstPlace = rand.Uint32N(1 << 20)
	places     atomic.Uint32
)

// place returns an address of this test's own: on another port of 127.0.0.1 another process could
// listen while the worker restarts.
func (*overTLS) place(*testing.T) string {
	n := firstPlace + places.Add(1)
	return fmt.Sprintf("%s127.%d.%d.%d:7375", scheme, 64+n/254/256%128, n/254%256, 1+n%254)
}

func (o *overTLS) listen(t *testing.T, at string) net.Listener {
	t.Helper()
	ln, err := o.node.Listen(t.Context(), at[len(scheme):], mtls.Control)
	must(t, "listen", err)
	return ln
}

func (o *overTLS) conf() *tls.Config { return o.other.Client(mtls.Worker, "n1", "127.0.0.1") }

func (o *overTLS) client(at string) *fleet.Client { return fleet.NewRemoteClient(at, o.conf()) }

func (o *overTLS) dial(at string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return (&tls.Dialer{Config: o.conf()}).DialContext(ctx, "tcp", at[len(scheme):])
}
