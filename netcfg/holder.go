package netcfg

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// PortHolder returns which other process listens on a TCP port in a way that keeps addr from being
// bound: on the address itself or on all addresses, by IPv4 or IPv6. The result is, for example,
// "nginx (pid 12)" or, if the process belongs to another user and this one is not root, "a process
// of uid 33 (only root can name it)". It is empty if the port is free or only this process has it.
func (m *Manager) PortHolder(addr netip.AddrPort) (string, error) {
	sockets, err := listeners(addr.Port())
	if err != nil {
		return "", fmt.Errorf("list TCP listeners: %w", err)
	}
	for _, s := range sockets {
		if !s.blocks(addr.Addr().Unmap().WithZone("")) {
			continue
		}
		if h := s.holder("/proc"); h.pid != os.Getpid() {
			return h.String(), nil
		}
	}
	return "", nil
}

// holder is a process that has a listening socket. Its pid is 0 if it cannot be identified.
type holder struct {
	name string
	pid  int
	uid  uint32
}

func (h holder) String() string {
	if h.pid == 0 {
		return fmt.Sprintf("a process of uid %d (only root can name it)", h.uid)
	}
	return fmt.Sprintf("%s (pid %d)", h.name, h.pid)
}

// listener is one listening TCP socket.
type listener struct {
	family byte
	addr   netip.Addr
	v6only bool
	uid    uint32
	inode  uint32
}

func (l listener) blocks(a netip.Addr) bool {
	switch {
	case l.addr == a:
		return true
	case !l.addr.IsUnspecified():
		return false
	case l.family == unix.AF_INET:
		return a.Is4()
	}
	return a.Is6() || !l.v6only
}

// The layout of linux/inet_diag.h: struct inet_diag_req_v2, whose id starts at 8, and struct
// inet_diag_msg, whose id starts at 4.
const (
	diagReqSize    = 56
	diagMsgSize    = 72
	diagTCPListen  = 10
	diagAttrV6Only = 11 // INET_DIAG_SKV6ONLY
)

func listeners(port uint16) ([]listener, error) {
	c, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var out []listener
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		b := make([]byte, diagReqSize)
		b[0], b[1] = family, unix.IPPROTO_TCP
		binary.NativeEndian.PutUint32(b[4:], 1<<diagTCPListen)
		msgs, err := c.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: netlink.Request | netlink.Dump}, Data: b})
		if err != nil {
			return nil, err
		}
		for _, m := range msgs {
			if l, p, ok := parseListener(m.Data); ok && p == port {
				out = append(out, l)
			}
		}
	}
	return out, nil
}

func parseListener(b []byte) (listener, uint16, bool) {
	if len(b) < diagMsgSize {
		return listener{}, 0, false
	}
	l := listener{
		family: b[0],
		uid:    binary.NativeEndian.Uint32(b[64:]),
		inode:  binary.NativeEndian.Uint32(b[68:]),
	}
	if l.family == unix.AF_INET {
		l.addr = netip.AddrFrom4([4]byte(b[8:12]))
	} else {
		l.addr = netip.AddrFrom16([16]byte(b[8:24])).Unmap()
	}
	if ad, err := netlink.NewAttributeDecoder(b[diagMsgSize:]); err == nil {
		for ad.Next() {
			if ad.Type() == diagAttrV6Only {
				l.v6only = ad.Uint8() != 0
			}
		}
	}
	return l, binary.BigEndian.Uint16(b[4:]), true
}

// holder returns the process that has the socket open; if several share it, the one with the lowest
// pid.
func (l listener) holder(proc string) holder {
	want := "socket:[" + strconv.FormatUint(uint64(l.inode), 10) + "]"
	entries, _ := os.ReadDir(proc) // without access the process cannot be identified
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range pids {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		if !hasFile(filepath.Join(dir, "fd"), want) {
			continue
		}
		comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
		name := strings.TrimSpace(string(comm))
		if name == "" {
			name = "a process"
		}
		return holder{name: name, pid: pid, uid: l.uid}
	}
	return holder{uid: l.uid}
}

func hasFile(fdDir, target string) bool {
	fds, err := os.ReadDir(fdDir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
		t, err := os.Readlink(filepath.Join(fdDir, fd.Name()))
		return err == nil && t == target
	})
}
