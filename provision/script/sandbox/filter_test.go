package sandbox

import (
	"testing"

	"golang.org/x/sys/unix"
)

// judge runs a classic BPF program as seccomp does, over 32-bit words.
func judge(t *testing.T, code []unix.SockFilter, arch uint32, number int, args ...uint64) uint32 {
	t.Helper()
	word := func(off uint32) uint32 {
		switch off {
		case offNumber:
			return uint32(number)
		case offArch:
			return arch
		}
		if i := int(off-offArgs) / 8; i < len(args) {
			return uint32(args[i] >> (off % 8 * 8))
		}
		return 0
	}
	var acc uint32
	for at := 0; at < len(code); at++ {
		i := code[at]
		yes := false
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = word(i.K)
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= i.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			yes = acc == i.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			yes = acc > i.K
		default:
			t.Fatalf("instruction %d is unknown: %#x", at, i.Code)
		}
		if yes {
			at += int(i.Jt)
		} else {
			at += int(i.Jf)
		}
	}
	t.Fatal("the program ran over its end")
	return 0
}

func TestFilter(t *testing.T) {
	t.Parallel()
	code := filterCode()
	for _, tt := range []struct {
		name   string
		number int
		args   []uint64
		want   uint32
	}{
		{"read", unix.SYS_READ, nil, retAllow},
		{"execve", unix.SYS_EXECVE, nil, retAllow},
		{"chroot", unix.SYS_CHROOT, nil, retAllow},
		{"seccomp", unix.SYS_SECCOMP, nil, retAllow},
		{"mount", unix.SYS_MOUNT, nil, retNotify},
		{"umount2", unix.SYS_UMOUNT2, nil, retNotify},
		{"mknodat of a pipe", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFIFO | 0o600}, retAllow},
		{"mknodat of a file", unix.SYS_MKNODAT, []uint64{0, 0, 0o600}, retAllow},
		{"mknodat of a character device", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFCHR | 0o600}, retNotify},
		{"mknodat of a block device", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFBLK | 0o600}, retNotify},
		{"mknodat with more bits", unix.SYS_MKNODAT, []uint64{0, 0, 1<<40 | 1<<20 | unix.S_IFBLK}, retNotify},
		{"clone of a process", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD) | unix.CLONE_VM | unix.CLONE_VFORK}, retAllow},
		{"clone of a user namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, retPerm},
		{"clone of a sibling", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD) | unix.CLONE_PARENT}, retPerm},
		{"clone of all namespaces", unix.SYS_CLONE, []uint64{newNamespaces}, retPerm},
		{"unshare files", unix.SYS_UNSHARE, []uint64{unix.CLONE_FILES}, retAllow},
		{"unshare time", unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWTIME}, retPerm},
		{"unshare cgroups", unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWCGROUP | unix.CLONE_FS}, retPerm},
		{"clone3", unix.SYS_CLONE3, nil, retNoSys},
		{"fsopen", unix.SYS_FSOPEN, nil, retNoSys},
		{"io_setup", unix.SYS_IO_SETUP, nil, retNoSys},
		{"io_uring", unix.SYS_IO_URING_SETUP, nil, retNoSys},
		{"bpf", unix.SYS_BPF, nil, retPerm},
		{"ptrace", unix.SYS_PTRACE, nil, retPerm},
		{"terminal size", unix.SYS_IOCTL, []uint64{0, unix.TIOCGWINSZ}, retAllow},
		{"terminal input", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, retPerm},
		{"terminal input with high bits", unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, retPerm},
		{"console", unix.SYS_IOCTL, []uint64{0, unix.TIOCLINUX}, retPerm},
		{"line discipline", unix.SYS_IOCTL, []uint64{0, unix.TIOCSETD}, retPerm},
		{"loop device's file", unix.SYS_IOCTL, []uint64{0, unix.LOOP_SET_FD}, retPerm},
		{"loop device cleared", unix.SYS_IOCTL, []uint64{0, 5<<32 | unix.LOOP_CLR_FD}, retPerm},
		{"loop device configured", unix.SYS_IOCTL, []uint64{0, unix.LOOP_CONFIGURE}, retPerm},
		{"device size", unix.SYS_IOCTL, []uint64{0, unix.BLKGETSIZE64}, retAllow},
		{"core limit asked for", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0, 1}, retAllow},
		{"core limit", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0x1000}, retDone},
		{"core limit at a round address", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 1 << 32}, retDone},
		{"core limit of old", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_CORE, 0x1000}, retDone},
		{"limit of files", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE, 0x1000}, retAllow},
		{"limit of files of old", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_NOFILE, 0x1000}, retAllow},
		{"block size", unix.SYS_IOCTL, []uint64{0, unix.BLKBSZSET}, retDone},
		{"device flush", unix.SYS_IOCTL, []uint64{0, unix.BLKFLSBUF}, retNotify},
		{"unix socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, retAllow},
		{"inet socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM}, retAllow},
		{"inet6 socket", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM}, retAllow},
		{"route socket", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, retAllow},
		{"uevent socket", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}, retAllow},
		{"nftables socket", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, retFamily},
		{"packet socket", unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW}, retFamily},
		{"vsock", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK}, retFamily},
		{"unix pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX}, retAllow},
		{"tipc pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC}, retFamily},
		{"personality query", unix.SYS_PERSONALITY, []uint64{0xffffffff}, retAllow},
		{"linux32", unix.SYS_PERSONALITY, []uint64{8}, retAllow},
		{"no randomization", unix.SYS_PERSONALITY, []uint64{0x40000}, retPerm},
		{"the newest known", lastCall, nil, retAllow},
		{"what comes next", lastCall + 1, nil, retNoSys},
		{"x32", 0x40000000 | unix.SYS_READ, nil, retNoSys},
		{"negative", -1, nil, retNoSys},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := judge(t, code, auditArch, tt.number, tt.args...); got != tt.want {
				t.Errorf("%#x, want %#x", got, tt.want)
			}
		})
	}
	if got := judge(t, code, unix.AUDIT_ARCH_I386, unix.SYS_READ); got != retKill {
		t.Errorf("i386: %#x, want %#x", got, retKill)
	}
}

