package sandbox

import (
	"fmt"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// broker answers the calls that the filter hands over, one at a time, so that no other call changes
// what it has checked.
type broker struct {
	*warden
	listener int
}

// notif and response are struct seccomp_notif and seccomp_notif_resp (linux/seccomp.h).
type notif struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	pointer    uint64
	args       [6]uint64
}

type response struct {
	id    uint64
	value int64
	error int32
	flags uint32
}

// noSetuidFixup is SECBIT_NO_SETUID_FIXUP (linux/securebits.h).
const noSetuidFixup = 1 << 2

// start begins to answer on its own thread, because its working directory and its file system user
// change.
func (b *broker) start() error {
	if err := b.detachDir.open(); err != nil {
		return err
	}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			// With this, a change of the file system user does not remove capabilities
			// (capabilities(7)).
			err = unix.Prctl(unix.PR_SET_SECUREBITS, noSetuidFixup, 0, 0, 0)
		}
		ready <- err
		if err == nil {
			b.serve()
		}
	}()
	if err := <-ready; err != nil {
		return fmt.Errorf("prepare the broker: %w", err)
	}
	return nil
}

func (b *broker) serve() {
	for {
		fds := []unix.PollFd{{Fd: int32(b.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err == nil && fds[0].Revents&unix.POLLHUP != 0 {
			return // no process with the filter exists any longer
		}
		var n notif
		if e := ioctl(b.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); e != 0 {
			if e == unix.EINTR || e == unix.ENOENT { // ENOENT: the caller is gone
				continue
			}
			b.note("the broker ended: %v; calls of mount and mknod are not answered from now on", e)
			return
		}
		r := response{id: n.id}
		if err := b.answer(&n); err != nil {
			r.error = -int32(errnoOf(err))
		}
		_ = ioctl(b.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
	}
}

func ioctl(fd int, request uintptr, p unsafe.Pointer) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p))
	return e
}

// valid reports whether the caller still waits. If so, what was opened under its PID belongs to it
// and not to a later process.
func (b *broker) valid(n *notif) bool {
	return ioctl(b.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)) == 0
}

// denied is an answer with its reason, for the log.
type denied struct {
	errno unix.Errno
	why   string
}

func (d *denied) Error() string { return d.why }
func (d *denied) Unwrap() error { return d.errno }

// deny returns a refusal with EPERM.
func deny(format string, args ...any) error {
	return &denied{unix.EPERM, fmt.Sprintf(format, args...)}
}

// answer does what the call asks for. Refusals by policy are logged; ordinary failures only return
// their errno.
func (b *broker) answer(n *notif) error {
	c, err := b.caller(n)
	if err != nil {
		return err
	}
	defer c.close()
	if !c.root {
		return unix.EPERM // as the kernel would
	}
	what := ""
	switch int(n.number) {
	case unix.SYS_MOUNT:
		what, err = b.mount(c, n.args)
	case unix.SYS_UMOUNT2:
		what, err = b.umount(c, n.args)
	case unix.SYS_IOCTL:
		what, err = b.flush(c, int32(n.args[0]))
	default:
		what, err = b.mknod(c, n)
	}
	if d, ok := err.(*denied); ok {
		b.note("%s refused: %s", what, d.why)
	}
	return err
}

// flush answers BLKFLSBUF on one of the job's devices, through a descriptor of the broker's own:
// the flush affects the device and not the descriptor.
func (b *broker) flush(c *caller, fd int32) (what string, err error) {
	what = "flush of a device"
	var st unix.Stat_t
	if err := unix.Fstatat(c.proc, "fd/"+strconv.Itoa(int(fd)), &st, 0); err != nil {
		return what, unix.EBADF
	}
	path, ok := b.device(&st)
	if !ok {
		return what, unix.EACCES
	}
	own, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return what, err
	}
	defer unix.Close(own)
	if e := ioctl(own, unix.BLKFLSBUF, nil); e != 0 {
		return what, e
	}
	return what, nil
}

// device returns the path of the job's block device that st describes.
func (b *broker) device(st *unix.Stat_t) (path string, ok bool) {
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	path, ok = b.devices[st.Rdev]
	return path, ok
}

// claim is like device for a device that is to be mounted: it cannot be removed before yield.
func (b *broker) claim(st *unix.Stat_t) (path string, ok bool) {
	path, ok = b.device(st)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.devices[st.Rdev] != path {
		return "", false
	}
	b.mounting = path
	return path, ok
}

func (b *broker) yield() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mounting = ""
}
