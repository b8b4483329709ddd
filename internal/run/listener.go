package run

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// socketLook is how often a listener looks whether its socket is still there.
const socketLook = 2 * time.Second

// listener listens on a Unix socket. It makes the socket again after another program has removed
// it, because nobody could connect any more otherwise.
type listener struct {
	socket Socket
	mu     sync.Mutex
	now    *net.UnixListener
	close  sync.Once
	stop   context.CancelFunc // stops watching
	ended  chan struct{}      // closed when that has ended
}

// serveOn returns a listener that begins with ln.
func (s Socket) serveOn(ctx context.Context, ln *net.UnixListener) *listener {
	l := &listener{socket: s, now: ln, ended: make(chan struct{})}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(l.ended)
		l.watch(ctx)
	}()
	return l
}

func (l *listener) current() *net.UnixListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// watch makes the socket again whenever it is missing, until ctx ends.
func (l *listener) watch(ctx context.Context) {
	log := cmp.Or(l.socket.Log, slog.New(slog.DiscardHandler)).With("socket", l.socket.Path)
	tick := time.NewTicker(cmp.Or(l.socket.look, socketLook))
	defer tick.Stop()
	for failed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := os.Lstat(l.socket.Path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		fresh, err := l.socket.make(ctx)
		if err != nil {
			if !failed && ctx.Err() == nil {
				log.Error("another program has removed the socket, and it cannot be made again; trying on", "err", err)
			}
			failed = true
			continue
		}
		failed = false
		l.mu.Lock()
		old := l.now
		l.now = fresh
		l.mu.Unlock()
		old.Close()
		log.Warn("another program had removed the socket; it is made again")
	}
}

// Accept waits for the next connection, on whichever socket is current.
func (l *listener) Accept() (net.Conn, error) {
	for {
		ln := l.current()
		conn, err := ln.Accept()
		if err == nil || ln == l.current() {
			return conn, err
		}
	}
}

// Addr returns where clients find the socket.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.socket.Path, Net: "unix"} }

// Close stops listening and removes the socket.
func (l *listener) Close() (err error) {
	l.close.Do(func() {
		l.stop()
		<-l.ended
		if err = os.Remove(l.socket.Path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	})
	return errors.Join(l.current().Close(), err)
}
