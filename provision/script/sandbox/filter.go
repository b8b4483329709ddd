package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The filter is a classic BPF program over struct seccomp_data (seccomp(2)): the system call's
// number, the architecture, and six arguments. It decides only on numbers and plain values, never
// on memory that another thread could change.
//
// Calls that it knows but does not name are allowed, because a script is any program of a
// distribution. Calls that are newer than the filter are answered as if they did not exist.

// lastCall is the highest system call number that was considered (removexattrat, Linux 6.13; the
// numbers from 424 on are the same on all architectures).
const lastCall = 466

// The answers.
const (
	retAllow  = unix.SECCOMP_RET_ALLOW
	retNotify = unix.SECCOMP_RET_USER_NOTIF
	retKill   = unix.SECCOMP_RET_KILL_PROCESS
	retPerm   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	retNoSys  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	retDone   = unix.SECCOMP_RET_ERRNO // with error 0: not executed, but answered as if it were
	retFamily = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
)

// Offsets in struct seccomp_data. Arguments are 64 bits; these processors are little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// brokered calls go to the warden with any arguments.
var brokered = []int{unix.SYS_MOUNT, unix.SYS_UMOUNT2}

// absent calls are answered as if the kernel did not have them, so that libraries fall back to
// calls that the broker understands (libmount to mount, glibc's fork to clone) or do without.
// Requests of io_setup are limited for the whole host, whose guests need them.
var absent = []int{
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_MOUNT_SETATTR, unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MEMFD_SECRET, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
	unix.SYS_IO_SETUP,
}

// refused calls are answered with EPERM. Most need a capability that root inside does not have over
// the host; the filter protects us from the kernel's bugs in them.
var refused = []int{
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_BPF, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_SETNS, unix.SYS_PIVOT_ROOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_MBIND, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_SET_MEMPOLICY,
	unix.SYS_SET_MEMPOLICY_HOME_NODE,
}

// noClone are the flags of clone that are refused: those of namespaces, and CLONE_PARENT. The first
// program's parent is the worker, which would not wait for a child made with CLONE_PARENT, and
// process 1 would not end before that child.
const noClone = newNamespaces | unix.CLONE_PARENT

// newNamespaces are the flags of clone and unshare that make a namespace (CLONE_NEWTIME only exists
// for unshare: in clone its bit is part of the signal).
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// personalities that only change what uname reports. Others, such as 32-bit names and addresses
// without randomization, help an attacker.
var personalities = []uint32{0, 8, 0x20000, 0x20008, 0xffffffff}

func ld(off uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
}

func ret(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func and(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: k}
}

func arg(n int) unix.SockFilter { return ld(uint32(offArgs + 8*n)) }

