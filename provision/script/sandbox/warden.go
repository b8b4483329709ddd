package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"seedbed"
)

// warden is process 1 of a sandbox. It is the host's root, inside the sandbox's mount namespace but
// outside its user namespace, so that no process inside can affect it. It builds the root directory,
// carries out the system calls that the filter hands over, and reaps orphaned processes. It ends
// with the worker.
type warden struct {
	plan plan
	base uint32
	proc int // the sandbox's /proc, from before anything could be put over it
	dev  int // the writable view of the sandbox's /dev

	mu       sync.Mutex
	devices  map[uint64]string // what may be mounted: device number to path
	mounting string            // the one of these paths that the broker mounts just now
	users    int               // the sandbox's user namespace, for idmapped mounts
	// own are the mounts on which the script may mount and make nodes. The value is true if the file
	// system belongs to the script and is not a bind of the system's. made are those that the broker
	// made, which may be unmounted.
	own       map[uint64]bool
	made      map[uint64]*mounted
	detachDir detachDir
}

// ward is the main function of process 1.
func ward(p plan) error {
	go reap()
	w := &warden{plan: p, base: p.Base, users: -1, devices: map[uint64]string{}, own: map[uint64]bool{}, made: map[uint64]*mounted{}}
	if err := w.build(); err != nil {
		return err
	}
	// The change of the root affects every process and thread of the namespace that has the old
	// root. So it must not happen before the worker has left the namespace.
	if _, _, err := hearFD(controlFD); err != nil {
		return nil
	}
	if err := pivot(p.Dir); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat("/", &st); err != nil {
		return err
	}
	if err := tellFD(controlFD, message{Op: opReady, Dev: st.Dev, Ino: st.Ino}); err != nil {
		return err
	}
	for {
		m, fds, err := hearFD(controlFD)
		if err != nil {
			return nil // the worker is gone, or gives up: so does process 1, and all others with it
		}
		answer := message{Op: opAnswer}
		if err := w.do(m, fds); err != nil {
			answer.Text, answer.Kind = err.Error(), seedbed.KindName(err)
		}
		if err := tellFD(controlFD, answer); err != nil {
			return nil
		}
	}
}

func (w *warden) do(m message, fds []int) error {
	switch {
	case m.Op == opListener && len(fds) == 2:
		w.users = fds[1]
		broker := &broker{warden: w, listener: fds[0]}
		return broker.start()
	case m.Op == opDevice:
		return w.show(m)
	case m.Op == opRemove:
		return w.hide(m.Path)
	}
	return fmt.Errorf("unknown request %q", m.Op)
}

// show makes the device's node.
func (w *warden) show(m message) error {
	dir, name, err := w.devDir(m.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	number := unix.Mkdev(m.Major, m.Minor)
	if err := unix.Mknodat(dir, name, unix.S_IFBLK|0o660, int(number)); err != nil {
		return fmt.Errorf("make %s: %w", m.Path, err)
	}
	if err := unix.Fchownat(dir, name, int(w.base), int(w.base), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("give %s to the script: %w", m.Path, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.devices[number] = m.Path
	return nil
}

// hide removes the node.
func (w *warden) hide(path string) error {
	if err := w.withdraw(path); err != nil {
		return err
	}
	dir, name, err := w.devDir(path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Unlinkat(dir, name, 0); err != nil && err != unix.ENOENT {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// withdraw refuses further mounts of the device.
func (w *warden) withdraw(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mounting == path {
		return seedbed.Errorf(seedbed.ErrInUse, "device %s is being mounted: unmount it first", path)
	}
	for number, p := range w.devices {
		if p == path {
			delete(w.devices, number)
		}
	}
	return nil
}

// devDir opens the directory of a path below /dev, and makes it if it does not exist.
func (w *warden) devDir(path string) (dir int, name string, err error) {
	parts := strings.Split(strings.TrimPrefix(path, "/dev/"), "/")
	dir, err = unix.Dup(w.dev)
	if err != nil {
		return -1, "", err
	}
	for _, part := range parts[:len(parts)-1] {
		if err := unix.Mkdirat(dir, part, 0o755); err != nil && err != unix.EEXIST {
			unix.Close(dir)
			return -1, "", fmt.Errorf("make the directory of %s: %w", path, err)
		}
		next, err := unix.Openat(dir, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(dir)
		if err != nil {
			return -1, "", fmt.Errorf("open the directory of %s: %w", path, err)
		}
		dir = next
	}
	return dir, parts[len(parts)-1], nil
}

// note sends a line for the log.
func (w *warden) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	_ = tellFD(controlFD, message{Op: opNote, Text: text[:min(len(text), longest)]})
}

// reap waits for the orphaned processes that process 1 inherits.
func reap() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGCHLD)
	for range c {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
}
