package mtls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// handshakeTime is how long a caller may take to prove who it is.
	handshakeTime = 10 * time.Second
	// maxStrangers is how many may be about it at the same time. When more come, the
	// one that has been at it for longest is let go, so that those who only hold
	// connections keep nobody out.
	maxStrangers = 256
	// lingerTime is how long a refused caller may take to read that it is.
	lingerTime = 2 * time.Second
	// maxOfPlane is how many connections one host's guest plane may have: it faces
	// guests, and must not keep the planes of other hosts out.
	maxOfPlane = 16
	// refusalEvery is how often refused callers are spoken of in the log, at most.
	refusalEvery = 10 * time.Second
)

// Listen serves callers of that role at addr, host:port. Its connections are
// *Conn, and a caller has proved who it is before Accept returns it.
func (i *Identity) Listen(ctx context.Context, addr string, callers Role) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive, Control: control}
	ln, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return i.listen(ln, callers, handshakeTime), nil
}

func (i *Identity) listen(ln net.Listener, callers Role, limit time.Duration) *listener {
	l := &listener{Listener: ln, id: i, callers: callers, conf: i.server(callers), limit: limit,
		proved: make(chan net.Conn), ended: make(chan struct{}), strangers: map[net.Conn]uint64{}, open: map[string]int{}}
	l.work.Go(l.accept)
	return l
}

// listener does the handshakes beside each other, before the server knows of the
// connections: a caller that proves nothing takes none of its places.
type listener struct {
	net.Listener
	id      *Identity
	callers Role
	conf    *tls.Config
	limit   time.Duration // of a handshake
	proved  chan net.Conn
	ended   chan struct{}
	broken  error // why, set before ended is closed
	once    sync.Once
	work    sync.WaitGroup

	mu        sync.Mutex
	strangers map[net.Conn]uint64 // by the order in which they came
	open      map[string]int      // connections of nodes
	came      uint64
	refused   int
	told      time.Time
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.proved:
		return c, nil
	case <-l.ended:
		return nil, l.broken
	}
}

// Close implements net.Listener; it waits until nothing of the listener runs any more.
func (l *listener) Close() error {
	l.end(&net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed})
	err := l.Listener.Close()
	l.mu.Lock()
	for c := range l.strangers {
		c.Close()
	}
	l.mu.Unlock()
	l.work.Wait()
	return err
}

func (l *listener) end(err error) {
	l.once.Do(func() {
		l.broken = err
		close(l.ended)
	})
}

func (l *listener) accept() {
	for pause := time.Duration(0); ; {
		c, err := l.Listener.Accept()
		if passes(err) {
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(pause):
				continue
			case <-l.ended:
				return
			}
		}
		if err != nil {
			l.end(err)
			return
		}
		pause = 0
		if l.enter(c) {
			l.work.Go(func() { l.prove(c) })
		}
	}
}

// passing are errors of accept that are no end of the listener: the caller has left
// again or its packets found no way, or there are no files or no memory left, most likely
// because of strangers, who are let go in their time.
var passing = []syscall.Errno{
	syscall.ECONNABORTED, syscall.EPROTO, syscall.EPERM, syscall.ETIMEDOUT,
	syscall.ENETDOWN, syscall.ENETUNREACH, syscall.ENONET, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENOPROTOOPT, syscall.EOPNOTSUPP,
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ENOSR,
}

func passes(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(passing, errno)
}

// enter counts a stranger in.
func (l *listener) enter(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ended:
		c.Close()
		return false
	default:
	}
	if len(l.strangers) >= maxStrangers {
		var oldest net.Conn
		for other, n := range l.strangers {
			if oldest == nil || n < l.strangers[oldest] {
				oldest = other
			}
		}
		delete(l.strangers, oldest)
		oldest.Close()
	}
	l.came++
	l.strangers[c] = l.came
	return true
}

func (l *listener) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.strangers, c)
}

// prove hands a caller on that has proved who it is.
func (l *listener) prove(c net.Conn) {
	defer l.leave(c)
	_ = c.SetDeadline(time.Now().Add(l.limit))
	conn := tls.Server(c, l.conf)
	if err := conn.Handshake(); err != nil {
		l.tell(c, err)
		linger(c)
		return
	}
	_ = c.SetDeadline(time.Time{})
	proved := &Conn{Conn: conn, listener: l, node: conn.ConnectionState().PeerCertificates[0].Subject.CommonName}
	if !l.seat(proved.node) {
		l.tell(c, fmt.Errorf("node %s has %d connections already", proved.node, maxOfPlane))
		c.Close()
		return
	}
	select {
	case l.proved <- proved:
	case <-l.ended:
		proved.Close()
	}
}

// seat gives a node's connection a place, if it may have another.
func (l *listener) seat(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.callers == Metadata && l.open[node] >= maxOfPlane {
		return false
	}
	l.open[node]++
	return true
}

func (l *listener) unseat(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[node]--; l.open[node] == 0 {
		delete(l.open, node)
	}
}

// linger closes a connection so that its peer gets to see the alert: with bytes of
// the peer's unread it would see a reset.
func linger(c net.Conn) {
	defer c.Close()
	if half, ok := c.(*net.TCPConn); ok && half.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, c, 1<<20)
	}
}

// tell logs that a caller was refused, and of many in a short time the number alone.
func (l *listener) tell(c net.Conn, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return // it left: who looks whether the port answers
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused++; time.Since(l.told) < refusalEvery {
		return
	}
	l.id.log.Warn("a caller was refused", "listener", l.Addr().String(), "peer", c.RemoteAddr().String(), "want", l.callers.organization(),
		"refused", l.refused, "err", err)
	l.refused, l.told = 0, time.Now()
}
