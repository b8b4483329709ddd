//go:build integration

package zk

import (
	"net"
	"sync"
	"testing"
)

// proxy connects a client to a server. It can hold back what they send, or disconnect them.
type proxy struct {
	addr, server string

	wait  sync.WaitGroup
	mu    sync.Mutex
	cond  *sync.Cond
	ends  []net.Conn
	held  [2]bool // to the server, to the client
	ended bool
}

const (
	toServer = iota
	toClient
)

func newProxy(t *testing.T, server string) *proxy {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: ln.Addr().String(), server: server}
	p.cond = sync.NewCond(&p.mu)
	p.wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.serve(c)
		}
	})
	t.Cleanup(func() {
		ln.Close()
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.cond.Broadcast()
		p.cut()
		p.wait.Wait()
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.ends = append(p.ends, client, server)
	p.mu.Unlock()
	p.wait.Go(func() { p.copy(toServer, server, client) })
	p.wait.Go(func() { p.copy(toClient, client, server) })
}

func (p *proxy) copy(direction int, to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.held[direction] && !p.ended {
			p.cond.Wait()
		}
		p.mu.Unlock()
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// hold holds back what is sent in one direction, or lets it through.
func (p *proxy) hold(direction int, on bool) {
	p.mu.Lock()
	p.held[direction] = on
	p.mu.Unlock()
	p.cond.Broadcast()
}

// freeze holds back both directions, and thaw lets them through.
func (p *proxy) freeze() { p.hold(toServer, true); p.hold(toClient, true) }
func (p *proxy) thaw()   { p.hold(toServer, false); p.hold(toClient, false) }

// cut closes the current connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.ends {
		c.Close()
	}
	p.ends = nil
}
