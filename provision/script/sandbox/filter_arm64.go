package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// refusedHere are refused only on this architecture.
var refusedHere []int

// nodeCalls make nodes; mode is the index of the argument with the type.
var nodeCalls = []struct{ number, mode int }{{unix.SYS_MKNODAT, 2}}
