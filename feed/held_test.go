package feed

import (
	"errors"
	"sync/atomic"
	"testing"
)

// TestHeld: what is held back is served, and acknowledged once it may be.
func TestHeld(t *testing.T) {
	t.Parallel()
	dir, m, r := t.TempDir(), newMemory(), &recorder{}
	runServer(t, m, socketIn(dir))
	c := newClient(t, socketIn(dir), dir, r)
	var held atomic.Bool
	c.cfg.Hold = func() error {
		if held.Load() {
			return errors.New("a bridge is somebody else's")
		}
		return nil
	}
	m.publish(guest(1), nil)
	background(t, c.Run)
	eventually(t, "the snapshot is acknowledged", m.ackedAt(1))
	held.Store(true)
	m.publish(guest(2), nil)
	eventually(t, "the reason is told", func() bool { return c.Status().Held == "a bridge is somebody else's" })
	if st := c.Status(); !st.Connected || st.Revision != 2 || st.Acked != 1 || r.last().Revision != 2 {
		t.Errorf("status %+v, applied %d", st, r.last().Revision)
	}
	m.publish(guest(3), nil)
	eventually(t, "what comes later is served", func() bool { return r.last().Revision == 3 })
	if !m.ackedAt(1)() {
		t.Errorf("acknowledged %v", m.acks())
	}
	held.Store(false)
	eventually(t, "it is acknowledged", m.ackedAt(3))
	eventually(t, "nothing is held", func() bool { return c.Status().Held == "" })
}
