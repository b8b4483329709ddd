//go:build integration

package store

import (
	"io"
	"net"
	"sync"
	"testing"

	"seedbed/internal/lab"
)

// cable connects a store to its PostgreSQL server. Once it is pulled, no data passes, and neither
// side is notified.
type cable struct {
	addr string
	mu   sync.RWMutex // locked for writing while the cable is pulled
}

func newCable(t *testing.T, server string) *cable {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{addr: ln.Addr().String()}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			group.Go(func() { c.serve(client, server) })
		}
	})
	t.Cleanup(func() { ln.Close(); group.Wait() }) // the store closes first, and has ended its connections
	return c
}

func (c *cable) serve(client net.Conn, server string) {
	defer client.Close()
	there, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer there.Close()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		defer to.Close()
		_, _ = io.Copy(through{to, &c.mu}, from)
	}
	both.Go(func() { pass(there, client) })
	both.Go(func() { pass(client, there) })
	both.Wait()
}

// through writes while the cable is not pulled.
type through struct {
	net.Conn
	mu *sync.RWMutex
}

// Write implements io.Writer. Hiding the connection's own ReadFrom prevents io.Copy from bypassing
// it.
func (w through) Write(b []byte) (int, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.Conn.Write(b)
}

// ReadFrom implements io.ReaderFrom.
func (w through) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r)
}

// A server that disappears without notice is detected, and cached rows, such as a hook's keys, are
// not used any longer than that.
func TestPostgresGoneWithoutAWord(t *testing.T) {
	s := postgresServer(t)
	name := s.Database(t, s.template)
	c := newCable(t, s.SocketPath())
	host, port, err := net.SplitHostPort(c.addr)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.config(name)
	cfg.DSN += " host=" + host + " port=" + port
	db := do(Open(t.Context(), cfg))(t)
	defer db.Close()
	heard := func() bool { return db.sql.Listens() }
	lab.Await(t, lab.Patience, "the store to listen", heard)
	c.mu.Lock()
	pulled := true
	defer func() {
		if pulled {
			c.mu.Unlock()
		}
	}()
	lab.Await(t, lab.Patience, "the store to notice", func() bool { return !heard() })
	c.mu.Unlock()
	pulled = false
	lab.Await(t, lab.Patience, "the store to listen again", heard)
}
