//go:build integration && libvirt

package libvirt_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/libvirt"
)

// proxy stands between the driver and libvirtd, whose absence, death and
// silence it plays without a harm to the real one.
type proxy struct {
	path string
	mu   sync.Mutex
	// open are the connections; a nil listener is a libvirtd that is not there.
	open     []net.Conn
	taken    int            // connections, so far
	asked    map[uint32]int // calls, so far, by procedure
	listener net.Listener
	frozen   chan struct{} // closed while bytes may pass
	wg       sync.WaitGroup
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{path: filepath.Join(t.TempDir(), "libvirt-sock"), frozen: make(chan struct{}), asked: map[uint32]int{}}
	close(p.frozen)
	t.Cleanup(func() {
		p.thaw()
		p.down()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) uri() string {
	return (&url.URL{Scheme: "qemu+unix", Path: "/system", RawQuery: "socket=" + url.QueryEscape(p.path)}).String()
}

func (p *proxy) up(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = l
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.join(client)
		}
	})
}

func (p *proxy) join(client net.Conn) {
	server, err := net.Dial("unix", libvirtSocket)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, client, server)
	p.taken++
	pass := func(to, from net.Conn, copy func(io.Writer, io.Reader)) {
		p.wg.Go(func() {
			defer to.Close()
			defer from.Close()
			copy(gated{p, to}, from)
		})
	}
	pass(client, server, func(to io.Writer, from io.Reader) { io.Copy(to, from) })
	pass(server, client, p.overhear)
}

// overhear passes on what libvirtd is asked for, and counts it: each message begins
// with its length and six words, of which the third is the procedure and the fourth 0
// for a call (libvirt's src/rpc/virnetprotocol.x).
func (p *proxy) overhear(to io.Writer, from io.Reader) {
	header := make([]byte, 4+6*4)
	word := func(n int) uint32 { return binary.BigEndian.Uint32(header[4*n:]) }
	for {
		if _, err := io.ReadFull(from, header); err != nil {
			return
		}
		if word(4) == 0 {
			p.mu.Lock()
			p.asked[word(3)]++
			p.mu.Unlock()
		}
		if _, err := to.Write(header); err != nil {
			return
		}
		if _, err := io.CopyN(to, from, int64(word(0))-int64(len(header))); err != nil {
			return
		}
	}
}

// gated lets bytes pass unless the proxy is frozen.
type gated struct {
	*proxy
	to net.Conn
}

func (g gated) Write(b []byte) (int, error) {
	g.mu.Lock()
	frozen := g.frozen
	g.mu.Unlock()
	<-frozen
	return g.to.Write(b)
}

// down cuts every connection and takes no new one.
func (p *proxy) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	for _, c := range p.open {
		c.Close()
	}
	p.open = nil
}

func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.frozen:
	default:
		close(p.frozen)
	}
}

