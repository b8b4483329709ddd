//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	lv "libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/internal/cgate"
)

const (
	// typedTime is how long a guest may leave input unread once the buffers of its console are full.
	typedTime = 10 * time.Second
	// maxShown limits the output that waits for its reader. libvirt is not read while there is more.
	maxShown = 256 << 10
)

// terminal is an opened console: a stream on a connection of its own, for the output. From its opening to its closing only the
// event loop uses the connection (see link), and it never waits: output passes by the buffer. Input goes to the pty itself. In
// libvirt's client, it would hold up the event loop, and so the whole driver, while the guest does not read it.
type terminal struct {
	d      *Driver
	id     seedbed.InstanceID
	conn   *lv.Connect
	stream *lv.Stream
	input  *os.File

	mu     sync.Mutex
	change *sync.Cond // of the fields below
	out    []byte     // to be read
	events lv.StreamEventType
	end    error // why nothing more is read or written
	closed bool
}

// OpenConsole implements worker.Terminal.
func (d *Driver) OpenConsole(ctx context.Context, id seedbed.InstanceID, force bool) (io.ReadWriteCloser, error) {
	what := "open the console of domain " + string(id)
	t, err := cgate.Through(ctx, d.gate, what, string(id), func(ctx context.Context) (*terminal, error) {
		conn, err := dial(d.cfg.URI)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		t := &terminal{d: d, id: id, conn: conn}
		t.change = sync.NewCond(&t.mu)
		if err := t.open(force); err != nil {
			conn.Close()
			return nil, explain(what, err)
		}
		if ctx.Err() != nil { // the caller has left
			t.release()
			return nil, cgate.GaveUp("libvirt", what, ctx.Err())
		}
		return t, nil
	})
	if err != nil {
		return nil, err // a nil interface
	}
	return t, nil
}

// open opens the stream.
func (t *terminal) open(force bool) error {
	dom, _, err := findVisible(t.conn, t.id)
	if err != nil {
		return err
	}
	defer free(dom)
	before, err := consoleOf(dom, t.id)
	if err != nil {
		return err
	}
	if t.stream, err = t.conn.NewStream(lv.STREAM_NONBLOCK); err != nil {
		return err
	}
	flags := lv.DOMAIN_CONSOLE_SAFE
	if force {
		flags |= lv.DOMAIN_CONSOLE_FORCE
	}
	err = dom.OpenConsole("", t.stream, flags)
	if err == nil {
		if err = t.openInput(dom, before); err == nil {
			if err = t.follow(); err == nil {
				return nil
			}
			t.input.Close()
		}
		_ = t.stream.Abort() // the error is the one before
	}
	_ = t.stream.Free()
	if has(err, lv.ERR_OPERATION_FAILED) && !force {
		return seedbed.Errorf(seedbed.ErrInUse, "the console of domain %s is open outside Seedbed, such as by virsh console: "+
			"take it over (--take), or end that", t.id)
	}
	return err
}

// place is the pty of a domain's console, in one run of the domain.
type place struct {
	run  int
	path string
}

// consoleOf returns where the console of a domain is. It returns ErrConflict if the domain does not run, or has no serial console.
func consoleOf(dom *lv.Domain, id seedbed.InstanceID) (place, error) {
	doc, err := running(dom, id)
	if err != nil {
		return place{}, err
	}
	var source *libvirtxml.DomainChardevSource // of the device that libvirt takes for the console
	switch d := doc.Devices; {
	case len(d.Consoles) > 0:
		source = d.Consoles[0].Source
	case len(d.Serials) > 0:
		source = d.Serials[0].Source
	}
	if source == nil {
		return place{}, seedbed.Errorf(seedbed.ErrConflict, "domain %s has no serial console: its system template asks for none", id)
	}
	if source.Pty == nil {
		return place{}, seedbed.Errorf(seedbed.ErrConflict, "the serial console of domain %s is not a pty: it cannot be opened", id)
	}
	return place{*doc.ID, source.Pty.Path}, nil
}

// running returns the definition of a domain in its present run. It returns ErrConflict if the domain does not run.
func running(dom *lv.Domain, id seedbed.InstanceID) (libvirtxml.Domain, error) {
	var doc libvirtxml.Domain
	text, err := dom.GetXMLDesc(0)
	if err != nil {
		return doc, absentDomain(err, id)
	}
	if err := doc.Unmarshal(text); err != nil {
		return doc, fmt.Errorf("read the definition of domain %s: %w", id, err)
	}
	if doc.ID == nil {
		return doc, seedbed.Errorf(seedbed.ErrConflict, "domain %s is off: start it first", id)
	}
	if doc.Devices == nil {
		doc.Devices = &libvirtxml.DomainDeviceList{}
	}
	return doc, nil
}

