package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// patience is the time limit of one exchange with a child. The start of a sandbox takes a few
// hundredths of a second.
const patience = 20 * time.Second

// Sandbox is a running sandbox. Its methods are safe for concurrent use.
type Sandbox struct {
	host  *Host
	spec  Spec
	group *group
	out   *output

	// The two processes, and the sockets to them; the launcher's is only for the start.
	warden, launcher *os.Process
	control, sync    *net.UnixConn

	// turn is held during one request to the warden. answers receives its answers.
	turn    sync.Mutex
	answers chan message
	devices map[string]device // by path; under turn

	// stop is closed once, to end the program. why is then the limit that was exceeded.
	stop     chan struct{}
	stopOnce sync.Once
	why      string

	heard  chan struct{} // the warden has said its last
	exited chan struct{} // the program and all that it started are gone
	err    error         // what Wait returns, once exited is closed

	closing sync.Mutex
	closed  bool
}

// device is a block device of the host by its numbers and its path there.
type device struct {
	major, minor uint32
	host         string
}

// Start makes a sandbox and runs the program in it. ctx only bounds the start.
// It returns ErrInvalid for an invalid spec, ErrExists while a sandbox of that ID exists, and other
// errors if the kernel refuses something.
func (h *Host) Start(ctx context.Context, spec Spec) (*Sandbox, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	spec.Limits = spec.Limits.orDefaults()
	base, err := h.take(spec.ID)
	if err != nil {
		return nil, err
	}
	if spec.Privileged {
		base = 0
	}
	s := &Sandbox{
		host: h, spec: spec,
		answers: make(chan message, 1), devices: map[string]device{},
		stop: make(chan struct{}), heard: make(chan struct{}), exited: make(chan struct{}),
	}
	if err := s.start(ctx, base); err != nil {
		if s.launcher != nil {
			_ = s.launcher.Kill()
			_, _ = s.launcher.Wait()
		}
		s.kill()
		close(s.exited)
		if cerr := s.Close(context.WithoutCancel(ctx)); cerr != nil {
			h.cfg.Log.Warn("cannot clear a sandbox that did not start", "sandbox", spec.ID, "err", cerr)
		}
		return nil, fmt.Errorf("start sandbox %s: %w", spec.ID, err)
	}
	go s.listen()
	go s.run()
	return s, nil
}

