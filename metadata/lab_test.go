package metadata

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/pem"
	"flag"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab/leak"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	flag.Parse()
	leak.Main(m)
}

const (
	idA = seedbed.InstanceID("ec2a0b1c-2d3e-4f56-8789-0123456789ab")
	idB = seedbed.InstanceID("ec2fffff-0000-4000-8000-00000000000b")
)

//go:embed testdata/certificate.pem
var testCertificatePEM []byte

var (
	testCertificate = func() []byte { b, _ := pem.Decode(testCertificatePEM); return b.Bytes }()

	addrA   = netip.MustParseAddr("127.0.1.2")
	addrB   = netip.MustParseAddr("127.0.1.3")
	macA    = seedbed.MAC{0x52, 0x54, 0, 0, 0, 0xa}
	macB    = seedbed.MAC{0x52, 0x54, 0, 0, 0, 0xb}
	testKey = bytes.Repeat([]byte{7}, tokenKeyLen)
	keyA    = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ admin@example.org"
)

// guestA has everything that is usual; guestB as little as possible.
func guestA() seedbed.Guest {
	return seedbed.Guest{ID: idA, Account: "123456789012", Name: "web-1", Profile: "small", Image: "debian-12", VCPUs: 2, Memory: seedbed.GiB,
		NICs:    []seedbed.GuestNIC{{ID: 101, MAC: macA, Network: "default", Addr: addrA}},
		SSHKeys: []string{keyA, "ecdsa-sha2-nistp256 AAAAE2VjZHNh a=b/c/"},
		Disks:   []seedbed.GuestDisk{{Device: "vda", Size: 10 * seedbed.GiB}, {Device: "vdb", Size: seedbed.GiB}},
		Tags:    map[string]string{"Name": "web 1", "cost center": "42", "a:b": "c", "no/path": "x"},
		Region:  "seedbed", Zone: "seedbed-local", Signature: bytes.Repeat([]byte("signed. "), 32),
		ReportToken: "report-token-of-a", Created: time.Date(2026, 9, 1, 12, 0, 0, 500, time.FixedZone("", 7200)), Node: "node1"}
}

func guestB() seedbed.Guest {
	return seedbed.Guest{ID: idB, Name: "bare",
		NICs: []seedbed.GuestNIC{{ID: 102, MAC: macB, Network: "default", Addr: addrB}}}
}

// stateOf is a directory state in sync, with the user-data of the given instances.
func stateOf(userData map[seedbed.InstanceID][]byte, guests ...seedbed.Guest) seedbed.GuestPlaneState {
	docs := map[seedbed.InstanceID]seedbed.Documents{}
	for id, data := range userData {
		docs[id] = seedbed.Documents{UserData: data}
	}
	return stateWith(docs, guests...)
}

// stateWith is stateOf with documents of both kinds.
func stateWith(docs map[seedbed.InstanceID]seedbed.Documents, guests ...seedbed.Guest) seedbed.GuestPlaneState {
	blobs := map[string][]byte{}
	keep := func(data []byte) *seedbed.Blob {
		if data == nil {
			return nil
		}
		sum := sha256.Sum256(data)
		b := &seedbed.Blob{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}
		blobs[b.SHA256] = data
		return b
	}
	held := map[seedbed.InstanceID]seedbed.Guest{}
	for _, g := range guests {
		g.UserData, g.VendorData = keep(docs[g.ID].UserData), keep(docs[g.ID].VendorData)
		held[g.ID] = g
	}
	return seedbed.GuestPlaneState{
		Guests: maps.All(held),
		Guest:  func(id seedbed.InstanceID) (seedbed.Guest, bool) { g, ok := held[id]; return g, ok },
		Blob:   func(sum string) ([]byte, bool) { b, ok := blobs[sum]; return b, ok },
		Networks: []seedbed.Network{
			{Name: "default", Bridge: "seedbed0", Prefix: netip.MustParsePrefix("127.0.1.1/24"),
				Gateway: netip.MustParseAddr("127.0.1.1"), DHCP: true},
			{Name: "other", Bridge: "seedbed1", Prefix: netip.MustParsePrefix("10.9.0.0/16"), Gateway: netip.MustParseAddr("10.9.0.1"),
				DNS: []netip.Addr{netip.MustParseAddr("10.9.0.53")}, Identity: seedbed.IdentityMAC,
				NetworkOptions: seedbed.NetworkOptions{Prefix6: netip.MustParsePrefix("fd12:3456:789a:1::/64")}},
		},
		TokenKey: testKey, InSync: true, Revision: 1, Since: -1,
		Site: seedbed.Site{Domain: "seedbed.example", Partition: "seedbed", Certificate: testCertificate},
	}
}

