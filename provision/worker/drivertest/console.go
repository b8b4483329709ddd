package drivertest

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"seedbed"
)

// consoleLine is the opened console of a domain, whose guest answers each line as an echo would.
type consoleLine struct {
	h    *Hypervisor
	of   *domain
	out  chan []byte
	end  chan struct{}
	once sync.Once
	err  error // set before end is closed
	rest []byte
}

// Write appends to a domain's console.
func (h *Hypervisor) Write(id seedbed.InstanceID, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, ok := h.domains[id]; ok {
		d.write(text)
	}
}

// Console implements worker.Inspector.
func (h *Hypervisor) Console(ctx context.Context, id seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.look(ctx, id)
	if err != nil {
		return nil, err
	}
	return slices.Clone(d.console[max(0, len(d.console)-int(tail)):]), nil
}

// OpenConsole implements worker.Terminal.
func (h *Hypervisor) OpenConsole(ctx context.Context, id seedbed.InstanceID, force bool) (line io.ReadWriteCloser, err error) {
	err = h.effect(ctx, "OpenConsole", func() error {
		d, err := h.look(ctx, id)
		switch {
		case err != nil:
			return err
		case d.state != seedbed.DomainRunning && d.state != seedbed.DomainPaused:
			return seedbed.Errorf(seedbed.ErrConflict, "domain %s is off", d.spec.Name)
		case d.spec.System != nil && !d.spec.System.Serial:
			return seedbed.Errorf(seedbed.ErrConflict, "domain %s has no serial console", d.spec.Name)
		case d.line != nil && !force:
			return seedbed.Errorf(seedbed.ErrInUse, "the console of domain %s is open already", d.spec.Name)
		case d.line != nil:
			d.line.fail(net.ErrClosed)
		}
		d.line = &consoleLine{h: h, of: d, out: make(chan []byte, 1024), end: make(chan struct{})}
		line = d.line
		return nil
	})
	return line, err
}

// write is output of a domain. The lock is held.
func (d *domain) write(text string) {
	d.console = append(d.console, text...)
	if d.line != nil {
		select {
		case d.line.out <- []byte(text):
		default: // as a pty that is full
		}
	}
}

// hangUp ends the console and the screen of a domain that is off. The lock is held.
func (d *domain) hangUp() {
	for _, c := range d.screens {
		c.Close()
	}
	d.screens = nil
	if d.line != nil {
		d.line.fail(io.EOF)
		d.line = nil
	}
}

func (l *consoleLine) fail(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.end)
	})
}

// Read implements io.Reader.
func (l *consoleLine) Read(b []byte) (int, error) {
	if len(l.rest) == 0 {
		select {
		case l.rest = <-l.out:
		default:
			select {
			case l.rest = <-l.out:
			case <-l.end:
				return 0, l.err
			}
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Write implements io.Writer. The guest shows what is typed, and answers "echo TEXT" with TEXT. A deaf guest reads nothing.
func (l *consoleLine) Write(b []byte) (int, error) {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	if l.of.line != l {
		return 0, net.ErrClosed
	}
	if l.of.deaf {
		return 0, seedbed.Errorf(seedbed.ErrUnavailable, "the guest of domain %s has not read what was typed", l.of.spec.Name)
	}
	typed := strings.ReplaceAll(string(b), "\r", "\r\n")
	l.of.write(typed)
	for line := range strings.Lines(typed) {
		if said, ok := strings.CutPrefix(line, "echo "); ok {
			l.of.write(said)
		}
	}
	return len(b), nil
}

// Close implements io.Closer.
func (l *consoleLine) Close() error {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	l.fail(net.ErrClosed)
	if l.of.line == l {
		l.of.line = nil
	}
	return nil
}
