package worker

import (
	"errors"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// TestResults keeps the ends of programs: for a time, a bounded amount of each domain and of all, and not past the reuse of a number.
func TestResults(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	r := newResults(func() time.Time { return now })
	asked := 0
	look := func(id string, process int64, size seedbed.Bytes) seedbed.GuestProcess {
		t.Helper()
		l, err := r.look(effects.GuestProcess{ID: seedbed.InstanceID(id), Process: process}, func() (seedbed.GuestProcess, error) {
			asked++
			return seedbed.GuestProcess{ID: process, Exited: true, Stdout: make([]byte, size)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-l.done
		return l.process
	}
	asks := func(what string, want int, f func()) {
		t.Helper()
		asked = 0
		if f(); asked != want {
			t.Errorf("%s: the agent is asked %d times; want %d", what, asked, want)
		}
	}
	asks("twice", 1, func() {
		look("a", 1, 3)
		if p := look("a", 1, 9); len(p.Stdout) != 3 {
			t.Errorf("the kept one has %d bytes", len(p.Stdout))
		}
	})
	asks("another domain", 1, func() { look("b", 1, 3) })
	asks("a reused number", 1, func() {
		r.forget(effects.GuestProcess{ID: "a", Process: 1})
		look("a", 1, 3)
	})
	asks("later", 2, func() {
		now = now.Add(resultTime + time.Second)
		look("a", 1, 3)
		look("b", 1, 3)
	})
	asks("a domain with much", 4, func() {
		for i := range 3 {
			look("a", int64(10+i), 7*seedbed.MiB)
		}
		look("b", 1, 3) // which is older
		look("a", 12, 0)
		look("a", 10, 7*seedbed.MiB)
	})
	for i := range 12 {
		look(string(rune('c'+i)), 1, 7*seedbed.MiB)
	}
	size := seedbed.Bytes(0)
	for _, k := range r.kept {
		size += k.size()
	}
	if size > resultsMost || size < resultsMost/2 {
		t.Errorf("%s are kept of many domains", size)
	}
}

// TestResultsUnderWay asks once for all who want to know, and not too often at a time.
func TestResultsUnderWay(t *testing.T) {
	t.Parallel()
	r := newResults(time.Now)
	answer := make(chan struct{})
	asking := func(process int64) (*look, error) {
		return r.look(effects.GuestProcess{ID: "a", Process: process}, func() (seedbed.GuestProcess, error) {
			<-answer
			return seedbed.GuestProcess{}, nil
		})
	}
	var last *look
	for i := range maxLooks {
		var err error
		if last, err = asking(int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := asking(maxLooks); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("one more: %v", err)
	}
	if l, err := asking(maxLooks - 1); err != nil || l != last {
		t.Errorf("the same one: %v, %v; want %v", l, err, last)
	}
	close(answer)
	<-last.done
}
