package command

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are the system calls that a program that only converts files does not need: those with which
// faults of the kernel are reached, and those that reach other processes, hosts or name spaces.
var refused = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_SOCKET, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SETTIMEOFDAY,
	unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SYSLOG,
	unix.SYS_VHANGUP,
}

const (
	// namespaces are the flags of clone(2) that make name spaces.
	namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET
	// x32 marks the system calls of another interface, with numbers of their own.
	x32 = 0x40000000
)

// architectures are the kernel's numbers of those for which a filter is made.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// filter makes the kernel refuse to the calling thread, and to what it starts, the system calls that
// are not needed (seccomp(2)). The thread must have no_new_privs.
func filter() error {
	arch, known := architectures[runtime.GOARCH]
	if !known {
		return nil
	}
	rules := program(arch)
	prog := unix.SockFprog{Len: uint16(len(rules)), Filter: &rules[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}

// program returns the filter. Its words are those of struct seccomp_data: the call's number, the
// architecture, and from the fourth on the low half of each argument.
func program(arch uint32) []unix.SockFilter {
	load := func(word uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 4 * word}
	}
	answer := func(what uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what} }
	// skip jumps over the next instruction unless the test holds.
	skip := func(test uint16, k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: 1, K: k}
	}
	denied, unknown := uint32(unix.SECCOMP_RET_ERRNO|unix.EPERM), uint32(unix.SECCOMP_RET_ERRNO|unix.ENOSYS)
	all := []unix.SockFilter{
		load(1), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: arch}, answer(unix.SECCOMP_RET_KILL_PROCESS),
		load(0), skip(unix.BPF_JGE, x32), answer(denied),
		// The flags of clone3 are in memory, where a filter cannot see them. Libraries then use clone.
		skip(unix.BPF_JEQ, unix.SYS_CLONE3), answer(unknown),
	}
	for _, call := range refused {
		all = append(all, skip(unix.BPF_JEQ, call), answer(denied))
	}
	return append(all,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_CLONE}, answer(unix.SECCOMP_RET_ALLOW),
		load(4), skip(unix.BPF_JSET, namespaces), answer(denied), answer(unix.SECCOMP_RET_ALLOW))
}
