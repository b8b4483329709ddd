package sandbox

import (
	"fmt"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// basicDevices are the character devices that each program may use, by major and minor number
// (Documentation/admin-guide/devices.txt); minor -1 means all.
var basicDevices = []struct{ major, minor int }{
	{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, // null, zero, full, random, urandom
	{5, 0}, {5, 2}, {136, -1}, // tty, ptmx, pts/*
}

// restrictDevices denies the group all devices but the basics.
func (g *group) restrictDevices(note func(string)) error {
	if g.path["devices"] == "" {
		return nil
	}
	if g.v2["devices"] {
		if err := g.replaceDeviceFilter(); err != nil {
			note(fmt.Sprintf("the host cannot enforce device rules: %v; volumes are mounted nodev", err))
			delete(g.path, "devices")
		}
		return nil
	}
	if err := g.rule("deny", "a"); err != nil {
		return err
	}
	for _, b := range basicDevices {
		minor := "*"
		if b.minor >= 0 {
			minor = fmt.Sprint(b.minor)
		}
		if err := g.rule("allow", fmt.Sprintf("c %d:%s rw", b.major, minor)); err != nil {
			return err
		}
	}
	return nil
}

// rule writes one rule of version 1.
func (g *group) rule(verb, rule string) error {
	if err := set(filepath.Join(g.path["devices"], "devices."+verb), rule); err != nil {
		return fmt.Errorf("device rule %s %q: %w", verb, rule, err)
	}
	return nil
}

// allow lets the program use the block device; forbid reverts that.
func (g *group) allow(d device) error {
	if g.path["devices"] == "" {
		return nil
	}
	g.rules = append(g.rules, d)
	if g.v2["devices"] {
		return g.replaceDeviceFilter()
	}
	return g.rule("allow", fmt.Sprintf("b %d:%d rw", d.major, d.minor))
}

func (g *group) forbid(d device) error {
	if g.path["devices"] == "" {
		return nil
	}
	var rest []device
	for _, r := range g.rules {
		if r.major != d.major || r.minor != d.minor {
			rest = append(rest, r)
		}
	}
	g.rules = rest
	if g.v2["devices"] {
		return g.replaceDeviceFilter()
	}
	return g.rule("deny", fmt.Sprintf("b %d:%d rw", d.major, d.minor))
}

// deviceFilter is the device program of a cgroup of version 2. It lives as long as the cgroup; the
// descriptors are needed to replace it.
type deviceFilter struct{ prog, dir int }

func (f *deviceFilter) close() {
	unix.Close(f.prog)
	unix.Close(f.dir)
}

// replaceDeviceFilter loads a program for the current rules and replaces the last one atomically, so that there
// is always one.
func (g *group) replaceDeviceFilter() error {
	prog, err := loadDeviceFilter(deviceFilterCode(g.rules))
	if err != nil {
		return fmt.Errorf("load the device rules: %w", err)
	}
	next := &deviceFilter{prog: prog, dir: -1}
	if g.deviceFilter != nil {
		next.dir = g.deviceFilter.dir
	} else if next.dir, err = unix.Open(g.path["devices"], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		unix.Close(prog)
		return fmt.Errorf("open the cgroup: %w", err)
	}
	attr := struct{ target, prog, kind, flags, replace uint32 }{
		uint32(next.dir), uint32(prog), unix.BPF_CGROUP_DEVICE, unix.BPF_F_ALLOW_MULTI, 0,
	}
	if g.deviceFilter != nil {
		attr.flags |= unix.BPF_F_REPLACE
		attr.replace = uint32(g.deviceFilter.prog)
	}
	if _, err := bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
		unix.Close(prog)
		if g.deviceFilter == nil {
			unix.Close(next.dir)
		}
		return fmt.Errorf("attach the device rules: %w", err)
	}
	if g.deviceFilter != nil {
		unix.Close(g.deviceFilter.prog)
	}
	g.deviceFilter = next
	return nil
}

// insn is one instruction of struct bpf_insn (linux/bpf.h).
type insn struct {
	code uint8
	regs uint8 // destination in the low half
	off  int16
	imm  int32
}

// deviceFilterCode compiles the rules. The context is struct bpf_cgroup_dev_ctx: access_type (the device
// type in the low 16 bits), major, minor. The answer is 1 to allow. Creating nodes is refused,
// because the warden creates them.
func deviceFilterCode(rules []device) []insn {
	const (
		load    = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_W
		move    = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K
		copyReg = unix.BPF_ALU | unix.BPF_MOV | unix.BPF_X
		and     = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		shift   = unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K
		ifNot   = unix.BPF_JMP | unix.BPF_JNE | unix.BPF_K
		ifSame  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		exit    = unix.BPF_JMP | unix.BPF_EXIT
	)
	code := []insn{
		{load, 2 | 1<<4, 0, 0},    // r2 = access_type
		{load, 4 | 1<<4, 4, 0},    // r4 = major
		{load, 5 | 1<<4, 8, 0},    // r5 = minor
		{copyReg, 3 | 2<<4, 0, 0}, // r3 = access
		{shift, 3, 0, 16},
		{and, 3, 0, unix.BPF_DEVCG_ACC_MKNOD},
		{ifSame, 3, 2, 0}, // not the creation of a node: continue
		{move, 0, 0, 0},
		{exit, 0, 0, 0},
		{and, 2, 0, 0xffff}, // r2 = type
	}
	add := func(kind int32, major, minor int64) {
		skip := int16(4)
		if minor >= 0 {
			skip = 5
		}
		code = append(code, insn{ifNot, 2, skip - 1, kind}, insn{ifNot, 4, skip - 2, int32(major)})
		if minor >= 0 {
			code = append(code, insn{ifNot, 5, 2, int32(minor)})
		}
		code = append(code, insn{move, 0, 0, 1}, insn{exit, 0, 0, 0})
	}
	for _, b := range basicDevices {
		add(unix.BPF_DEVCG_DEV_CHAR, int64(b.major), int64(b.minor))
	}
	for _, d := range rules {
		add(unix.BPF_DEVCG_DEV_BLOCK, int64(d.major), int64(d.minor))
	}
	return append(code, insn{move, 0, 0, 0}, insn{exit, 0, 0, 0})
}

func loadDeviceFilter(code []insn) (int, error) {
	license := []byte("GPL\x00")
	var pins runtime.Pinner // the kernel reads them by address
	defer pins.Unpin()
	pins.Pin(&code[0])
	pins.Pin(&license[0])
	attr := struct {
		kind, count    uint32
		insns, license uint64
		level, size    uint32
		log            uint64
		version, flags uint32
	}{
		kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, count: uint32(len(code)),
		insns: uint64(uintptr(unsafe.Pointer(&code[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	return bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

func bpf(cmd int, attr unsafe.Pointer, size uintptr) (int, error) {
	n, _, e := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(attr), size)
	if e != 0 {
		return -1, e
	}
	return int(n), nil
}
