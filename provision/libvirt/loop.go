//go:build libvirt

package libvirt

import (
	"fmt"
	"sync"

	lv "libvirt.org/go/libvirt"
)

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
