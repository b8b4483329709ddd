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
	// handshakeTime bounds the time of a caller's handshake.
	handshakeTime = 10 * time.Second
	// maxStrangers limits the callers in their handshake. When more come, the one that has been in
	// its handshake for longest is disconnected, so that idle connections do not keep other callers
	// out.
	maxStrangers = 256
	// lingerTime is how long a refused caller has to read the refusal.
	lingerTime = 2 * time.Second
	// maxOfPlane limits the connections of one host's guest plane. The plane faces guests, and must
	// not keep the planes of other hosts out.
	maxOfPlane = 16
	// refusalEvery is the least time between two log lines about refused callers.
	refusalEvery = 10 * time.Second
)

// Listen serves callers of that role at addr, host:port. Its connections are *Conn, and Accept
// returns only authenticated callers.
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

// listener runs the handshakes concurrently, before the server sees the connections. A caller that
// does not authenticate takes none of the server's connections.
type listener struct {
	net.Listener
	id      *Identity
	callers Role
	conf    *tls.Config
	limit   time.Duration // of a handshake
	proved  chan net.Conn
	ended   chan struct{}
	broken  error // the cause; set before ended is closed
	once    sync.Once
	work    sync.WaitGroup

	mu        sync.Mutex
	strangers map[net.Conn]uint64 // by the order of their arrival
	open      map[string]int      // the number of connections by node
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

// Close implements net.Listener. It waits until all goroutines of the listener have ended.
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

// passing holds the errors of accept that do not end the listener. Either the caller has left or
// its packets were lost, or no file descriptors or memory are left. The latter is probably due to
// unauthenticated callers, which are disconnected after their handshake time.
var passing = []syscall.Errno{
	syscall.ECONNABORTED, syscall.EPROTO, syscall.EPERM, syscall.ETIMEDOUT,
	syscall.ENETDOWN, syscall.ENETUNREACH, syscall.ENONET, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENOPROTOOPT, syscall.EOPNOTSUPP,
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ENOSR,
}

func passes(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(passing, errno)
}

// enter counts an unauthenticated caller.
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

// prove runs a caller's handshake and, if it succeeds, passes the caller on.
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

// seat reserves one of a node's connections. It reports whether the node may have another.
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

// linger closes a connection so that its peer can read the alert. Unread bytes of the peer would
// cause a reset instead.
func linger(c net.Conn) {
	defer c.Close()
	if half, ok := c.(*net.TCPConn); ok && half.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, c, 1<<20)
	}
}

// tell logs that a caller was refused. If there are many in a short time, it logs only their
// number.
func (l *listener) tell(c net.Conn, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return // the caller left, such as a check whether the port answers
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
