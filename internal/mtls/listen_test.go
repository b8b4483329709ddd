package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

func writeText(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }

// silent accepts connections and closes them without an answer.
func silent(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if half, ok := c.(*net.TCPConn); ok {
				_ = half.CloseWrite()
				_, _ = io.CopyN(io.Discard, half, 1) // the hello
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestStrangers checks that callers that connect and send nothing keep no one out, and are
// disconnected.
func TestStrangers(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	w := open(t, issue(t, a, Worker, "hv1"), Worker, "hv1")
	cp := open(t, issue(t, a, Control, "cp1"), Control, "cp1")
	addr := serve(t, w, Control, time.Minute, nil)
	first := dial(t, addr)
	for range maxStrangers + 20 {
		dial(t, addr)
	}
	if said, err := ask(t.Context(), addr, cp.Client(Worker, "hv1", "127.0.0.1")); said != "cp1" || err != nil {
		t.Errorf("a caller beside many strangers: %q, %v", said, err)
	}
	_ = first.SetReadDeadline(time.Now().Add(patience))
	if _, err := first.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the first of too many strangers stays: %v", err)
	}

	hasty := serve(t, w, Control, 50*time.Millisecond, nil)
	c := dial(t, hasty)
	_, _ = c.Write([]byte{22, 3, 1}) // the beginning of a hello
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
		t.Error("a handshake that does not go on is not ended")
	}
}

// TestConnectionsOfAPlane checks that a guest plane has a limit of connections, and that each one
// that it closes makes room.
func TestConnectionsOfAPlane(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	cp := open(t, issue(t, a, Control, "cp1"), Control, "cp1")
	conns := make(chan *Conn, 2*maxOfPlane)
	addr := serve(t, cp, Metadata, handshakeTime, func(c *Conn) { conns <- c })
	connect := func(node string) *tls.Conn {
		pair := forge(t, a, Metadata, node, func(*x509.Certificate) {})
		c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var open []*Conn
	for range maxOfPlane {
		connect("hv1")
		open = append(open, <-conns)
	}
	over := connect("hv1")
	_ = over.SetReadDeadline(time.Now().Add(patience))
	if _, err := over.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("one more stays: %v", err)
	}
	connect("hv2")
	if node, err := (<-conns).Peer(); node != "hv2" || err != nil {
		t.Errorf("another node: %q, %v", node, err)
	}
	open[0].Close()
	open[0].Close() // closing twice counts once
	connect("hv1")
	open = append(open, <-conns)
	again := connect("hv1")
	_ = again.SetReadDeadline(time.Now().Add(patience))
	if _, err := again.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("a place was given twice: %v", err)
	}
	for _, c := range open {
		c.Close()
	}
}

// TestListenerEnds checks that the end of a listener disconnects the callers in their handshake.
func TestListenerEnds(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	w := open(t, issue(t, a, Worker, "hv1"), Worker, "hv1")
	ln, err := w.Listen(t.Context(), "127.0.0.1:0", Control)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, ln.Addr().String())
	_, _ = c.Write([]byte{22})
	closed := make(chan error, 1)
	go func() { closed <- ln.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if _, err := ln.Accept(); err == nil {
		t.Error("it accepts after its end")
	}
	if _, err := w.Listen(t.Context(), "127.0.0.1:99999", Control); err == nil {
		t.Error("it listens on no port")
	}
}
