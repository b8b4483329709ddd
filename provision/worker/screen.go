package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/provision/effects"
)

// unreadTime is how long the VNC server of a domain may leave what a session has sent unread.
const unreadTime = 10 * time.Second

// screens are the sessions at the screens of domains. Each has a connection of its own to the VNC server of its domain.
type screens struct {
	hypervisor Hypervisor
	mu         sync.Mutex
	open       map[seedbed.InstanceID]int // how many sessions there are
}

func newScreens(h Hypervisor) *screens {
	return &screens{hypervisor: h, open: map[seedbed.InstanceID]int{}}
}

// enter adds a session to a screen.
func (s *screens) enter(id seedbed.InstanceID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id] == maxSessions {
		return seedbed.Errorf(seedbed.ErrInUse, "the screen of domain %s has %d sessions, which is the most: end one of them", id, maxSessions)
	}
	s.open[id]++
	return nil
}

func (s *screens) leave(id seedbed.InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id]--; s.open[id] == 0 {
		delete(s.open, id)
	}
}

// talk serves one session.
func (s *screens) talk(ctx context.Context, a effects.DomainRef, c *duplex.Conn) error {
	if err := checkInstance(a.ID); err != nil {
		return err
	}
	if err := s.enter(a.ID); err != nil {
		return err
	}
	defer s.leave(a.ID)
	limited, cancel := context.WithTimeout(ctx, openTime)
	screen, err := s.hypervisor.OpenScreen(limited, a.ID)
	cancel()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { screen.Close() })
	defer stop()
	var sent sync.WaitGroup
	defer sent.Wait()
	defer c.Close()
	defer screen.Close()
	left := make(chan error, 1)
	sent.Go(func() {
		if err := feedScreen(screen, c); err != nil {
			left <- err
			screen.Close()
		}
	})
	_, err = io.Copy(c, screen)
	select {
	case err = <-left: // which has closed the screen
	default:
	}
	switch {
	case errors.Is(err, errLeft):
		return nil // there is no one to tell
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil || errors.Is(err, syscall.ECONNRESET): // it was killed before it has read all
		err = s.ended(ctx, a.ID)
	}
	c.End(seedbed.EndNote(err).JSON())
	return nil
}

// feedScreen passes to a screen what a session sends. It returns why the session ends, or nil if the screen has ended.
func feedScreen(screen net.Conn, c *duplex.Conn) error {
	for {
		m, err := c.Receive()
		if err != nil {
			return errLeft
		}
		if m.Text {
			continue
		}
		_ = screen.SetWriteDeadline(time.Now().Add(unreadTime)) // the write finds out
		if _, err := screen.Write(m.Data); errors.Is(err, os.ErrDeadlineExceeded) {
			return seedbed.Errorf(seedbed.ErrUnavailable, "the VNC server has not read what was sent within %s", unreadTime)
		} else if err != nil {
			return nil
		}
	}
}

// ended returns why the VNC server of a domain has ended a session.
func (s *screens) ended(ctx context.Context, id seedbed.InstanceID) error {
	limited, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	now, err := s.hypervisor.DomainState(limited, id)
	if err == nil && (now.State == seedbed.DomainRunning || now.State == seedbed.DomainPaused) {
		return seedbed.Errorf(seedbed.ErrConflict,
			"the VNC server has ended the session: another viewer asked to be the only one, or this one sent what is not VNC")
	}
	return seedbed.ErrConsoleEnded
}
