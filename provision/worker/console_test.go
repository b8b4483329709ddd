package worker

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
)

// oneTerminal is a hypervisor with one console, which only one can open, and which takes a second to close.
type oneTerminal struct {
	Hypervisor
	slow   int // how many openings never end
	opened bool
}

type oneStream struct {
	of     *oneTerminal
	closed chan struct{}
}

func (h *oneTerminal) OpenConsole(ctx context.Context, _ seedbed.InstanceID, _ bool) (io.ReadWriteCloser, error) {
	if h.slow > 0 {
		h.slow--
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if h.opened {
		return nil, seedbed.Errorf(seedbed.ErrInUse, "it is open")
	}
	h.opened = true
	return &oneStream{h, make(chan struct{})}, nil
}

func (s *oneStream) Read([]byte) (int, error) {
	<-s.closed
	return 0, io.ErrClosedPipe
}

func (s *oneStream) Write(b []byte) (int, error) { return len(b), nil }

func (s *oneStream) Close() error {
	close(s.closed)
	time.Sleep(time.Second)
	s.of.opened = false
	return nil
}

// TestConsoleIsOpenedAgain has a session begin while the console of the last one is being closed.
func TestConsoleIsOpenedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cs, ask := newConsoles(&oneTerminal{}), seedbed.ConsoleSession{ID: seedbed.NewInstanceID()}
		t1, s1, err := cs.join(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		go cs.leave(t1, s1)
		synctest.Wait()
		t2, s2, err := cs.join(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		cs.leave(t2, s2)
		cs.pumps.Wait()
		if len(cs.open) != 0 {
			t.Errorf("%d consoles are open", len(cs.open))
		}
	})
}

// TestOpenerLeaves has a session wait for a console that another session opens, which leaves before it is open.
func TestOpenerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cs, ask := newConsoles(&oneTerminal{slow: 1}), seedbed.ConsoleSession{ID: seedbed.NewInstanceID()}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		left := make(chan error, 1)
		go func() {
			_, _, err := cs.join(short, ask)
			left <- err
		}()
		synctest.Wait()
		t2, s2, err := cs.join(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who left: %v", err)
		}
		cs.leave(t2, s2)
		cs.pumps.Wait()
	})
}
