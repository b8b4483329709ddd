package clock

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"testing"
	"time"
)

// host is a time server that answers as it is told, and how often it was asked.
type host struct {
	*net.UDPConn
	asked chan []byte
}

func newHost(t *testing.T, at string, answer func(question []byte) [][]byte) host {
	t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at)))
	if err != nil {
		t.Fatal(err)
	}
	h := host{conn, make(chan []byte, 4096)}
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 1024)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			h.asked <- bytes.Clone(buf[:n])
			for _, a := range answer(buf[:n]) {
				conn.WriteToUDPAddrPort(a, from)
			}
		}
	}()
	return h
}

func (h host) addr() netip.AddrPort { return h.LocalAddr().(*net.UDPAddr).AddrPort() }

// relayTo serves at an address of the loopback interface, and returns a guest's socket to it.
func relayTo(t *testing.T, upstream netip.AddrPort) *net.UDPConn {
	t.Helper()
	probe, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	at := probe.LocalAddr().(*net.UDPAddr)
	probe.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, "lo", at.AddrPort(), upstream) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	guest, err := net.DialUDP("udp4", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guest.Close() })
	return guest
}

// question is one of a client of NTP version 4, by number.
func question(number byte) []byte {
	q := make([]byte, messageSize)
	q[0], q[received], q[sent] = 4<<3|client, number|0x80, number
	return q
}

// reply is the answer to a question; in the interleaved mode it repeats another of its times.
func reply(q []byte, repeats int) []byte {
	a := make([]byte, messageSize)
	a[0], a[1] = 4<<3|server, 3
	copy(a[origin:received], q[repeats:repeats+8])
	return a
}

// hears asks until it is answered, and returns the answer.
func hears(t *testing.T, guest *net.UDPConn, q []byte) []byte {
	t.Helper()
	buf := make([]byte, 1024)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		guest.Write(q) // it is refused until the relay listens
		guest.SetReadDeadline(time.Now().Add(wait))
		if n, err := guest.Read(buf); err == nil {
			return buf[:n]
		}
	}
	t.Fatal("no answer")
	return nil
}

func TestServe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		question []byte
		answer   func(q []byte) [][]byte
		want     []byte
	}{
		"an answer": {question(1), func(q []byte) [][]byte { return [][]byte{reply(q, sent)} }, reply(question(1), sent)},
		"interleaved": {question(1), func(q []byte) [][]byte { return [][]byte{reply(q, received)} },
			reply(question(1), received)},
		"an answer to another question comes first": {question(1),
			func(q []byte) [][]byte { return [][]byte{reply(question(2), sent), {}, q, reply(q, sent)} }, reply(question(1), sent)},
		"extensions are cut": {append(question(1), make([]byte, 20)...),
			func(q []byte) [][]byte { return [][]byte{append(reply(q, sent), make([]byte, 500)...)} }, reply(question(1), sent)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, "127.0.0.1:0", tt.answer)
			if got := hears(t, relayTo(t, h.addr()), tt.question); !bytes.Equal(got, tt.want) {
				t.Errorf("answered %x, want %x", got, tt.want)
			}
			if got := <-h.asked; !bytes.Equal(got, tt.question[:messageSize]) {
				t.Errorf("the server was asked %x", got)
			}
		})
	}
}

// TestOnlyQuestions: nothing but questions of clients reaches the time server.
func TestOnlyQuestions(t *testing.T) {
	t.Parallel()
	h := newHost(t, "127.0.0.1:0", func(q []byte) [][]byte { return [][]byte{reply(q, sent)} })
	guest := relayTo(t, h.addr())
	hears(t, guest, question(1))
	mode := func(first byte) []byte { q := question(2); q[0] = first; return q }
	for _, b := range [][]byte{{}, question(2)[:47], mode(4<<3 | server), mode(4<<3 | 1), mode(4<<3 | 6), mode(2<<3 | 7), mode(client),
		mode(5<<3 | client)} {
		if _, err := guest.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	hears(t, guest, question(3)) // datagrams of one socket to another stay in order
	for q := <-h.asked; q[sent] != 3; q = <-h.asked {
		if q[sent] != 1 {
			t.Errorf("the server was sent %x", q)
		}
	}
}

// TestDown: a time server that was not there, or did not answer as many as may wait, is asked again.
func TestDown(t *testing.T) {
	t.Parallel()
	h := newHost(t, "127.0.0.1:0", func([]byte) [][]byte { return nil })
	at := h.addr()
	guest := relayTo(t, at)
	for end, asked := time.Now().Add(20*time.Second), 0; asked < most; {
		guest.Write(question(1)) // it is refused until the relay listens
		select {
		case <-h.asked:
			asked++
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatalf("the server was asked %d times", asked)
		}
	}
	h.Close()
	guest.Write(question(1))
	newHost(t, at.String(), func(q []byte) [][]byte { return [][]byte{reply(q, sent)} })
	if got, want := hears(t, guest, question(9)), reply(question(9), sent); !bytes.Equal(got, want) {
		t.Errorf("answered %x, want %x", got, want)
	}
}
