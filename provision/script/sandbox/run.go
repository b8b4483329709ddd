package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// The limits that ExitError names.
const (
	LimitTime      = "time"
	LimitMemory    = "memory"
	LimitProcesses = "processes"
)

// ExitError says how a program failed.
type ExitError struct {
	// Code is its exit status, or -1 if a signal ended it.
	Code int
	// Signal is the signal that ended it, or 0.
	Signal syscall.Signal
	// Limit is the limit that it exceeded, one of the Limit constants, or empty.
	Limit string
	// Closed is true if Close ended it.
	Closed bool
	msg    string
}

// Error returns what ended the program.
func (e *ExitError) Error() string { return e.msg }

// Wait waits until the program and all processes that it started have ended. It returns nil after
// exit status 0, and an *ExitError otherwise. It may be called again.
func (s *Sandbox) Wait() error {
	<-s.exited
	return s.err
}

// Drain passes everything that the program has printed so far to Spec.Output before it returns.
// With rest, that includes the beginning of an unfinished line, which becomes a line of its own.
func (s *Sandbox) Drain(rest bool) { s.out.drain(rest) }

// run waits for the end of the program, or ends it, and then ends all other processes.
func (s *Sandbox) run() {
	defer close(s.exited)
	ended := make(chan *os.ProcessState, 1)
	go func() {
		st, err := s.launcher.Wait()
		if err != nil {
			s.host.cfg.Log.Error("cannot wait for a script", "sandbox", s.spec.ID, "err", err)
		}
		ended <- st
	}()
	limit := time.NewTimer(s.spec.Limits.Time)
	defer limit.Stop()
	var st *os.ProcessState
	select {
	case st = <-ended:
	case <-limit.C:
		s.end(LimitTime)
	case <-s.stop:
	}
	s.kill()
	if st == nil {
		st = <-ended
	}
	s.out.finish()
	<-s.heard
	s.err = s.verdict(st)
}

// end asks run to end the program, because of a limit or "" for Close.
func (s *Sandbox) end(why string) {
	s.stopOnce.Do(func() { s.why = why; close(s.stop) })
}

// kill ends the warden. It is process 1, so the kernel ends all others with it before its own end
// can be waited for, and the mounts go with the last of them. The launcher must be waited for
// elsewhere: its parent is not in there.
func (s *Sandbox) kill() {
	if s.warden == nil {
		return
	}
	_ = s.warden.Kill()
	_, _ = s.warden.Wait()
}

func (s *Sandbox) verdict(st *os.ProcessState) error {
	stopped := false
	select {
	case <-s.stop:
		stopped = true
	default:
	}
	if st == nil {
		return &ExitError{Code: -1, msg: "the script's end was not seen"}
	}
	if st.Success() && !stopped {
		return nil
	}
	ws := st.Sys().(syscall.WaitStatus)
	e := &ExitError{Code: st.ExitCode()}
	if ws.Signaled() {
		e.Signal = ws.Signal()
	}
	l := s.spec.Limits
	switch {
	case stopped && s.why == LimitTime:
		e.Limit = LimitTime
		e.msg = fmt.Sprintf("the script was ended: it ran for more than %s, its time limit", l.Time)
	case stopped:
		e.Closed = true
		e.msg = "the script was ended because its sandbox was closed"
	case s.group.outOfMemory():
		e.Limit = LimitMemory
		e.msg = fmt.Sprintf("the script ended (%s) after it needed more than %s of memory, its limit", describe(st), l.Memory)
	case s.group.outOfProcesses():
		e.Limit = LimitProcesses
		e.msg = fmt.Sprintf("the script ended (%s) after it wanted more than %d processes at once, its limit", describe(st), l.Processes)
	default:
		e.msg = fmt.Sprintf("the script ended: %s", describe(st))
	}
	return e
}

func describe(st *os.ProcessState) string {
	ws := st.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return "killed by signal " + unix.SignalName(ws.Signal())
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}

// listen reads the messages of the warden until it is gone.
func (s *Sandbox) listen() {
	defer close(s.heard)
	defer close(s.answers)
	for {
		m, fds, err := hear(s.control)
		closeAll(fds)
		if err != nil {
			return
		}
		switch m.Op {
		case opNote:
			s.out.note(m.Text)
		case opAnswer:
			select {
			case s.answers <- m:
			case <-s.stop: // no caller may be waiting for it
			}
		}
	}
}

// ask sends the warden a request and waits for the answer.
func (s *Sandbox) ask(m message) error {
	if err := tell(s.control, m); err != nil {
		return s.gone()
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case a, ok := <-s.answers:
		if !ok {
			return s.gone()
		}
		if a.Text != "" {
			return seedbed.KindError(a.Kind, a.Text)
		}
		return nil
	case <-wait.C:
		s.end("") // answers would no longer be those of their requests
		return seedbed.Errorf(seedbed.ErrUnavailable, "sandbox %s did not answer in %s and was ended", s.spec.ID, patience)
	}
}

