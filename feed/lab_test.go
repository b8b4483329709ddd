package feed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab/leak"
)

func TestMain(m *testing.M) { leak.Main(bothWays{m}) }

var quiet = slog.New(slog.DiscardHandler)

func instance(n int) seedbed.InstanceID {
	return seedbed.InstanceID(fmt.Sprintf("ec2a0b1c-2d3e-4f56-8789-%012x", n))
}

func guest(n int) seedbed.Guest {
	return seedbed.Guest{ID: instance(n), Name: fmt.Sprintf("vm-%d", n), Profile: "small", Node: "node1", ReportToken: "secret",
		NICs: []seedbed.GuestNIC{{ID: seedbed.NICID(n), MAC: seedbed.MAC{0x52, 0x54, 0, byte(n >> 16), byte(n >> 8), byte(n)},
			Network: "default", Addr: netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})}}}
}

// recordOf is the record of a guest as the feed carries it.
func recordOf(g seedbed.Guest) json.RawMessage {
	b, err := json.Marshal(g)
	if err != nil {
		panic(err)
	}
	return b
}

// packPage is a page as a client receives it.
func packPage(page seedbed.FeedPage) (packedPage, error) {
	b, err := json.Marshal(page)
	if err != nil {
		return packedPage{}, err
	}
	return decodePage(bytes.NewReader(b))
}

// memory is a Store in memory that keeps every change.
type memory struct {
	mu         sync.Mutex
	hint       chan struct{}
	news       chan struct{} // what somebody waits for
	generation string
	revision   int64
	floor      int64
	live       map[seedbed.InstanceID]seedbed.Guest
	changes    []seedbed.FeedChange
	peers      []seedbed.FeedChange // what changed, with the last revision as their number
	blobs      map[string][]byte
	networks   []seedbed.Network
	site       seedbed.Site
	upkeep     []seedbed.Maintenance
	applied    []int64
	events     []seen
	rows       map[string]int

	failApplied, failEvents int              // so many calls fail after they took effect
	refuse                  func(int64) bool // events that are invalid
	strangers               int              // requests of a node that there is not
	theirs                  map[string]bool  // documents that only other nodes' records name
	foreign                 int              // instances of higher numbers are another node's; zero is none
}

type seen struct {
	spool string
	seedbed.GuestEvent
}

func newMemory() *memory {
	return &memory{hint: make(chan struct{}), news: make(chan struct{}), generation: "g1",
		live: map[seedbed.InstanceID]seedbed.Guest{}, blobs: map[string][]byte{},
		networks: []seedbed.Network{{Name: "default", Bridge: "seedbed0"}}, rows: map[string]int{}}
}

func (m *memory) wrote() {
	close(m.hint)
	m.hint = make(chan struct{})
}

func (m *memory) publish(g seedbed.Guest, userData []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if userData != nil {
		g.UserData = m.keep(userData)
	}
	m.revision++
	m.live[g.ID] = g
	m.changes = append(m.changes, seedbed.FeedChange{Revision: m.revision, Instance: g.ID, Record: recordOf(g)})
	m.wrote()
}

// awaited is publish of what somebody waits for.
func (m *memory) awaited(g seedbed.Guest) {
	m.publish(g, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.news)
	m.news = make(chan struct{})
}

// keep takes a document.
func (m *memory) keep(data []byte) *seedbed.Blob {
	sum := sha256.Sum256(data)
	b := &seedbed.Blob{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}
	m.blobs[b.SHA256] = data
	return b
}

func (m *memory) retract(id seedbed.InstanceID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision++
	delete(m.live, id)
	m.changes = append(m.changes, seedbed.FeedChange{Revision: m.revision, Instance: id})
	m.wrote()
}

func (m *memory) FeedPage(_ context.Context, _ string, since int64, generation string) (seedbed.FeedPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := seedbed.FeedPage{Revision: m.revision, Generation: m.generation, Networks: m.networks, TokenKey: bytes.Repeat([]byte{1}, 32),
		Site: m.site, Maintenance: m.upkeep}
	if generation != m.generation || since < m.floor || since > m.revision {
		p.Snapshot = true
		for _, g := range m.live {
			p.Changes = append(p.Changes, seedbed.FeedChange{Revision: m.revision, Instance: g.ID, Record: recordOf(g)})
		}
		return p, nil
	}
	for _, c := range m.changes {
		if c.Revision > since {
			p.Changes = append(p.Changes, c)
		}
	}
	return p, nil
}

// peer tells of a peer, or that it is gone.
func (m *memory) peer(id seedbed.InstanceID, record json.RawMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peers = append(m.peers, seedbed.FeedChange{Revision: int64(len(m.peers)) + 1, Instance: id, Record: record})
	m.wrote()
}

func (m *memory) Peers(_ context.Context, _ string, since int64, generation string) (seedbed.PeerPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	head := int64(len(m.peers))
	p := seedbed.PeerPage{Revision: head, Snapshot: generation != m.generation || since > head}
	if p.Snapshot {
		since = 0
	}
	p.Changes = m.peers[since:]
	return p, nil
}

func (m *memory) Hint() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hint
}

func (m *memory) FeedHint() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.news
}

func (m *memory) SetApplied(_ context.Context, _ string, revision int64, _ time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = append(m.applied, revision)
	if m.failApplied > 0 {
		m.failApplied--
		return errors.New("answer lost")
	}
	return nil
}

func (m *memory) AddGuestEvents(_ context.Context, node, spool string, events []seedbed.GuestEvent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		if m.refuse != nil && m.refuse(e.Seq) {
			return seedbed.Errorf(seedbed.ErrInvalid, "event %d is refused", e.Seq)
		}
	}
	for _, e := range events {
		key := fmt.Sprintf("%s/%s/%d", node, spool, e.Seq)
		if m.rows[key]++; m.rows[key] == 1 {
			m.events = append(m.events, seen{spool, e})
		}
	}
	if m.failEvents > 0 {
		m.failEvents--
		return errors.New("answer lost")
	}
	return nil
}

func (m *memory) acks() []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]int64(nil), m.applied...)
}

func (m *memory) ackedAt(revision int64) func() bool {
	return func() bool {
		a := m.acks()
		return len(a) > 0 && a[len(a)-1] == revision
	}
}

func (m *memory) got() []seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]seen(nil), m.events...)
}

// background runs f until stop or the end of the test, and wants nil from it.
func background(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// recorder records what was applied.
type recorder struct {
	mu     sync.Mutex
	states []seedbed.GuestPlaneState
	fail   int
	check  func(seedbed.GuestPlaneState)
}

func (r *recorder) Apply(_ context.Context, s seedbed.GuestPlaneState) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.check != nil {
		r.check(s)
	}
	if r.fail > 0 {
		r.fail--
		return errors.New("cannot be applied now")
	}
	r.states = append(r.states, s)
	return nil
}

// allow ends the failures.
func (r *recorder) allow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = 0
}

func (r *recorder) last() seedbed.GuestPlaneState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.states) == 0 {
		return seedbed.GuestPlaneState{}
	}
	return r.states[len(r.states)-1]
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.states)
}

func newClient(t *testing.T, socket, dir string, r *recorder) *Client {
	t.Helper()
	return NewClient(ClientConfig{Socket: socket, Remotes: remotes(t, "node1", socket), Node: "node1", Dir: dir, Applier: r,
		Log: quiet, Wait: 5 * time.Second})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("did not come to pass: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func socketIn(dir string) string { return filepath.Join(dir, "f.sock") }