func (s *Sandbox) start(ctx context.Context, base uint32) (err error) {
	s.out = newOutput(s.spec)
	where, err := s.host.places()
	if err != nil {
		return err
	}
	if err := s.host.record(s.spec.ID, record{Groups: newDirs(where, s.spec.ID)}); err != nil {
		return err // before the first of them is made
	}
	if s.group, err = newGroup(where, s.spec.ID, s.spec.Limits, s.spec.Privileged, s.out.note); err != nil {
		return err
	}
	dir := filepath.Join(s.host.cfg.Dir, s.spec.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	if s.control, s.sync, err = s.children(base, dir); err != nil {
		return err
	}
	defer s.sync.Close()
	s.out.read()
	if err := s.host.record(s.spec.ID, newRecord(s.warden.Pid, s.group.dirs)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	expire := context.AfterFunc(ctx, func() {
		_ = s.control.SetReadDeadline(time.Unix(1, 0))
		_ = s.sync.SetReadDeadline(time.Unix(1, 0))
	})
	err = s.handshake()
	if !expire() {
		return errors.Join(err, ctx.Err())
	}
	return err
}

// children starts the two processes and returns the sockets to them. s has the started ones, even if
// children fails.
func (s *Sandbox) children(base uint32, dir string) (control, sync *net.UnixConn, err error) {
	var files closers
	defer files.close() // so that the children's ends close with the children
	defer func() {
		if err != nil && control != nil {
			control.Close()
		}
		if err != nil && sync != nil {
			sync.Close()
		}
	}()
	stdout, stderr, err := s.out.pipes(base)
	if err != nil {
		return nil, nil, err
	}
	files.add(stdout, stderr)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	files.add(null)
	p, l := s.plans(base, dir)
	planFile, err := memory(p)
	if err != nil {
		return nil, nil, err
	}
	files.add(planFile)
	launchFile, err := memory(l)
	if err != nil {
		return nil, nil, err
	}
	files.add(launchFile)
	control, wardenEnd, err := pair()
	if err != nil {
		return nil, nil, err
	}
	files.add(wardenEnd)
	sync, launcherEnd, err := pair()
	if err != nil {
		return control, nil, err
	}
	files.add(launcherEnd)

	// Output of the warden itself, such as a panic, goes to the worker's output.
	wardenFiles := []*os.File{null, null, os.Stderr, wardenEnd, planFile}
	launcherFiles := []*os.File{null, stdout, stderr, launcherEnd, launchFile}
	if s.spec.Channel != nil {
		launcherFiles = append(launcherFiles, s.spec.Channel)
	}
	both, err := spawn(p, l, wardenFiles, launcherFiles)
	for pid, process := range map[int]**os.Process{both.warden: &s.warden, both.launcher: &s.launcher} {
		if pid > 0 {
			var ferr error
			*process, ferr = os.FindProcess(pid)
			err = errors.Join(err, ferr)
		}
	}
	if errors.Is(err, unix.ENOMEM) && s.warden != nil {
		// The kernel returns this if process 1 of the namespace has ended. It has reported why.
		_ = control.SetReadDeadline(time.Now().Add(patience))
		_, why := s.expect(control, opReady, "build its root")
		err = errors.Join(why, err)
	}
	return control, sync, err
}

// plans returns the plans for the two processes.
func (s *Sandbox) plans(base uint32, dir string) (plan, launch) {
	spec, cfg := s.spec, s.host.cfg
	p := plan{
		ID: spec.ID, Base: base, Dir: dir, Show: cfg.Show, Hide: cfg.Hide, Files: spec.Files, Tmp: int64(spec.Limits.Tmp),
		Network: spec.Network, Privileged: spec.Privileged, NoDevices: !spec.Privileged && !s.group.holds("devices"),
	}
	l := launch{Argv: spec.Argv, Env: spec.Env, Channel: spec.Channel != nil, Privileged: spec.Privileged}
	if !s.group.holds("pids") {
		l.Processes = spec.Limits.Processes
	}
	if !s.group.holds("memory") {
		l.Memory = int64(spec.Limits.Memory)
	}
	return p, l
}

// handshake coordinates the two processes. The warden builds the root. The launcher is put under its
// limits, gives the listener of its filter to the warden, and executes the program.
func (s *Sandbox) handshake() error {
	sync, launcher := s.sync, s.launcher.Pid
	if err := s.group.join(launcher); err != nil {
		return err
	}
	// If memory is short, the kernel should end a script rather than a service of the host. The
	// script cannot lower a value that the host's root has set (0 to 1000).
	_ = set(fmt.Sprintf("/proc/%d/oom_score_adj", launcher), "500")
	_, err := s.expect(sync, opHello, "start")
	if errors.Is(err, io.EOF) { // it ends with the warden, which says why it ended
		_, err = s.expect(s.control, opReady, "build its root")
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return err
	}
	unheard := tell(s.control, message{Op: opGo})
	root, err := s.expect(s.control, opReady, "build its root") // or why it is gone
	if err = errors.Join(err, unheard); err != nil {
		return err
	}
	if err := tell(sync, message{Op: opGo, Dev: root.Dev, Ino: root.Ino}); err != nil {
		return fmt.Errorf("write to the launcher: %w", err)
	}
	m, fds, err := hear(sync)
	defer func(fds []int) { closeAll(fds) }(fds)
	if err = refusal(m, err, opReady, "put on its limits"); err != nil {
		return err
	}
	if !s.spec.Privileged {
		if len(fds) != 1 {
			return fmt.Errorf("the launcher sent %d descriptors, expected the filter's listener", len(fds))
		}
		users, err := unix.Open(fmt.Sprintf("/proc/%d/ns/user", launcher), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open the user namespace: %w", err)
		}
		defer unix.Close(users)
		if err := tell(s.control, message{Op: opListener}, fds[0], users); err != nil {
			return fmt.Errorf("write to the warden: %w", err)
		}
		if _, err := s.expect(s.control, opAnswer, "take the filter's listener"); err != nil {
			return err
		}
	}
	if err := tell(sync, message{Op: opGo}); err != nil {
		return fmt.Errorf("write to the launcher: %w", err)
	}
	// The launcher's end is closed when the program replaces it.
	m, fds, err = hear(sync)
	closeAll(fds)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("execute %s: %w", s.spec.Argv[0], err)
	case err == nil:
		return seedbed.Errorf(seedbed.ErrInvalid, "execute %s: %s", s.spec.Argv[0], m.Text)
	}
	return nil
}

// expect reads the next message of the warden that is not a note. It must be op.
func (s *Sandbox) expect(c *net.UnixConn, op, doing string) (message, error) {
	for {
		m, fds, err := hear(c)
		closeAll(fds)
		if err == nil && m.Op == opNote {
			s.out.note(m.Text)
			continue
		}
		return m, refusal(m, err, op, doing)
	}
}

func refusal(m message, err error, op, doing string) error {
	switch {
	case err != nil:
		return fmt.Errorf("the sandbox did not %s: %w", doing, err)
	case m.Op == opFailed:
		return fmt.Errorf("the sandbox did not %s: %s", doing, m.Text)
	case m.Op != op:
		return fmt.Errorf("the sandbox said %q, expected %q", m.Op, op)
	case m.Text != "":
		return seedbed.KindError(m.Kind, m.Text)
	}
	return nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// closers are files that are closed together, once.
type closers []*os.File

func (c *closers) add(f ...*os.File) { *c = append(*c, f...) }

func (c *closers) close() {
	for _, f := range *c {
		f.Close()
	}
	*c = nil
}