// TestLibvirtAbsent: calls fail at once with the way out, and work once libvirtd is there.
func TestLibvirtAbsent(t *testing.T) {
	p, base := newProxy(t), connect(t, system)
	d := open(t, p.uri())
	for range 3 {
		wantUnavailable(t, d, p)
	}
	if c := d.Health(t.Context())[0]; c.OK || !strings.Contains(c.Hint, "libvirtd") {
		t.Errorf("health: %+v", c)
	}
	p.up(t)
	until(t, "the driver has connected", func() bool { _, err := d.Domains(t.Context()); return err == nil })
	if c := d.Health(t.Context())[0]; !c.OK {
		t.Errorf("health: %+v", c)
	}
	withBridge(t)
	s := newSpec(t, base, seedbed.Disk{})
	if err := d.DefineDomain(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	remove(t, d, s.ID)
}

// TestLibvirtGoesAway: a broken connection is replaced, watchers are told, and nothing leaks.
func TestLibvirtGoesAway(t *testing.T) {
	p, base := newProxy(t), connect(t, system)
	p.up(t)
	d := open(t, p.uri())
	events := watch(t, d)
	s := newSpec(t, base, seedbed.Disk{})
	s.NICs = nil
	before := descriptors(t)
	for range 5 {
		p.down()
		wantUnavailable(t, d, p)
		p.up(t)
		wantEvent(t, events, "resync", "")
		if err := d.DefineDomain(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		wantEvent(t, events, "defined", s.ID)
		remove(t, d, s.ID)
		wantEvent(t, events, "undefined", s.ID)
	}
	until(t, "every old connection is given back", func() bool { return descriptors(t) <= before })
}

// TestLibvirtHangs: a silent libvirtd holds no call beyond its deadline, is
// given up by keep-alive, and found again.
func TestLibvirtHangs(t *testing.T) {
	p := newProxy(t)
	p.up(t)
	var log logged
	d, err := libvirt.Open(t.Context(), libvirt.Config{
		URI: p.uri(), ConsoleDir: filepath.Join(t.TempDir(), "console"), CDROMDir: t.TempDir(),
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	events := watch(t, d)
	p.freeze()
	for range 12 { // more than may be stuck at once
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		begin := time.Now()
		_, err := d.DomainState(ctx, seedbed.NewInstanceID())
		if took := time.Since(begin); !errors.Is(err, seedbed.ErrUnavailable) || took > soon {
			t.Errorf("after %v: %v; want ErrUnavailable", took, err)
		}
		cancel()
	}
	if c := d.Health(t.Context())[0]; c.OK {
		t.Errorf("health: %+v", c)
	}
	until(t, "keep-alive has given the connection up", func() bool { return log.has("connection to libvirt lost") })
	p.thaw()
	wantEvent(t, events, "resync", "")
	until(t, "the stuck calls have come back", func() bool { return d.Health(t.Context())[0].OK })
	if _, err := d.Domains(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestManyCalls keeps libvirt's client busy from many sides: one connection
// shared by them would crash the process with libvirt 9.0.
func TestManyCalls(t *testing.T) {
	base := connect(t, system)
	d := open(t, system)
	var wg sync.WaitGroup
	for range 24 {
		s := newSpec(t, base, seedbed.Disk{})
		s.NICs = nil
		wg.Go(func() {
			for range 10 {
				if err := d.DefineDomain(t.Context(), s); err != nil {
					t.Error(err)
				}
				if _, err := d.DomainState(t.Context(), s.ID); err != nil {
					t.Error(err)
				}
				if _, err := d.Domains(t.Context()); err != nil {
					t.Error(err)
				}
				remove(t, d, s.ID)
			}
		})
	}
	wg.Wait()
}

// logged is a log that can be searched while it is written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// TestLibvirtRestarts: guests outlive libvirtd, and the driver finds them again.
func TestLibvirtRestarts(t *testing.T) {
	if !ours.owned() {
		t.Log("libvirtd was not started by this run, so it is not restarted; TestLibvirtGoesAway covers the driver's part")
		return
	}
	d := open(t, system)
	events := watch(t, d)
	s := newSpec(t, connect(t, memory), seedbed.Disk{})
	s.NICs, s.Disks = nil, []seedbed.Disk{{Type: "file", Format: "raw", Source: bootable(t, sayHello)}}
	if err := errors.Join(d.DefineDomain(t.Context(), s), d.StartDomain(t.Context(), s.ID)); err != nil {
		t.Fatal(err)
	}
	if err := ours.restart(func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := d.DomainState(ctx, s.ID); !errors.Is(err, seedbed.ErrUnavailable) {
			t.Errorf("without libvirtd: %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, events, "resync", "")
	wantState(t, d, s.ID, seedbed.DomainRunning)
	remove(t, d, s.ID)
	wantEvent(t, events, "undefined", s.ID)
}

// soon is the most that a call takes that waits for nothing, on a machine with other work to do.
const soon = 20 * time.Second

func wantUnavailable(t *testing.T, d *libvirt.Driver, p *proxy) {
	t.Helper()
	begin := time.Now()
	_, err := d.Domains(t.Context())
	if took := time.Since(begin); took > soon {
		t.Errorf("the call took %v; want at most %v", took, soon)
	}
	if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "libvirt at "+p.uri()) {
		t.Errorf("got %v; want ErrUnavailable naming %s", err, p.uri())
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}