// openInput opens the pty to write to it. The path may belong to another program once the domain has ended, but not while the
// pty is open. So the domain must still be in the same run after that.
func (t *terminal) openInput(dom *lv.Domain, at place) error {
	f, err := os.OpenFile(at.path, os.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open the console of domain %s to write: %w", t.id, err)
	}
	now, err := consoleOf(dom, t.id)
	if err == nil && now != at {
		err = seedbed.Errorf(seedbed.ErrConflict, "domain %s was restarted in the meantime: try again", t.id)
	}
	if err != nil {
		f.Close()
		return err
	}
	t.input = f
	return nil
}

// follow makes the event loop serve the stream.
func (t *terminal) follow() error {
	// Drivers inside this process do not have a connection that could break.
	err := t.conn.RegisterCloseCallback(func(*lv.Connect, lv.ConnectCloseReason) {
		t.fail(seedbed.Errorf(seedbed.ErrUnavailable, "the connection to libvirt at %s broke", t.d.cfg.URI))
	})
	if err != nil && !has(err, lv.ERR_NO_SUPPORT) {
		return err
	}
	t.events = lv.STREAM_EVENT_READABLE | lv.STREAM_EVENT_ERROR | lv.STREAM_EVENT_HANGUP
	return t.stream.EventAddCallback(t.events, func(_ *lv.Stream, events lv.StreamEventType) { t.serve(events) })
}

// serve is called by the event loop.
func (t *terminal) serve(events lv.StreamEventType) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.change.Broadcast()
	if t.end != nil {
		t.want()
		return
	}
	buf := make([]byte, 16<<10)
	for events&(lv.STREAM_EVENT_READABLE|lv.STREAM_EVENT_HANGUP) != 0 && len(t.out) < maxShown {
		n, err := t.stream.Recv(buf)
		if err != nil {
			t.end = err // io.EOF when the domain has ended
			if !errors.Is(err, io.EOF) {
				t.end = explain("read the console of domain "+string(t.id), err)
			}
			break
		}
		if n <= 0 {
			break // nothing more at present
		}
		t.out = append(t.out, buf[:n]...)
	}
	if t.end == nil && events&(lv.STREAM_EVENT_ERROR|lv.STREAM_EVENT_HANGUP) != 0 && events&lv.STREAM_EVENT_READABLE == 0 {
		t.end = io.EOF
	}
	t.want()
}

// want asks the event loop for what there is to do. The lock is held.
func (t *terminal) want() {
	var events lv.StreamEventType
	if t.end == nil {
		events = lv.STREAM_EVENT_ERROR | lv.STREAM_EVENT_HANGUP
		if len(t.out) < maxShown {
			events |= lv.STREAM_EVENT_READABLE
		}
	}
	if events == t.events || t.closed {
		return
	}
	t.events = events
	// This only changes what the loop looks at, and sends nothing. An error means that the stream has ended.
	if err := t.stream.EventUpdateCallback(events); err != nil && t.end == nil {
		t.end = explain("follow the console of domain "+string(t.id), err)
	}
}

// fail ends the reads and writes.
func (t *terminal) fail(err error) {
	t.input.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end == nil {
		t.end = err
	}
	t.change.Broadcast()
}

// Read implements io.Reader.
func (t *terminal) Read(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.out) == 0 && t.end == nil {
		t.change.Wait()
	}
	if len(t.out) == 0 {
		return 0, t.end
	}
	n := copy(b, t.out)
	t.out = t.out[n:]
	t.want()
	return n, nil
}

// Write implements io.Writer.
func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	end := t.end
	t.mu.Unlock()
	if end != nil {
		return 0, end
	}
	err := t.input.SetWriteDeadline(time.Now().Add(typedTime))
	n := 0
	if err == nil {
		n, err = t.input.Write(b)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = seedbed.Errorf(seedbed.ErrUnavailable, "the guest of domain %s has not read what was typed within %s", t.id, typedTime)
	}
	return n, err
}

// Close implements io.Closer. It returns an error if libvirt does not answer; the connection is then closed when it does.
func (t *terminal) Close() error {
	t.fail(net.ErrClosed)
	t.mu.Lock()
	closed := t.closed
	t.closed = true
	t.mu.Unlock()
	if closed {
		return nil
	}
	_, err := cgate.Through(context.Background(), t.d.gate, "close the console of domain "+string(t.id), "",
		func(context.Context) (struct{}, error) {
			t.release()
			return struct{}{}, nil
		})
	return err
}

// release ends the stream and the connection. Their errors mean that they have ended before.
func (t *terminal) release() {
	_ = t.stream.EventRemoveCallback()
	_ = t.conn.UnregisterCloseCallback()
	_ = t.stream.Abort()
	_ = t.stream.Free()
	_, _ = t.conn.Close()
}