// lab is a server on loopback. The caller's address says which NIC it would come from, as the
// kernel does elsewhere.
type lab struct {
	t    *testing.T
	dir  *Directory
	srv  *Server
	addr string
	stop func() error

	mu     sync.Mutex
	events []seedbed.GuestEvent
	now    time.Time
	facts  map[netip.Addr]Facts
}

func newLab(t *testing.T, change func(*Config)) *lab {
	t.Helper()
	l := &lab{t: t, dir: NewDirectory(), now: time.Date(2026, 9, 2, 0, 0, 0, 0, time.UTC), facts: map[netip.Addr]Facts{
		addrA: {Bridge: "seedbed0", Mark: 101, Peer: addrA, MAC: macA},
		addrB: {Bridge: "seedbed0", Mark: 102, Peer: addrB, MAC: macB},
	}}
	cfg := Config{Directory: l.dir, Log: slog.New(slog.DiscardHandler), Identify: l.identify, Now: l.clock,
		OnEvent: func(e seedbed.GuestEvent) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.events = append(l.events, e)
		}}
	if change != nil {
		change(&cfg)
	}
	l.srv = New(cfg)
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.srv.Serve(ctx, ln) }()
	l.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := l.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l
}

func (l *lab) identify(c net.Conn) (Facts, error) {
	peer := netip.MustParseAddrPort(c.RemoteAddr().String()).Addr()
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.facts[peer]; ok {
		return f, nil
	}
	return Facts{Bridge: "seedbed0", Peer: peer}, nil
}

func (l *lab) clock() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *lab) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

func (l *lab) apply(s seedbed.GuestPlaneState) {
	l.t.Helper()
	if err := l.dir.Apply(s); err != nil {
		l.t.Fatal(err)
	}
}

// seen are the events of one kind so far.
func (l *lab) seen(kind string) []seedbed.GuestEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []seedbed.GuestEvent
	for _, e := range l.events {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// patience is how long anything may take here that must come.
const patience = time.Minute

// client speaks from a guest's address and follows no redirect.
func (l *lab) client(from netip.Addr) *http.Client {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: patience}
	tr := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, l.addr)
	}}
	l.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

type reply struct {
	status int
	header http.Header
	body   string
	length int64
}

func (l *lab) try(c *http.Client, method, path string, headers ...string) (reply, error) {
	req, err := http.NewRequest(method, "http://169.254.169.254"+path, nil)
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return do(c, req)
}

func do(c *http.Client, req *http.Request) (reply, error) {
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), resp.ContentLength}, err
}

func (l *lab) do(c *http.Client, method, path string, headers ...string) reply {
	l.t.Helper()
	r, err := l.try(c, method, path, headers...)
	if err != nil {
		l.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (l *lab) want(c *http.Client, status int, method, path string, headers ...string) reply {
	l.t.Helper()
	r := l.do(c, method, path, headers...)
	if r.status != status {
		l.t.Fatalf("%s %s %q: %d, expected %d; body %.60q", method, path, headers, r.status, status, r.body)
	}
	return r
}

// raw sends bytes from a guest's address and returns all that comes back.
func (l *lab) raw(from netip.Addr, send string) string {
	l.t.Helper()
	c := l.dial(from)
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, send); err != nil {
		return ""
	}
	c.(*net.TCPConn).CloseWrite()
	b, _ := io.ReadAll(bufio.NewReader(c))
	return string(b)
}

func (l *lab) dial(from netip.Addr) net.Conn {
	l.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: patience}
	c, err := d.Dial("tcp4", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// eventually polls until ok or the deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("did not come to pass: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
