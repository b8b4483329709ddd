package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// refusedHere are refused only on this architecture.
var refusedHere = []int{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE, unix.SYS_VSERVER,
}

// nodeCalls make nodes; mode is the index of the argument with the type.
var nodeCalls = []struct{ number, mode int }{{unix.SYS_MKNOD, 1}, {unix.SYS_MKNODAT, 2}}
