//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	lv "libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/internal/cgate"
)

const (
	// maxTyped limits the input that waits for a guest, in bytes.
	maxTyped = 64 << 10
	// maxShown limits the output that waits for its reader. libvirt is not read while there is more.
	maxShown = 256 << 10
)

// terminal is an opened console: a stream on a connection of its own. From its opening to its closing only the event loop uses
// the connection (see link), and it never waits: input and output pass by the buffers.
type terminal struct {
	d      *Driver
	id     seedbed.InstanceID
	conn   *lv.Connect
	stream *lv.Stream

	mu     sync.Mutex
	change *sync.Cond // of the fields below
	in     []byte     // typed
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
	if err := hasConsole(dom, t.id); err != nil {
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
		if err = t.follow(); err == nil {
			return nil
		}
		_ = t.stream.Abort() // the error is that of follow
	}
	_ = t.stream.Free()
	if has(err, lv.ERR_OPERATION_FAILED) && !force {
		return seedbed.Errorf(seedbed.ErrInUse, "the console of domain %s is open outside Seedbed, such as by virsh console: "+
			"take it over (--take), or end that", t.id)
	}
	return err
}

// hasConsole returns ErrConflict if a domain does not run, or has no serial console.
func hasConsole(dom *lv.Domain, id seedbed.InstanceID) error {
	on, err := dom.IsActive()
	if err != nil {
		return absentDomain(err, id)
	}
	if !on {
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s is off: start it first", id)
	}
	text, err := dom.GetXMLDesc(0)
	if err != nil {
		return absentDomain(err, id)
	}
	var doc libvirtxml.Domain
	if err := doc.Unmarshal(text); err != nil {
		return fmt.Errorf("read the definition of domain %s: %w", id, err)
	}
	if doc.Devices == nil || len(doc.Devices.Serials)+len(doc.Devices.Consoles) == 0 {
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s has no serial console: its system template asks for none", id)
	}
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
	for t.end == nil && events&lv.STREAM_EVENT_WRITABLE != 0 && len(t.in) > 0 {
		n, err := t.stream.Send(t.in)
		if err != nil {
			t.end = explain("write to the console of domain "+string(t.id), err)
			break
		}
		if n <= 0 {
			break // the guest does not read
		}
		t.in = t.in[n:]
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
		if len(t.in) > 0 {
			events |= lv.STREAM_EVENT_WRITABLE
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

// Write implements io.Writer. It waits while the guest does not read.
func (t *terminal) Write(b []byte) (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n < len(b) {
		for len(t.in) >= maxTyped && t.end == nil {
			t.change.Wait()
		}
		if t.end != nil {
			return n, t.end
		}
		part := b[n:min(len(b), n+maxTyped-len(t.in))]
		t.in = append(t.in, part...)
		n += len(part)
		t.want()
	}
	return n, nil
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
