package metadata

import (
	"runtime"
	"testing"
)

// TestRecentRecord: a record is made once for a state while somebody holds it, and never served for
// another one.
func TestRecentRecord(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	s := stateOf(nil, guestA())
	l.apply(s)
	x := l.dir.current.Load()
	session := l.dir.sessions.find(idA)
	first := session.recordIn(x)
	if first == nil || session.recordIn(x) != first {
		t.Fatal("the record was made again")
	}
	renamed := guestA()
	renamed.Name = "renamed"
	l.apply(stateOf(nil, renamed))
	if got := session.recordIn(l.dir.current.Load()); got.guest.Name != "renamed" {
		t.Errorf("another state gives the name %q", got.guest.Name)
	}
	if got := session.recordIn(x); got.guest.Name != guestA().Name {
		t.Errorf("the state before gives the name %q", got.guest.Name)
	}
	runtime.KeepAlive(first)
	l.apply(stateOf(nil, guestB()))
	if session.recordIn(l.dir.current.Load()) != nil {
		t.Error("an instance that is not served has a record")
	}
}
