//go:build integration && libvirt

package libvirt_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// connections is how many the proxy has taken so far.
func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// TestConnectionsAreKept: calls that succeed share a connection, one after the
// other; one that fails leaves its own to nobody; and of a libvirtd that was started anew
// between two calls the second knows nothing.
func TestConnectionsAreKept(t *testing.T) {
	p := newProxy(t)
	p.up(t)
	d := open(t, p.uri())
	watch(t, d)
	list := func() {
		t.Helper()
		if _, err := d.Domains(t.Context()); err != nil {
			t.Error(err)
		}
	}
	list()
	before := p.connections()
	for range 20 {
		list()
	}
	if n := p.connections() - before; n > 0 {
		t.Errorf("20 calls, one after the other, have opened %d connections; want none", n)
	}
	for range 3 {
		before = p.connections()
		if _, err := d.DomainState(t.Context(), seedbed.NewInstanceID()); !errors.Is(err, seedbed.ErrNotFound) {
			t.Errorf("a domain that does not exist: %v", err)
		}
		list()
		if n := p.connections() - before; n != 1 {
			t.Errorf("a call after one that failed has opened %d connections; want 1", n)
		}
	}
	for range 5 {
		p.down()
		p.up(t)
		list()
	}
}

// TestLeftConnections: a call that was left while libvirtd was silent comes back, and its
// connection is used by nobody.
func TestLeftConnections(t *testing.T) {
	p := newProxy(t)
	p.up(t)
	d := open(t, p.uri())
	watch(t, d)
	if _, err := d.Domains(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := p.connections()
	p.freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := d.Domains(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v; want a call that was left", err)
	}
	p.thaw()
	until(t, "the call has come back", func() bool { return d.Health(t.Context())[0].OK })
	if n := p.connections() - before; n == 0 {
		t.Error("no connection was opened after a call that was left")
	}
}

// TestDefinitionAsksLittle: with a connection that rests, a definition asks whether
// libvirtd is there and whether the domain is, and defines it. What libvirt can do is
// known, and that the domain is ours when libvirt tells of it.
func TestDefinitionAsksLittle(t *testing.T) {
	const libVersion, lookupByUUID, defineXML = 157, 24, 11 // src/remote/remote_protocol.x
	p := newProxy(t)
	p.up(t)
	d := open(t, p.uri())
	events := watch(t, d)
	s := newSpec(t, connect(t, system), seedbed.Disk{})
	s.NICs = nil
	if _, err := d.Domains(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	clear(p.asked)
	p.mu.Unlock()
	if err := d.DefineDomain(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, events, "defined", s.ID)
	p.mu.Lock()
	got := maps.Clone(p.asked)
	p.mu.Unlock()
	if diff := cmp.Diff(map[uint32]int{libVersion: 1, lookupByUUID: 1, defineXML: 1}, got); diff != "" {
		t.Errorf("calls by procedure (-want +got):\n%s", diff)
	}
	remove(t, d, s.ID)
}

// TestManyCallsWhileItGoes: connections that rest break while others take them, and the
// process lives on.
func TestManyCallsWhileItGoes(t *testing.T) {
	p := newProxy(t)
	p.up(t)
	d := open(t, p.uri())
	var wg sync.WaitGroup
	over := make(chan struct{})
	var good atomic.Int32
	for range 12 {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				switch _, err := d.Domains(t.Context()); {
				case err == nil:
					good.Add(1)
				case !errors.Is(err, seedbed.ErrUnavailable):
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		had := good.Load()
		until(t, "calls succeed", func() bool { return good.Load() > had+20 })
		p.down()
		p.up(t)
	}
	close(over)
	wg.Wait()
}
