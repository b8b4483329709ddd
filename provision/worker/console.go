package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/duplex"
)

const (
	// maxSessions limits the sessions at one console.
	maxSessions = 16
	// maxUnread limits what is kept of a console's output for a session that does not read it in time.
	maxUnread = 256 << 10
	// maxOverlap limits the search for what is both in a console's log and in its stream.
	maxOverlap = 4 << 10
	// maxTyped is how many bytes are typed at a time. After each, another session may have taken the typing over.
	maxTyped = 1 << 10
	// openTime limits the opening of a console.
	openTime = 20 * time.Second
)

// errLeft ends a session that its client has closed.
var errLeft = errors.New("the client has gone")

// consoles are the serial consoles that sessions have opened. There is one stream to each, whose output every session gets.
// One session at a time may write to it. A session that does not read loses output, and does not hold up the others.
type consoles struct {
	hypervisor Hypervisor
	mu         sync.Mutex
	open       map[seedbed.InstanceID]*terminal
	pumps      sync.WaitGroup
}

// terminal is one console. The mutex of consoles is held to use sessions, writer and closed.
type terminal struct {
	id     seedbed.InstanceID
	opened chan struct{} // closed when stream or failed is set
	stream io.ReadWriteCloser
	failed error
	ended  chan struct{} // closed when the stream is closed, so that the console can be opened again

	sessions []*session // in the order of their beginnings
	writer   *session
	closed   bool // it gets no more sessions
}

// session is one client of a console. The mutex of consoles is held to use its fields.
type session struct {
	asked seedbed.ConsoleSession
	buf   []byte
	lost  int64
	notes []seedbed.ConsoleNote
	end   error
	over  bool // it types nothing more
	wake  chan struct{}
}

func newConsoles(h Hypervisor) *consoles {
	return &consoles{hypervisor: h, open: map[seedbed.InstanceID]*terminal{}}
}

// talk serves one session.
func (cs *consoles) talk(ctx context.Context, asked seedbed.ConsoleSession, c *duplex.Conn) error {
	if err := asked.Check(); err != nil {
		return err
	}
	t, s, err := cs.join(ctx, asked)
	if err != nil {
		return err
	}
	defer cs.leave(t, s)
	if err := cs.begin(ctx, s, c); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		cs.typed(t, s, c)
	}()
	err = cs.show(ctx, s, c, gone)
	cs.mu.Lock()
	s.over = true
	cs.mu.Unlock()
	if errors.Is(err, errLeft) {
		c.Close() // there is nobody to tell
	} else {
		c.End(seedbed.EndNote(err).JSON())
	}
	<-gone
	return nil
}

