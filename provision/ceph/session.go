//go:build ceph

package ceph

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/ceph/go-ceph/rados"

	"seedbed"
)

// session is one connection to the cluster, with our pool open. librados reconnects by itself when
// monitors or OSDs come and go. Only a blocklisted client needs a new session.
type session struct {
	conn     *rados.Conn
	io       *rados.IOContext
	monitors string // as parseMonitors returns them

	users int  // under link.mu
	bad   bool // under link.mu: to be closed by the last user
}

func (s *session) close() {
	s.io.Destroy()
	s.conn.Shutdown()
}

// connect opens a session. It does not take a context, and may block for a few times cfg.Timeout.
func connect(cfg Config) (_ *session, err error) {
	conn, err := rados.NewConnWithUser(cfg.User)
	if err != nil {
		return nil, err
	}
	if err := conn.ReadConfigFile(cfg.ConfFile); err != nil {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "Ceph's configuration %s of pool %s cannot be read: %v: copy it from a monitor's host",
			cfg.ConfFile, cfg.Name, err)
	}
	seconds := strconv.Itoa(cfg.seconds())
	for _, o := range [][2]string{
		{"keyring", cfg.Keyring}, {"client_mount_timeout", seconds},
		{"rados_mon_op_timeout", seconds}, {"rados_osd_op_timeout", seconds},
		// Text on standard error would not have the form of our log, and errors are reported by us.
		{"log_to_stderr", "false"}, {"err_to_stderr", "false"},
	} {
		if err := conn.SetConfigOption(o[0], o[1]); err != nil {
			return nil, fmt.Errorf("set Ceph's option %s: %w", o[0], err)
		}
	}
	if err := conn.Connect(); err != nil {
		return nil, fmt.Errorf("connect as client.%s with %s: %w", cfg.User, cfg.ConfFile, err)
	}
	io, err := conn.OpenIOContext(cfg.Pool)
	if err != nil {
		conn.Shutdown()
		if is(err, enoent) {
			return nil, seedbed.Errorf(seedbed.ErrUnavailable,
				"Ceph pool %q, which pool %s uses, does not exist: make it with ceph osd pool create %s && rbd pool init %s", cfg.Pool, cfg.Name,
				cfg.Pool, cfg.Pool)
		}
		return nil, fmt.Errorf("open Ceph pool %s: %w", cfg.Pool, err)
	}
	s := &session{conn: conn, io: io}
	// Without this, librados holds back every change while the pool is marked as full, also one that
	// makes room. With it, what makes room works, and what needs room gets EDQUOT or ENOSPC at once.
	if err := io.SetPoolFullTry(); err != nil {
		s.close()
		return nil, fmt.Errorf("set full-try for Ceph pool %s: %w", cfg.Pool, err)
	}
	if s.monitors, err = s.askMonitors(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *session) askMonitors() (string, error) {
	answer, _, err := s.conn.MonCommand([]byte(`{"prefix":"mon dump","format":"json"}`))
	if err != nil {
		return "", fmt.Errorf("ask for the monitors: %w", err)
	}
	return parseMonitors(answer)
}

// link keeps the session that all calls share.
type link struct {
	cfg Config

	mu     sync.Mutex
	cur    *session
	trying chan struct{} // closed at the end of the current attempt
	err    error         // of the last attempt
}

// get returns the session, and opens it if there is none. Callers that come while it is being
// opened share the outcome. The caller returns the session with put.
func (l *link) get(ctx context.Context) (*session, error) {
	l.mu.Lock()
	if l.cur == nil && l.trying == nil {
		l.trying = make(chan struct{})
		l.mu.Unlock()
		s, err := connect(l.cfg)
		l.mu.Lock()
		l.cur, l.err = s, err
		close(l.trying)
		l.trying = nil
	} else if trying := l.trying; trying != nil {
		l.mu.Unlock()
		select {
		case <-trying:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	if l.cur == nil {
		if l.err == nil { // opened, and blocklisted again in the meantime
			return nil, seedbed.Errorf(seedbed.ErrUnavailable, "the connection to Ceph was lost")
		}
		return nil, l.err
	}
	l.cur.users++
	return l.cur, nil
}

// put returns a session; a broken one is not handed out again.
func (l *link) put(s *session, broken bool) {
	l.mu.Lock()
	s.users--
	s.bad = s.bad || broken
	if s.bad && l.cur == s {
		l.cur, l.err = nil, nil
	}
	last := s.bad && s.users == 0
	l.mu.Unlock()
	if last {
		s.close()
	}
}

// close closes the session. No call may be running.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cur != nil {
		l.cur.close()
		l.cur = nil
	}
}

// setMonitors records the current monitors.
func (l *link) setMonitors(s *session, monitors string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.monitors = monitors
}

func (l *link) monitors(s *session) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.monitors
}
