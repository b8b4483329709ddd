package feed

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/mtls"
)

// What holds over the socket holds over TLS: every test runs over each.
var overTLS bool

// bothWays runs all tests over each.
type bothWays struct{ *testing.M }

func (m bothWays) Run() int {
	dir, err := os.MkdirTemp("", "feed-tls-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if _, err := mtls.NewAuthority(dir, time.Hour); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	authority = dir
	worst := 0
	for _, overTLS = range []bool{false, true} {
		worst = max(worst, m.M.Run())
	}
	return worst
}

var (
	authority string // its directory
	// places are the addresses in the place of sockets.
	places sync.Map
	// firstPlace is another in each process, and placed is how many it has drawn so far.
	firstPlace = rand.Uint32N(1 << 20)
	placed     atomic.Uint32
)

// place is the address that a socket of that path is over TLS.
func place(socket string) string {
	n := firstPlace + placed.Add(1)
	addr := fmt.Sprintf("127.%d.%d.%d:7374", 64+n/254/256%128, n/254%256, 1+n%254)
	at, _ := places.LoadOrStore(socket, addr)
	return at.(string)
}

// identity is that of a node in a role.
func identity(t *testing.T, role mtls.Role, node string) *mtls.Identity {
	t.Helper()
	return identityBy(t, authority, role, node)
}

func identityBy(t *testing.T, dir string, role mtls.Role, node string) *mtls.Identity {
	t.Helper()
	a, err := mtls.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	made, err := a.Issue(out, node, role, []string{"127.0.0.1"}, time.Hour, false)
	if err != nil {
		t.Fatal(err)
	}
	i, err := mtls.Open(mtls.Files{Name: "cluster", CA: filepath.Join(out, "ca.pem"), Cert: made.Cert, Key: made.Key}, role,
		node, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// remotes is how the guest plane of node reaches the servers that would be on those sockets; none
// over sockets.
func remotes(t *testing.T, node string, sockets ...string) []Remote {
	t.Helper()
	if !overTLS {
		return nil
	}
	return remotesAs(identity(t, mtls.Metadata, node), sockets...)
}

func remotesAs(i *mtls.Identity, sockets ...string) (all []Remote) {
	for _, s := range sockets {
		all = append(all, Remote{Addr: place(s), TLS: i.Client(mtls.Control, "", "127.0.0.1")})
	}
	return all
}

// runServer serves node1 from store in place of that socket until stop.
func runServer(t *testing.T, store interface {
	Store
	Nodes
}, socket string) (stop func()) {
	t.Helper()
	return runServerOf(t, store, socket, "node1")
}

// runServerOf serves a node, and over TLS all.
func runServerOf(t *testing.T, store interface {
	Store
	Nodes
}, socket, node string) (stop func()) {
	t.Helper()
	if overTLS {
		return runNodeServer(t, store, socket)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return background(t, func(ctx context.Context) error { return NewServer(store, quiet).ServeNode(ctx, ln, node, store) })
}

// runNodeServer serves nodes over TLS.
func runNodeServer(t *testing.T, store interface {
	Store
	Nodes
}, socket string) (stop func()) {
	t.Helper()
	ln, err := identity(t, mtls.Control, "cp1").Listen(t.Context(), place(socket), mtls.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	return background(t, func(ctx context.Context) error { return NewServer(store, quiet).ServeNodes(ctx, ln, store) })
}

// Node implements Nodes: all but "stranger" are of this installation.
func (m *memory) Node(_ context.Context, name string) (seedbed.Node, error) {
	if name == "stranger" {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.strangers++
		return seedbed.Node{}, seedbed.Errorf(seedbed.ErrNotFound, "there is no node %s", name)
	}
	return seedbed.Node{Name: name}, nil
}

// asked counts the strangers' requests.
func (m *memory) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.strangers
}

// NodeBlob implements Guests: all but those of theirs are any node's.
func (m *memory) NodeBlob(_ context.Context, node, sum string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b, ok := m.blobs[sum]; ok && !m.theirs[sum] {
		return b, nil
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "no record of %s names %s", node, sum)
}

// NodeGuests implements Guests: instances of higher numbers than foreign are of other nodes.
func (m *memory) NodeGuests(_ context.Context, _ string, ids []seedbed.InstanceID) (own []seedbed.InstanceID, err error) {
	for _, id := range ids {
		if m.foreign == 0 || id <= instance(m.foreign) {
			own = append(own, id)
		}
	}
	return own, nil
}