// join adds a session to a console, and opens the console if it is the first one. If the console is just closed, or could not be
// opened for another session, such as one that has left, it is opened for this one.
func (cs *consoles) join(ctx context.Context, asked seedbed.ConsoleSession) (*terminal, *session, error) {
	s := &session{asked: asked, wake: make(chan struct{}, 1)}
	for {
		t, first := cs.terminal(asked.ID)
		if first {
			cs.start(ctx, t, asked.Take)
		}
		select {
		case <-t.opened:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		if t.failed == nil {
			if joined, err := cs.add(t, s); joined || err != nil {
				return t, s, err
			}
		} else if first {
			return nil, nil, t.failed
		}
		select {
		case <-t.ended:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// terminal returns the console of an instance. It returns true if the caller must start it.
func (cs *consoles) terminal(id seedbed.InstanceID) (*terminal, bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	t, ok := cs.open[id]
	if !ok {
		t = &terminal{id: id, opened: make(chan struct{}), ended: make(chan struct{})}
		cs.open[id] = t
	}
	return t, !ok
}

// start opens a console.
func (cs *consoles) start(ctx context.Context, t *terminal, take bool) {
	limited, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	t.stream, t.failed = cs.hypervisor.OpenConsole(limited, t.id, take)
	if t.failed != nil {
		cs.forget(t)
	} else {
		cs.pumps.Go(func() { cs.pump(t) })
	}
	close(t.opened)
}

// add adds a session to a console. It returns false if the console was closed.
func (cs *consoles) add(t *terminal, s *session) (bool, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if t.closed {
		return false, nil
	}
	if len(t.sessions) == maxSessions {
		return false, seedbed.Errorf(seedbed.ErrInUse, "the console of domain %s has %d sessions, which is the most: end one of them",
			t.id, maxSessions)
	}
	t.sessions = append(t.sessions, s)
	if s.asked.Write && (t.writer == nil || s.asked.Take) {
		t.writer = s
		t.tellWriter(s)
	}
	s.notes = append(s.notes, t.note(seedbed.NoteBegin, s))
	return true, nil
}

// note returns who may write, as a session is told.
func (t *terminal) note(kind string, to *session) seedbed.ConsoleNote {
	n := seedbed.ConsoleNote{Note: kind, Writing: t.writer == to}
	if t.writer != nil && t.writer != to {
		n.By = t.writer.asked.Who
	}
	return n
}

// tellWriter tells all sessions but one who may write now.
func (t *terminal) tellWriter(not *session) {
	for _, s := range t.sessions {
		if s != not {
			s.notes = append(s.notes, t.note(seedbed.NoteWriter, s))
			s.poke()
		}
	}
}

func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// leave removes a session. The next one that asked to write may, and the last one closes the console.
func (cs *consoles) leave(t *terminal, s *session) {
	cs.mu.Lock()
	t.sessions = slices.DeleteFunc(t.sessions, func(other *session) bool { return other == s })
	if t.writer == s {
		t.writer = nil
		if next := slices.IndexFunc(t.sessions, func(o *session) bool { return o.asked.Write }); next >= 0 {
			t.writer = t.sessions[next]
		}
		t.tellWriter(nil)
	}
	last := len(t.sessions) == 0 && !t.closed
	t.closed = t.closed || last
	cs.mu.Unlock()
	if last {
		cs.close(t)
	}
}

// close closes the stream of a console that was marked as closed by the caller.
func (cs *consoles) close(t *terminal) {
	t.stream.Close()
	cs.forget(t)
}

// forget lets a console be opened again.
func (cs *consoles) forget(t *terminal) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, t.id)
	close(t.ended)
}

// pump gives the output of a console to its sessions, until it ends.
func (cs *consoles) pump(t *terminal) {
	buf := make([]byte, 16<<10)
	for {
		n, err := t.stream.Read(buf)
		cs.mu.Lock()
		for _, s := range t.sessions {
			if n > 0 {
				s.add(buf[:n])
			}
			if err != nil {
				s.end = err
				if errors.Is(err, io.EOF) {
					s.end = seedbed.ErrConsoleEnded
				}
			}
			s.poke()
		}
		last := err != nil && !t.closed
		t.closed = t.closed || last
		cs.mu.Unlock()
		if last {
			cs.close(t)
		}
		if err != nil {
			return
		}
	}
}

// add adds output. If a session has too much unread, it loses that.
func (s *session) add(b []byte) {
	if len(s.buf)+len(b) > maxUnread {
		s.lost += int64(len(s.buf))
		s.buf = nil
	}
	s.buf = append(s.buf, b...)
}

// begin sends what the session is told first, and the earlier output of the console. What the console has written since the
// session joined is in its log as well, and is sent once.
func (cs *consoles) begin(ctx context.Context, s *session, c *duplex.Conn) error {
	var earlier []byte
	if s.asked.Tail > 0 {
		limited, cancel := context.WithTimeout(ctx, openTime)
		defer cancel()
		var err error
		if earlier, err = cs.hypervisor.Console(limited, s.asked.ID, s.asked.Tail); err != nil {
			return err
		}
	}
	cs.mu.Lock()
	s.buf = s.buf[overlap(earlier, s.buf):]
	note := s.notes[0]
	s.notes = s.notes[1:]
	cs.mu.Unlock()
	s.poke()
	if err := c.Send(duplex.Message{Text: true, Data: note.JSON()}); err != nil {
		return err
	}
	_, err := c.Write(earlier)
	return err
}

// overlap returns how many bytes at the start of fresh are the end of earlier.
func overlap(earlier, fresh []byte) int {
	for n := min(len(earlier), len(fresh), maxOverlap); n > 0; n-- {
		if bytes.HasSuffix(earlier, fresh[:n]) {
			return n
		}
	}
	return 0
}

// show sends the output and the notes to a session, and returns why it ends.
func (cs *consoles) show(ctx context.Context, s *session, c *duplex.Conn, gone <-chan struct{}) error {
	for {
		select {
		case <-s.wake:
		case <-gone:
			return errLeft
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		cs.mu.Lock()
		out, lost, notes, end := s.buf, s.lost, s.notes, s.end
		s.buf, s.lost, s.notes = nil, 0, nil
		cs.mu.Unlock()
		if lost > 0 {
			notes = append([]seedbed.ConsoleNote{{Note: seedbed.NoteLost, Bytes: lost}}, notes...)
		}
		for _, n := range notes {
			if err := c.Send(duplex.Message{Text: true, Data: n.JSON()}); err != nil {
				return err
			}
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		if end != nil {
			return end
		}
	}
}

// typed writes to the console what a session sends, while it may write, until the session ends.
func (cs *consoles) typed(t *terminal, s *session, c *duplex.Conn) {
	for {
		m, err := c.Receive()
		if err != nil {
			return
		}
		if m.Text {
			continue
		}
		for part := range slices.Chunk(m.Data, maxTyped) {
			cs.mu.Lock()
			may := t.writer == s && !s.over
			cs.mu.Unlock()
			if !may {
				break
			}
			if _, err := t.stream.Write(part); err != nil {
				cs.fail(s, err)
				return
			}
		}
	}
}

// fail ends a session. If the console has ended, the pump says why.
func (cs *consoles) fail(s *session, err error) {
	if !errors.Is(err, seedbed.ErrUnavailable) {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	s.end = cmp.Or(s.end, err)
	s.poke()
}