// filterCode compiles the filter for this processor.
func filterCode() []unix.SockFilter {
	code := []unix.SockFilter{
		ld(offArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		ret(retKill), // i386, 32-bit ARM
		ld(offNumber),
		jump(unix.BPF_JGT, lastCall, 0, 1), // also x32, which sets bit 30
		ret(retNoSys),
	}
	answer := func(calls []int, k uint32) {
		for _, nr := range calls {
			code = append(code, jump(unix.BPF_JEQ, uint32(nr), 0, 1), ret(k))
		}
	}
	// when runs body for one call; each path of body must end in an answer.
	when := func(nr int, body ...unix.SockFilter) {
		code = append(code, jump(unix.BPF_JEQ, uint32(nr), 0, uint8(len(body))))
		code = append(code, body...)
	}
	answer(brokered, retNotify)
	answer(absent, retNoSys)
	answer(refused, retPerm)
	answer(refusedHere, retPerm)

	when(unix.SYS_CLONE, arg(0), and(noClone), jump(unix.BPF_JEQ, 0, 1, 0), ret(retPerm), ret(retAllow))
	when(unix.SYS_UNSHARE, arg(0), and(newNamespaces|unix.CLONE_NEWTIME), jump(unix.BPF_JEQ, 0, 1, 0), ret(retPerm), ret(retAllow))
	for _, c := range nodeCalls {
		when(c.number, arg(c.mode), and(unix.S_IFMT),
			jump(unix.BPF_JEQ, unix.S_IFCHR, 1, 0), jump(unix.BPF_JEQ, unix.S_IFBLK, 0, 1), ret(retNotify), ret(retAllow))
	}
	when(unix.SYS_IOCTL, ioctlRules()...)
	when(unix.SYS_SOCKET, socketRules()...)
	when(unix.SYS_SOCKETPAIR, arg(0), jump(unix.BPF_JEQ, unix.AF_UNIX, 0, 1), ret(retAllow), ret(retFamily))
	when(unix.SYS_PERSONALITY, personalityRules()...)
	when(unix.SYS_SETRLIMIT, arg(0), jump(unix.BPF_JEQ, unix.RLIMIT_CORE, 0, 1), ret(retDone), ret(retAllow))
	when(unix.SYS_PRLIMIT64, coreRules()...)
	return append(code, ret(retAllow))
}

// ioctlRules refuse pushing input into a terminal, although no process here has one of the host's,
// and new line disciplines, which load modules. They refuse all calls that change a loop device:
// with write access a script could attach another file to it, or free its number for another job's
// volume. mkfs.xfs insists on two calls that the kernel leaves to the host's root on a block
// device: flushing, which the broker does, and setting the soft block size, which is answered as
// done because it only changes the granularity of the device's cache.
func ioctlRules() []unix.SockFilter {
	return []unix.SockFilter{
		arg(1),
		jump(unix.BPF_JEQ, unix.TIOCSTI, 7, 0),
		jump(unix.BPF_JEQ, unix.TIOCLINUX, 6, 0),
		jump(unix.BPF_JEQ, unix.TIOCSETD, 5, 0),
		jump(unix.BPF_JEQ, unix.BLKBSZSET, 5, 0),
		jump(unix.BPF_JEQ, unix.BLKFLSBUF, 5, 0),
		and(^uint32(0xff)),
		jump(unix.BPF_JEQ, unix.LOOP_SET_FD, 1, 0), // the first of them
		ret(retAllow),
		ret(retPerm),
		ret(retDone),
		ret(retNotify),
	}
}

// coreRules keep RLIMIT_CORE at the launcher's value, the only one that keeps a core dump from the
// host's handler: 0 does not. Programs that set it, such as gpg, want 0, and are told that it is
// set.
func coreRules() []unix.SockFilter {
	return []unix.SockFilter{
		arg(1),
		jump(unix.BPF_JEQ, unix.RLIMIT_CORE, 0, 4),
		arg(2), // the new limits' address, in two halves; null to read only
		jump(unix.BPF_JEQ, 0, 0, 3),
		ld(offArgs + 8*2 + 4),
		jump(unix.BPF_JEQ, 0, 0, 1),
		ret(retAllow),
		ret(retDone),
	}
}

// socketRules allow what name resolution, downloads and the usual tools need. The other families
// only expose kernel code that no script needs.
func socketRules() []unix.SockFilter {
	return []unix.SockFilter{
		arg(0),
		jump(unix.BPF_JEQ, unix.AF_UNIX, 6, 0),
		jump(unix.BPF_JEQ, unix.AF_INET, 5, 0),
		jump(unix.BPF_JEQ, unix.AF_INET6, 4, 0),
		jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 4),
		arg(2),
		jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 1, 0),
		jump(unix.BPF_JEQ, unix.NETLINK_KOBJECT_UEVENT, 0, 1),
		ret(retAllow),
		ret(retFamily),
	}
}

func personalityRules() []unix.SockFilter {
	rules := []unix.SockFilter{arg(0)}
	for i, p := range personalities {
		rules = append(rules, jump(unix.BPF_JEQ, p, uint8(len(personalities)-i), 0))
	}
	return append(rules, ret(retPerm), ret(retAllow))
}

// installFilter installs the filter on this thread and returns its listener.
func installFilter(code []unix.SockFilter) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	// With the second flag a signal does not restart a call on which the broker has begun to work;
	// kernels before 5.19 do not have it.
	for _, flags := range []uintptr{
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
	} {
		fd, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		if e == 0 {
			return int(fd), nil
		}
		if e != unix.EINVAL {
			return -1, fmt.Errorf("install the system call filter: %w", e)
		}
	}
	return -1, fmt.Errorf("install the system call filter: %w", unix.EINVAL)
}
