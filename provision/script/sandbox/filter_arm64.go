package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// refusedHere are refused on this processor alone.
var refusedHere []int

// nodeCalls make nodes; mode is the number of the argument with the type.
var nodeCalls = []struct{ number, mode int }{{unix.SYS_MKNODAT, 2}}
