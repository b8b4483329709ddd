package netnstest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Writes runs f in a thread of its own in the host's namespace, and asks refuse before each change that this thread makes to the
// network: a netlink message that is not only a question, or a sysctl. n counts them from 1, and what says which it is. A
// change that is refused fails with EIO, and reaches the kernel as little as one of a process that was killed before.
// Writes returns how many there were. f starts no processes.
func Writes(t testing.TB, refuse func(n int, what string) bool, f func()) (n int) {
	t.Helper()
	type listener struct {
		fd  int
		err error
	}
	began, done := make(chan listener), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the filter ends with the thread
		fd, err := filterWrites()
		began <- listener{fd, err}
		if err == nil {
			f()
		}
	}()
	l := <-began
	if l.err != nil {
		t.Fatalf("watch system calls: %v", l.err)
	}
	defer unix.Close(l.fd)
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for {
		select {
		case <-done:
			return n
		default:
		}
		fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 10); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatalf("wait for system calls: %v", err)
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			continue
		}
		var call notification
		if err := ioctl(l.fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&call)); err != nil {
			continue // it was interrupted, and comes again
		}
		reply := response{id: call.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if what := call.change(memory); what != "" {
			if n++; refuse(n, what) {
				reply.flags, reply.err = 0, -int32(unix.EIO)
			}
		}
		if err := ioctl(l.fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply)); err != nil && !errors.Is(err, unix.ENOENT) {
			t.Fatalf("answer a system call: %v", err)
		}
	}
}

// notification is struct seccomp_notif of linux/seccomp.h, and response struct seccomp_notif_resp.
type notification struct {
	id          uint64
	pid, flags  uint32
	number      int32
	arch        uint32
	instruction uint64
	args        [6]uint64
}

type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// filterWrites makes the kernel ask before each system call of this thread that may change the network, and returns where.
func filterWrites() (fd int, err error) {
	const number, openFlags = 0, 16 + 2*8 // places in struct seccomp_data, the latter of the lower half
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	is := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	program := []unix.SockFilter{
		load(number),
		is(unix.BPF_JEQ, unix.SYS_SENDMSG, 5, 0),
		is(unix.BPF_JEQ, unix.SYS_SENDTO, 4, 0),
		is(unix.BPF_JEQ, unix.SYS_OPENAT, 0, 2),
		load(openFlags),
		is(unix.BPF_JSET, unix.O_WRONLY|unix.O_RDWR, 1, 0),
		answer(unix.SECCOMP_RET_ALLOW),
		answer(unix.SECCOMP_RET_USER_NOTIF),
	}
	of := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		uintptr(unsafe.Pointer(&of)))
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

// change says which change to the network the call is; empty if it is none. memory is that of the process.
func (c notification) change(memory *os.File) string {
	read := func(at uint64, size int) []byte {
		b := make([]byte, size)
		n, _ := memory.ReadAt(b, int64(at))
		return b[:n]
	}
	pointer := func(at uint64) uint64 {
		b := read(at, 8)
		if len(b) < 8 {
			return 0
		}
		return binary.NativeEndian.Uint64(b)
	}
	at := c.args[1]
	switch c.number {
	case unix.SYS_OPENAT:
		path, _, _ := bytes.Cut(read(at, 256), []byte{0})
		if strings.HasPrefix(string(path), "/proc/sys/") {
			return string(path)
		}
		return ""
	case unix.SYS_SENDMSG:
		at = pointer(pointer(at + 16)) // the first buffer of struct msghdr
	}
	const header, typeAt = 16, 4
	message := read(at, header)
	if domain, err := unix.GetsockoptInt(int(c.args[0]), unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_NETLINK ||
		len(message) < header {
		return ""
	}
	typ := binary.NativeEndian.Uint16(message[typeAt:])
	const question = 2 // the third of each four types of rtnetlink
	switch protocol, err := unix.GetsockoptInt(int(c.args[0]), unix.SOL_SOCKET, unix.SO_PROTOCOL); {
	case err == nil && protocol == unix.NETLINK_ROUTE && typ%4 != question:
		return fmt.Sprintf("rtnetlink %d", typ)
	case err == nil && protocol == unix.NETLINK_NETFILTER && typ == unix.NFNL_MSG_BATCH_BEGIN:
		return "nftables"
	}
	return ""
}