// TestFence holds the shape of the device program: every jump lands inside it, and
// it ends in a refusal.
func TestFence(t *testing.T) {
	t.Parallel()
	code := deviceFilterCode([]device{{7, 3, ""}, {252, 1 << 19, ""}})
	for i, c := range code {
		if c.code&7 == unix.BPF_JMP && c.code != unix.BPF_JMP|unix.BPF_EXIT {
			if to := i + 1 + int(c.off); c.off <= 0 || to >= len(code) {
				t.Errorf("instruction %d jumps to %d of %d", i, to, len(code))
			}
		}
	}
	if end := code[len(code)-2:]; end[0].imm != 0 || end[1].code != unix.BPF_JMP|unix.BPF_EXIT {
		t.Errorf("it ends with %v, want a refusal", end)
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	good := func() Spec { return Spec{ID: "j-1", Argv: []string{"/bin/true"}, Output: func(string, []byte) {}} }
	if err := good().check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Spec){
		"id":       func(s *Spec) { s.ID = "../x" },
		"long id":  func(s *Spec) { s.ID = string(make([]byte, 65)) },
		"program":  func(s *Spec) { s.Argv = []string{"true"} },
		"nothing":  func(s *Spec) { s.Argv = nil },
		"output":   func(s *Spec) { s.Output = nil },
		"file":     func(s *Spec) { s.Files = map[string][]byte{"../x": nil} },
		"file dot": func(s *Spec) { s.Files = map[string][]byte{"a/./b": nil} },
	} {
		s := good()
		spoil(&s)
		if err := s.check(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	h, err := Open(Config{Dir: t.TempDir(), UIDs: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	take := func(id string, want uint32) {
		t.Helper()
		if got, err := h.take(id); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", id, got, err, want)
		}
	}
	take("a", 1<<20)
	take("b", 1<<20+span)
	h.release("a")
	take("c", 1<<20)
	if _, err := h.take("b"); err == nil {
		t.Error("b again: accepted")
	}
	for _, bad := range []uint32{1, 1<<32 - 1} {
		if _, err := Open(Config{Dir: t.TempDir(), UIDs: bad}); err == nil {
			t.Errorf("ids from %d: accepted", bad)
		}
	}
}
