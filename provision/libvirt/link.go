//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

const (
	// A libvirtd that is silent for keepAliveSeconds * (keepAliveCount+1) counts as gone.
	keepAliveSeconds = 5
	keepAliveCount   = 3

	backoffFirst = 250 * time.Millisecond
	backoffLast  = 5 * time.Second
)

// link keeps open the connection on which libvirt reports events. It is used for nothing else:
// libvirt's client before 10.6 corrupts its memory if a second thread, or keep-alive, wakes a call
// that waits on the same connection (its temporary GSource remains, with a pointer into a stack
// frame that is gone). So every call has its own connection, without keep-alive.
type link struct {
	uri string
	log *slog.Logger
	// prepare registers for events on a new connection and returns their number.
	prepare func(*lv.Connect) (callback int, err error)
	// up and down are called when events begin to arrive, and when they no longer do.
	up, down func()
}

// run connects, waits until the connection breaks, and connects again, until ctx ends.
func (l *link) run(ctx context.Context) {
	wait, last := backoffFirst, ""
	for ctx.Err() == nil {
		err := l.hold(ctx)
		if err == nil {
			wait, last = backoffFirst, ""
			continue
		}
		if text := err.Error(); text != last {
			last = text
			l.log.Warn("libvirt does not answer", "uri", l.uri, "err", err)
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, backoffLast)
		case <-ctx.Done():
		}
	}
}

// hold keeps one connection until it breaks or ctx ends. It returns an error if it could not
// connect.
func (l *link) hold(ctx context.Context) error {
	conn, err := dial(l.uri)
	if err != nil {
		return err
	}
	defer conn.Close()
	callback, err := l.prepare(conn)
	if err != nil {
		return err
	}
	// On a broken connection this returns an error, but still removes the callback.
	defer func() { _ = conn.DomainEventDeregister(callback) }()
	gone := make(chan struct{}, 1)
	// Drivers inside this process, such as test, do not have a connection that could break.
	err = conn.RegisterCloseCallback(func(*lv.Connect, lv.ConnectCloseReason) {
		select {
		case gone <- struct{}{}:
		default: // the event loop must never wait
		}
	})
	if err != nil && !has(err, lv.ERR_NO_SUPPORT) {
		return absent(l.uri, err)
	}
	defer func() { _ = conn.UnregisterCloseCallback() }()
	// From here on only the event loop uses the connection.
	if err := conn.SetKeepAlive(keepAliveSeconds, keepAliveCount); err != nil && !has(err, lv.ERR_NO_SUPPORT) {
		return absent(l.uri, err)
	}
	defer func() { _ = conn.SetKeepAlive(0, 0) }()
	l.log.Info("following libvirt's events", "uri", l.uri)
	l.up()
	defer l.down()
	select {
	case <-gone:
		l.log.Warn("connection to libvirt lost", "uri", l.uri)
	case <-ctx.Done():
	}
	return nil
}

// dial opens a connection for use by one thread at a time.
func dial(uri string) (*lv.Connect, error) {
	conn, err := lv.NewConnect(uri)
	if err != nil {
		return nil, absent(uri, err)
	}
	return conn, nil
}

// absent explains that there is no connection, and what to do about it.
func absent(uri string, err error) error {
	var ours *seedbed.Error
	if errors.As(err, &ours) {
		return err
	}
	kind, text := seedbed.ErrUnavailable, err.Error()
	var lverr lv.Error
	if errors.As(err, &lverr) {
		text = lverr.Message
		if kindOf[lverr.Code] == seedbed.ErrForbidden {
			kind = seedbed.ErrForbidden
		}
	}
	return seedbed.Errorf(kind, "libvirt at %s does not answer: %s: is libvirtd running? (systemctl start libvirtd)", uri, text)
}

// version names the library and the hypervisor behind conn.
func version(conn *lv.Connect) (string, error) {
	lib, err := conn.GetLibVersion()
	if err != nil {
		return "", explain("ask for libvirt's version", err)
	}
	hv, err := conn.GetVersion()
	if err != nil {
		return "", explain("ask for the hypervisor's version", err)
	}
	kind, err := conn.GetType()
	if err != nil {
		return "", explain("ask for the hypervisor's type", err)
	}
	return fmt.Sprintf("libvirt %s, %s %s", dotted(lib), kind, dotted(hv)), nil
}

func dotted(v uint32) string {
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000)
}

// wakeMillis is the interval at which an idle event loop wakes up, so that it notices that it must
// stop.
const wakeMillis = 500

// events is the process's only libvirt event loop. libvirt has one implementation for the whole
// process and accepts none once a connection is open, so this cannot belong to a Driver.
var events eventLoop

type eventLoop struct {
	registered sync.Once
	err        error

	mu    sync.Mutex
	users int
	stop  chan struct{}
	done  chan struct{}
	timer int
}

// acquire adds a user of the loop; the first one starts it.
func (l *eventLoop) acquire() error {
	l.registered.Do(func() { l.err = lv.EventRegisterDefaultImpl() })
	if l.err != nil {
		return fmt.Errorf("register libvirt's event loop: %w", l.err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		timer, err := lv.EventAddTimeout(wakeMillis, func(int) {})
		if err != nil {
			return fmt.Errorf("add a timer to libvirt's event loop: %w", err)
		}
		l.timer, l.stop, l.done = timer, make(chan struct{}), make(chan struct{})
		go run(l.stop, l.done)
	}
	l.users++
	return nil
}

// release removes a user; the last one stops the loop and waits for it.
func (l *eventLoop) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	close(l.stop)
	lv.EventUpdateTimeout(l.timer, 0)
	<-l.done
	// The only error is that the timer is unknown, which no longer matters.
	_ = lv.EventRemoveTimeout(l.timer)
}

func run(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	for {
		select {
		case <-stop:
			return
		default:
		}
		// The only error is a failed poll(2), and the next iteration tries again.
		_ = lv.EventRunDefaultImpl()
	}
}
