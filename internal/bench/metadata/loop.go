package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// source is a guest with a namespace: requests come from its MAC and address.
type source struct {
	guest seedbed.Guest
	ns    space
}

// request is what one slot of a loop sends next.
type request struct {
	from *source
	to   unix.SockaddrInet4
	data []byte
	// fresh asks for a connection of its own; else the one before is used on.
	fresh bool
}

// script says what the slots of a loop do. One goroutine calls it.
type script interface {
	// next is the slot's next request; ok is false when it has none any more.
	next(slot int) (r request, ok bool)
	answered(slot int, a answer)
	// failed reports a request without an answer; the slot continues with the next one.
	failed(slot int, err error)
}

// loop drives connections by epoll on one thread, which moves into the guest's
// namespace for each connection that it opens: the cheapest client there is.
type loop struct {
	ep    int
	at    space
	slots []slot
	live  int
}

type slot struct {
	fd    int // -1 is none
	out   []byte
	in    []byte
	asked time.Time
	armed uint32
}

// play runs a script on so many slots until each has ended or ctx has, and
// returns how long that took. It may be called from any goroutine.
func play(ctx context.Context, s script, slots int) (time.Duration, error) {
	type result struct {
		took time.Duration
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: its namespace is a guest's
		began := time.Now()
		l, err := newLoop(slots)
		if err == nil {
			err = l.run(ctx, s)
			l.close()
		}
		done <- result{time.Since(began), err}
	}()
	r := <-done
	return r.took, r.err
}

func newLoop(slots int) (*loop, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	l := &loop{ep: ep, at: -1, slots: make([]slot, slots)}
	for i := range l.slots {
		l.slots[i] = slot{fd: -1, in: make([]byte, 0, 4<<10)}
	}
	return l, nil
}

func (l *loop) close() {
	for i := range l.slots {
		l.hangUp(i)
	}
	unix.Close(l.ep)
}

func (l *loop) run(ctx context.Context, s script) error {
	for i := range l.slots {
		l.advance(i, s)
	}
	events := make([]unix.EpollEvent, 256)
	for l.live > 0 && ctx.Err() == nil {
		n, err := unix.EpollWait(l.ep, events, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			l.handle(int(e.Fd), s)
		}
	}
	return nil
}

// advance sends the slot's next request.
func (l *loop) advance(i int, s script) {
	for {
		r, ok := s.next(i)
		if !ok {
			l.hangUp(i)
			return
		}
		if err := l.send(i, r); err != nil {
			l.hangUp(i)
			s.failed(i, err)
			continue
		}
		return
	}
}

func (l *loop) send(i int, r request) error {
	c := &l.slots[i]
	c.asked, c.in = time.Now(), c.in[:0]
	if r.fresh || c.fd < 0 {
		l.hangUp(i)
		if err := l.connect(c, i, r); err != nil {
			return err
		}
	}
	c.out = r.data
	return l.flush(c, i)
}

func (l *loop) connect(c *slot, i int, r request) error {
	if l.at != r.from.ns {
		if err := unix.Setns(int(r.from.ns), unix.CLONE_NEWNET); err != nil {
			return err
		}
		l.at = r.from.ns
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.fd, c.armed = fd, unix.EPOLLIN
	l.live++
	if err := unix.Connect(fd, &r.to); err != nil && err != unix.EINPROGRESS {
		return err
	}
	return unix.EpollCtl(l.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: c.armed, Fd: int32(i)})
}

// flush writes what the socket takes, and waits for it to take more only when
// it must: over a bridge the connection usually stands when connect returns.
func (l *loop) flush(c *slot, i int) error {
	want := uint32(unix.EPOLLIN)
	for len(c.out) > 0 {
		n, err := unix.Write(c.fd, c.out)
		if err == unix.EAGAIN || err == unix.ENOTCONN {
			want |= unix.EPOLLOUT
			break
		}
		if err != nil {
			return err
		}
		c.out = c.out[n:]
	}
	if want == c.armed {
		return nil
	}
	c.armed = want
	return unix.EpollCtl(l.ep, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: want, Fd: int32(i)})
}

func (l *loop) handle(i int, s script) {
	c := &l.slots[i]
	if c.fd < 0 {
		return
	}
	a, whole, err := l.progress(c, i)
	if err != nil {
		l.hangUp(i)
		s.failed(i, err)
	} else if !whole {
		return
	} else {
		a.took = time.Since(c.asked)
		s.answered(i, a)
	}
	l.advance(i, s)
}

func (l *loop) progress(c *slot, i int) (a answer, whole bool, err error) {
	if len(c.out) > 0 {
		return a, false, l.flush(c, i)
	}
	if len(c.in) == cap(c.in) {
		c.in = append(c.in, make([]byte, 4*cap(c.in))...)[:len(c.in)]
	}
	n, err := unix.Read(c.fd, c.in[len(c.in):cap(c.in)])
	switch {
	case err == unix.EAGAIN:
		return a, false, nil
	case err != nil:
		return a, false, err
	case n == 0:
		return a, false, fmt.Errorf("closed after %d bytes", len(c.in))
	}
	c.in = c.in[:len(c.in)+n]
	return parseAnswer(c.in)
}

func (l *loop) hangUp(i int) {
	if c := &l.slots[i]; c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
		l.live--
	}
}
