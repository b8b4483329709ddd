package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestFloodOfOne: an address that asks too much is not answered, and does not keep others from being answered.
func TestFloodOfOne(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	slow := newResolver(t, func(m *dns.Msg) *dns.Msg { <-hold; return knows("192.0.2.1")(m) })
	t.Cleanup(func() { close(hold) })
	s := testServer(forwarderTo(slow))
	addr := serve(t, s)
	conn, err := net.Dial("udp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b, err := ask("example.org.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	var flood sync.WaitGroup
	flooded := make(chan struct{})
	flood.Go(func() {
		for {
			select {
			case <-flooded:
				return
			default:
				_, _ = conn.Write(b) // what does not go is no flood
				time.Sleep(50 * time.Microsecond)
			}
		}
	})
	t.Cleanup(flood.Wait)
	t.Cleanup(func() { close(flooded) })
	for s.Counts.Limited.Load() < 100 {
		time.Sleep(time.Millisecond)
	}
	if n := len(s.Forwarder.slots); n > maxWaiting {
		t.Errorf("%d queries of one address wait", n)
	}
	other := &dns.Client{Dialer: &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 9)}}}
	if m, _, err := other.Exchange(ask("web1.lab.internal.", dns.TypeA), addr); err != nil || len(m.Answer) != 2 {
		t.Errorf("another address: %v, %v", m, err)
	}

	var conns []net.Conn
	for range maxConns + 20 {
		c, err := net.Dial("tcp4", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	closed := 0
	for _, c := range conns {
		c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	if closed != 20 {
		t.Errorf("%d connections beyond %d were closed, want 20", closed, maxConns)
	}
	otherTCP := &dns.Client{Net: "tcp", Dialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}}
	if m, _, err := otherTCP.Exchange(ask("web1.lab.internal.", dns.TypeA), addr); err != nil || len(m.Answer) != 2 {
		t.Errorf("another address by TCP: %v, %v", m, err)
	}
}

// TestUnread: a client that does not take its answers holds nothing up once the server ends.
func TestUnread(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	bounded := &boundedListener{Listener: ln, ctx: ctx, clients: &clients{of: map[who]*client{}}}
	client, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := bounded.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := conn.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}()
	select {
	case <-ended:
		t.Fatal("the client takes what it is sent")
	case <-time.After(500 * time.Millisecond):
	}
	stop()
	select {
	case <-ended:
	case <-time.After(tcpTime / 2):
		t.Error("the server waits for the client")
	}
	conn.Close()
	conn.Close()
	if n := bounded.clients.get(who{addr: netip.MustParseAddr("127.0.0.1")}).conns.Load(); n != 0 {
		t.Errorf("%d connections are counted after all were closed", n)
	}
}
