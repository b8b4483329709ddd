package script

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/provision/script/python"
	"seedbed/provision/script/sandbox"
)

// target is where function scripts find the file systems of their instance.
const target = "/tmp/target"

// scriptFile is the script's name among the files of its sandbox.
const scriptFile = "script.py"

// session is one running script. Its turns come one at a time.
type session struct {
	call    seedbed.Call
	start   seedbed.ScriptStart
	mappers map[string]Mapper
	box     Box
	conn    net.Conn
	heard   chan heard
	stop    chan struct{} // closed with the session
	lines   *lines
	// awaits is the ID of the call whose answer the script waits for; 0 for none.
	awaits int64
	// wants is the image that the script is to be shown with that answer; otherwise zero.
	wants volume
	// closing belongs to the driver.
	closing bool

	ending sync.Mutex // held while the session is taken back
	closed bool
	mu     sync.Mutex // guards the rest
	idle   *time.Timer
	mapped map[string]volume // by the path of the device inside
	// hidden are those of them that the script no longer sees, and that could not be unmapped.
	hidden map[string]bool
	// logged is how much the script may still log.
	logged seedbed.Bytes
}

// volume is a volume that a script has mapped.
type volume struct{ pool, name string }

// open starts the sandbox of a session.
func (d *Driver) open(
	ctx context.Context,
	call seedbed.Call,
	start seedbed.ScriptStart,
	output func(seedbed.OutputLine),
) (*session, error) {
	if start.Options.Privileged && !d.cfg.Privileged {
		return nil, seedbed.Errorf(seedbed.ErrForbidden, "the script is privileged, and node %[1]s runs no privileged scripts: "+
			"set scripts.privileged: true in seedbed.yaml on %[1]s and restart seedbed-worker there, "+
			"or run \"seedbed script options SCRIPT --privileged=false\"", d.cfg.Node)
	}
	conn, theirs, err := channel()
	if err != nil {
		return nil, fmt.Errorf("start the script: %w", err)
	}
	defer theirs.Close()
	s := &session{call: call, start: start, mappers: d.cfg.Mappers, conn: conn, heard: make(chan heard), stop: make(chan struct{}),
		lines: newLines(), mapped: map[string]volume{}, hidden: map[string]bool{}}
	files := python.Files()
	files[scriptFile] = []byte(start.Text)
	s.lines.attach(output)
	defer s.lines.detach()
	limits := d.limits(start.Options)
	s.logged = cmp.Or(limits.Output, math.MaxInt64)
	s.box, err = d.cfg.Start(ctx, sandbox.Spec{
		ID: string(call.Job), Argv: python.Argv(d.cfg.Python), Env: python.Env(), Files: files, Channel: theirs, Output: s.lines.add,
		Limits: limits, Network: start.Options.Network, Privileged: start.Options.Privileged,
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the script: %w", err)
	}
	go listen(conn, s.heard, s.stop)
	return s, nil
}

// limits returns the script's limits, which are at most the host's.
func (d *Driver) limits(o seedbed.ScriptOptions) sandbox.Limits {
	l := d.cfg.Limits
	if o.Time > 0 && (l.Time == 0 || o.Time < l.Time) {
		l.Time = o.Time
	}
	if o.Memory > 0 && (l.Memory == 0 || o.Memory < l.Memory) {
		l.Memory = o.Memory
	}
	return l
}

// channel makes a channel between this process and the runner, and returns both ends.
func channel() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "script"), os.NewFile(uintptr(fds[1]), "runner")
	conn, err := net.FileConn(ours) // a copy
	if err = errors.Join(err, ours.Close()); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

func (s *session) begin() message {
	return message{
		Op: "begin", Script: path.Join(python.Dir, scriptFile), Name: s.start.Name, Number: cmp.Or(s.start.Number,
			"0"), UUID: string(s.start.Instance),
		Profile: s.start.Profile, Data: s.start.Data, Directory: target,
	}
}

// rest ends the session if its next turn does not come in time.
func (s *session) rest(end func(), after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = time.AfterFunc(after, end)
}

// wake stops that timer.
func (s *session) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		s.idle.Stop()
	}
}

// close removes everything: first what runs and is mounted in the sandbox, and then the mappings,
// which it kept in use.
func (s *session) close(ctx context.Context) error {
	s.wake()
	s.ending.Lock()
	defer s.ending.Unlock()
	if !s.closed {
		close(s.stop)
		s.closed = true
	}
	s.conn.Close() // the runner ends by itself if it can; an error changes nothing
	if err := s.box.Close(ctx); err != nil {
		return fmt.Errorf("end the script's sandbox: %w", err)
	}
	s.mu.Lock()
	mapped := s.mapped
	s.mapped = map[string]volume{}
	s.mu.Unlock()
	var errs []error
	for device, v := range mapped {
		if err := s.mappers[v.pool].UnmapVolume(ctx, v.name, s.start.Instance); err != nil && !errors.Is(err, seedbed.ErrNotFound) {
			errs = append(errs, fmt.Errorf("unmap volume %s of pool %s: %w", v.name, v.pool, err))
			s.mu.Lock()
			s.mapped[device] = v
			s.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}
