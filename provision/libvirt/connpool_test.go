package libvirt

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// line is a connection to a far side that may go away.
type line struct {
	n     int
	mute  bool
	ended bool
}

// exchangeOf is a pool of such connections, and all that it has opened.
func exchangeOf() (s *connPool[*line], all *[]*line) {
	all = &[]*line{}
	return &connPool[*line]{
		open: func() (*line, error) {
			l := &line{n: len(*all)}
			*all = append(*all, l)
			return l, nil
		},
		alive:     func(l *line) bool { return !l.mute },
		closeConn: func(l *line) { l.ended = true },
	}, all
}

// takeLine takes a connection, which must not be closed.
func takeLine(t *testing.T, s *connPool[*line]) *line {
	t.Helper()
	l, err := s.get()
	if err != nil || l.ended {
		t.Fatalf("take: %+v, %v", l, err)
	}
	return l
}

func stillOpen(all []*line) (open []int) {
	for _, l := range all {
		if !l.ended {
			open = append(open, l.n)
		}
	}
	return open
}

func TestShelfReuses(t *testing.T) {
	t.Parallel()
	s, all := exchangeOf()
	a, b := takeLine(t, s), takeLine(t, s)
	if a == b {
		t.Fatal("two have the same connection at the same time")
	}
	s.put(a)
	if c := takeLine(t, s); c != a {
		t.Errorf("got connection %d; want %d, which rested", c.n, a.n)
	}
	// b came to no good end, and was not put back.
	if c := takeLine(t, s); c.n != 2 || len(*all) != 3 {
		t.Errorf("got connection %d of %d; want a new one", c.n, len(*all))
	}
}

// TestShelfLosesAll: a far side that was started anew answers on none of the connections that
// rested.
func TestShelfLosesAll(t *testing.T) {
	t.Parallel()
	s, all := exchangeOf()
	for range 3 {
		takeLine(t, s)
	}
	for _, l := range *all {
		s.put(l)
		l.mute = true
	}
	c := takeLine(t, s)
	if d := cmp.Diff([]int{3}, stillOpen(*all)); c.n != 3 || d != "" {
		t.Errorf("got connection %d; open (-want +got):\n%s", c.n, d)
	}
	// There is none at all: that is said, and nothing that is broken is given out.
	s.put(c)
	c.mute = true
	away := errors.New("away")
	s.open = func() (*line, error) { return nil, away }
	if _, err := s.get(); !errors.Is(err, away) || !c.ended {
		t.Errorf("got %v", err)
	}
}

func TestShelfKeepsFewAndNotForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, all := exchangeOf()
		for range maxIdle + 2 {
			takeLine(t, s)
		}
		for _, l := range *all {
			s.put(l)
		}
		if got := len(stillOpen(*all)); got != maxIdle {
			t.Errorf("%d rest; want %d", got, maxIdle)
		}
		time.Sleep(idleTime - time.Millisecond)
		used := takeLine(t, s)
		s.put(used)
		s.sweep()
		if got := len(stillOpen(*all)); got != maxIdle {
			t.Errorf("%d rest before their time is over; want %d", got, maxIdle)
		}
		time.Sleep(time.Millisecond)
		s.sweep()
		if d := cmp.Diff([]int{used.n}, stillOpen(*all)); d != "" {
			t.Errorf("open after the time (-want +got):\n%s", d)
		}
		s.close()
		late := &line{n: 99}
		s.put(late)
		if got := stillOpen(append(*all, late)); len(got) != 0 {
			t.Errorf("open after the end: %v", got)
		}
	})
}