func (s *Sandbox) gone() error {
	return seedbed.Errorf(seedbed.ErrUnavailable, "sandbox %s has ended", s.spec.ID)
}

// AddDevice makes the host's block device visible as path, such as /dev/rbd/<pool>/<volume>, and
// lets the program use and mount it. It does nothing if path already is that device. It returns
// ErrConflict if path is another device, or if the device has another path.
func (s *Sandbox) AddDevice(path, host string) error {
	if !goodDevice(path) {
		return seedbed.Errorf(seedbed.ErrInvalid, "device path %q: expected a clean path below /dev/, such as /dev/rbd/pool/volume", path)
	}
	var st unix.Stat_t
	if err := unix.Stat(host, &st); err != nil {
		return fmt.Errorf("look at device %s: %w", host, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return seedbed.Errorf(seedbed.ErrInvalid, "%s is not a block device", host)
	}
	d := device{unix.Major(st.Rdev), unix.Minor(st.Rdev), host}
	s.turn.Lock()
	defer s.turn.Unlock()
	if old, ok := s.devices[path]; ok {
		if old.major == d.major && old.minor == d.minor {
			return nil
		}
		return seedbed.Errorf(seedbed.ErrConflict, "sandbox %s shows another device as %s: remove it first", s.spec.ID, path)
	}
	for other, o := range s.devices {
		if o.major == d.major && o.minor == d.minor {
			return seedbed.Errorf(seedbed.ErrConflict, "sandbox %s shows %s already, as %s", s.spec.ID, host, other)
		}
	}
	if err := s.group.allow(d); err != nil {
		return err
	}
	if err := s.ask(message{Op: opDevice, Path: path, Major: d.major, Minor: d.minor}); err != nil {
		return errors.Join(err, s.group.forbid(d))
	}
	s.devices[path] = d
	return nil
}

// RemoveDevice removes the device at path. It returns ErrInUse while the device is mounted or held
// exclusively, and does nothing if path does not exist.
func (s *Sandbox) RemoveDevice(path string) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	d, ok := s.devices[path]
	if !ok {
		return nil
	}
	if busy(d.host) {
		return seedbed.Errorf(seedbed.ErrInUse, "device %s is still mounted or held: unmount it first", path)
	}
	if err := s.ask(message{Op: opRemove, Path: path}); err != nil {
		return err
	}
	if busy(d.host) { // mounted since
		return errors.Join(seedbed.Errorf(seedbed.ErrInUse, "device %s is mounted: unmount it first", path),
			s.ask(message{Op: opDevice, Path: path, Major: d.major, Minor: d.minor}))
	}
	delete(s.devices, path)
	return s.group.forbid(d)
}

// goodDevice reports whether path is a clean path below /dev/, shorter than 1024 bytes and without
// control characters.
func goodDevice(path string) bool {
	rest, ok := strings.CutPrefix(path, "/dev/")
	return ok && rest != "" && filepath.Clean(path) == path && filepath.IsLocal(rest) && len(path) < 1024 &&
		!strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// busy reports whether a mount or another exclusive user holds the block device.
func busy(host string) bool {
	fd, err := unix.Open(host, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == unix.EBUSY
}

// Close ends the program if it still runs, waits until nothing of the sandbox is left, mounts
// included, and releases its user ids and its cgroup. It may be called again, even after it failed.
func (s *Sandbox) Close(ctx context.Context) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return nil
	}
	s.end("")
	select {
	case <-s.exited:
	case <-ctx.Done():
		return fmt.Errorf("close sandbox %s: %w", s.spec.ID, ctx.Err())
	}
	s.kill()
	if s.control != nil {
		s.control.Close()
	}
	if s.out != nil {
		s.out.finish()
	}
	if err := s.released(ctx); err != nil {
		return err
	}
	if s.group != nil {
		if err := s.group.remove(ctx); err != nil {
			return err
		}
	}
	if err := s.host.forget(s.spec.ID); err != nil {
		return err
	}
	s.host.release(s.spec.ID)
	s.closed = true
	return nil
}

// released waits until the kernel has released the devices, since the last part of an unmount may
// outlive the process that held the mount.
func (s *Sandbox) released(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	for path, d := range s.devices {
		err := poll(ctx, func() bool { return !busy(d.host) })
		if err != nil {
			return seedbed.Errorf(seedbed.ErrInUse, "device %s of sandbox %s is still mounted or held", path, s.spec.ID)
		}
	}
	return nil
}

// poll asks until done, at first often; at most for patience.
func poll(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := time.Millisecond; !done(); wait = min(2*wait, 50*time.Millisecond) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	return nil
}
