//go:build integration

package provision

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// commits is a proxy between a store and its PostgreSQL server. It counts the committed writing
// transactions, including those that are one statement, or several that are sent at once. It can
// hold one of them up at its commit: before the server has received it, or after the server has
// said that it is done. The client receives neither answer.
type commits struct {
	addr, server string

	mu    sync.Mutex
	n     int // since arm
	at    int // the one to hold up; 0 for none
	after bool
	// struck is closed when that commit is reached, and resume when the connection is to break.
	struck, resume chan struct{}
}

// newCommits makes a proxy to the server's unix socket.
func newCommits(t *testing.T, server string) *commits {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &commits{addr: ln.Addr().String(), server: server}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			group.Go(func() { c.serve(client) })
		}
	})
	t.Cleanup(func() { ln.Close(); group.Wait() }) // the store, which closes first, has ended its connections
	return c
}

// arm makes the proxy hold up the nth commit from now.
func (c *commits) arm(n int, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n, c.at, c.after = 0, n, after
	c.struck, c.resume = make(chan struct{}), make(chan struct{})
}

// disarm reports whether a commit was held up.
func (c *commits) disarm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = 0
	select {
	case <-c.struck:
		return true
	default:
		return false
	}
}

// count counts a commit, and reports whether it is the one to hold up.
func (c *commits) count() (hold, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.at > 0 && c.n == c.at, c.after
}

// strike signals that the commit was reached, and waits until the connection is to break.
func (c *commits) strike() {
	close(c.struck)
	<-c.resume
}

func (c *commits) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	awaited := make(chan string, 1) // the beginning of the answer to a commit that the client must not receive
	var answers sync.WaitGroup
	answers.Go(func() {
		defer client.Close()
		answer := ""
		for {
			m, err := message(server, true)
			if err != nil {
				return
			}
			if answer == "" {
				select {
				case answer = <-awaited:
				default:
				}
			}
			if answer != "" && (m[0] == answer[0] && bytes.HasPrefix(m[5:], []byte(answer[1:]))) {
				c.strike()
				return
			}
			if _, err := client.Write(m); err != nil {
				return
			}
		}
	})
	defer answers.Wait()
	defer server.Close()
	said := traffic{texts: map[string]string{}}
	for typed := false; ; typed = true { // the first message has no type
		m, err := message(client, typed)
		if err != nil {
			return
		}
		if answer := said.commits(m); typed && answer != "" {
			if hold, after := c.count(); hold && !after {
				c.strike()
				return
			} else if hold {
				awaited <- answer
			}
		}
		if _, err := server.Write(m); err != nil {
			return
		}
	}
}

// traffic is what a client has sent so far.
type traffic struct {
	texts map[string]string // of prepared statements
	begun bool              // a transaction has begun
	// writes is set for a transaction that may write, or for a single statement that does.
	writes bool
}

// commits processes the next message, and returns how the answer begins that confirms the commit of
// a writing transaction; empty if this message commits none.
func (a *traffic) commits(m []byte) (answer string) {
	parts := strings.SplitN(string(m[5:]), "\x00", 3)
	switch m[0] {
	case 'Q':
		wrote := a.writes && parts[0] == "commit"
		a.begun = strings.HasPrefix(parts[0], "begin")
		a.writes = a.begun && !strings.Contains(parts[0], "read only")
		if wrote {
			return "CCOMMIT"
		}
	case 'P':
		a.texts[parts[0]] = parts[1]
	case 'B':
		word, _, _ := strings.Cut(strings.TrimSpace(a.texts[parts[1]]), " ")
		a.writes = a.writes || slices.Contains([]string{"INSERT", "UPDATE", "WITH"}, word)
	case 'S':
		if a.writes && !a.begun {
			a.writes = false
			return "Z"
		}
	}
	return ""
}

// message reads one message of PostgreSQL's protocol ("Message Formats" in its manual).
func message(r io.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4, 512)
	if typed {
		head = head[:5]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[len(head)-4:])
	if size < 4 || size > 64<<20 {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	m := append(head, make([]byte, size-4)...)
	_, err := io.ReadFull(r, m[len(head):])
	return m, err
}
