package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// programCaps are the capabilities of root inside, which only apply to its own user namespace:
// files, identities, chroot. The warden makes mounts and nodes.
var programCaps = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL,
	unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE,
	unix.CAP_SYS_CHROOT, unix.CAP_SETFCAP,
}

// wardenCaps are the capabilities of process 1.
var wardenCaps = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
	unix.CAP_KILL, unix.CAP_MKNOD, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_SETUID, unix.CAP_SYS_ADMIN,
	unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE,
}

// lastCap is the highest capability that a kernel may have.
const lastCap = 63

// bound removes all capabilities but keep from this thread's bounding set, so that programs it
// starts as root cannot have more.
func bound(keep []int) error {
	keeps := capMask(keep)
	for c := range lastCap + 1 {
		if keeps&(1<<c) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if err == unix.EINVAL {
			break // above the kernel's last
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return nil
}

// hold sets this thread's permitted and effective capabilities to keep; none are inherited.
func hold(keep []int) error {
	m := capMask(keep)
	var data [2]unix.CapUserData
	for i := range data {
		data[i].Permitted = uint32(m >> (32 * i))
		data[i].Effective = data[i].Permitted
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return nil
}

func capMask(caps []int) (m uint64) {
	for _, c := range caps {
		m |= 1 << c
	}
	return m
}
