package netcfg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"seedbed"
)

// The sysctls that the metadata path depends on (Documentation/networking/ip-sysctl.rst).
const (
	keyFwmarkAccept = "net/ipv4/tcp_fwmark_accept"
	keyForward      = "net/ipv4/ip_forward"
	keyRPFilterAll  = "net/ipv4/conf/all/rp_filter"
	keyForward6     = "net/ipv6/conf/all/forwarding"
)

func keyConf(iface, name string) string { return "net/ipv4/conf/" + iface + "/" + name }

func keyConf6(iface, name string) string { return "net/ipv6/conf/" + iface + "/" + name }

// hostSysctls sets the sysctls of the whole namespace. They are never reset, because others may
// rely on them by then.
func (m *Manager) hostSysctls(p *plan) error {
	if len(p.networks) == 0 {
		return nil
	}
	if err := m.setSysctl(keyFwmarkAccept, 1, m.applied == nil); err != nil {
		return err
	}
	if p.outside() {
		if err := m.setSysctl(keyForward, 1, m.applied == nil); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(p.networks, seedbed.Network.Routes6) && hasIPv6("all") {
		return m.forward6()
	}
	return nil
}

// forward6 makes the node an IPv6 router. A router ignores the advertisements of others, so that it would lose its own default
// route, unless an interface takes them anyway (accept_ra 2). Each interface that took them before continues to; on a node that was
// a router already, none is changed.
func (m *Manager) forward6() error {
	on, err := readSysctl(keyForward6)
	if err != nil {
		return err
	}
	if on == 1 && m.listening != nil {
		return m.listen6()
	}
	m.listening = []string{}
	interfaces, err := os.ReadDir(sysctlPath("net/ipv6/conf"))
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		key := keyConf6(i.Name(), "accept_ra")
		takes, err := readSysctl(key)
		switch {
		case i.Name() == "all" || isAbsent(err): // it may go away meanwhile
			continue
		case err != nil:
			return err
		case takes == 2 || takes == 1 && on != 1: // a router ignores 1
			m.listening = append(m.listening, key)
		}
	}
	if err := m.listen6(); err != nil {
		return err
	}
	return m.setSysctl(keyForward6, 1, m.applied == nil)
}

// listen6 makes the interfaces that take advertisements take them although the node is a router, also after others set what is
// the default again.
func (m *Manager) listen6() error {
	for _, key := range m.listening {
		takes, err := readSysctl(key)
		if err == nil && takes == 1 {
			err = m.setSysctl(key, 2, true)
		}
		if err != nil && !isAbsent(err) {
			return err
		}
	}
	return nil
}

// bridgeSysctl is a sysctl of a bridge, with its place among those that the kernel lists with a link (linux/ip.h, linux/ipv6.h).
type bridgeSysctl struct {
	name  string
	place int
	value int
}

// unlisted is the place of a sysctl that the kernel does not list with a link.
const unlisted = -1

// bridgeSysctls sets the sysctls of bridge l of a network; fresh says whether it is new, and all is the rp_filter of all
// interfaces. Those that the kernel listed with the link are not read again: a node with a thousand networks has ten thousand.
func (m *Manager) bridgeSysctls(n seedbed.Network, l link, fresh bool, all int) error {
	v4 := []bridgeSysctl{
		{"accept_local", 22, 1},
		{"rp_filter", 7, wantRPFilter(all)},
		// The bridge announces only its own addresses, because another address of the node may be a
		// guest's on this bridge.
		{"arp_ignore", 18, 1},
		{"arp_announce", 17, 2},
	}
	// Over IPv6 the bridge has the metadata addresses, and does not learn anything from guests.
	v6 := []bridgeSysctl{
		{"addr_gen_mode", unlisted, 1},
		{"accept_dad", 27, 0},
		{"accept_ra", 3, 0},
		{"autoconf", 5, 0},
		{"accept_redirects", 4, 0},
	}
	if n.Routes6() { // guests take for a router only who says so of itself (RFC 4861 7.2.5)
		v6 = append(v6, bridgeSysctl{"forwarding", 0, 1})
	}
	first := fresh || m.applied == nil
	for _, w := range v4 {
		if l.conf4.has(w) {
			continue
		}
		if err := m.setSysctl(keyConf(l.name, w.name), w.value, first); err != nil {
			return err
		}
	}
	for _, w := range v6 {
		if l.conf6.has(w) {
			continue
		}
		if err := m.setSysctl(keyConf6(l.name, w.name), w.value, first); err != nil && !isAbsent(err) { // a kernel without IPv6
			return err
		}
	}
	return nil
}

// devConf holds the sysctls of a link as the kernel lists them: 32 bits each, in its own byte order.
type devConf []byte

// has reports whether the kernel listed a sysctl, with the value that it is to have.
func (c devConf) has(w bridgeSysctl) bool {
	const size = 4
	return w.place != unlisted && len(c) >= (w.place+1)*size && int(int32(binary.NativeEndian.Uint32(c[w.place*size:]))) == w.value
}

// isAbsent reports whether the kernel does not have a sysctl.
func isAbsent(err error) bool { return errors.Is(err, seedbed.ErrNotFound) }

// wantRPFilter returns the value for the bridge's own rp_filter. The kernel uses the greater of it
// and conf/all. If conf/all is strict (1), loose (2) on the bridge overrides it without weakening
// other interfaces.
func wantRPFilter(all int) int {
	if all == 1 {
		return 2
	}
	return 0
}

// setSysctl writes a value only if it differs, and reads it back. Unless first is set, a difference
// means that another program changed it, which is logged.
func (m *Manager) setSysctl(key string, want int, first bool) error {
	have, err := readSysctl(key)
	if err != nil || have == want {
		return err
	}
	if err := os.WriteFile(sysctlPath(key), []byte(strconv.Itoa(want)), 0); err != nil {
		return seedbed.Errorf(seedbed.ErrUnavailable,
			"sysctl %s is %d and cannot be set to %d (%v): set it, or let this program write /proc/sys/net",
			sysctlName(key), have, want, err)
	}
	now, err := readSysctl(key)
	if err == nil && now != want {
		err = seedbed.Errorf(seedbed.ErrUnavailable, "sysctl %s is %d after %d was written", sysctlName(key), now, want)
	}
	if err == nil && !first {
		m.log.Warn("sysctl was changed externally; restoring", "sysctl", sysctlName(key), "was", have, "is", want)
	}
	return err
}

func readSysctl(key string) (int, error) {
	b, err := readAtOnce(sysctlPath(key))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, seedbed.Errorf(seedbed.ErrNotFound, "sysctl %s does not exist in this kernel", sysctlName(key))
	}
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("sysctl %s: %w", sysctlName(key), err)
	}
	return v, nil
}

// readAtOnce reads a small file of the kernel with one call. A node with a thousand networks has as many
// of these, and os.ReadFile would poll each.
func readAtOnce(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 64)
	n, err := unix.Read(fd, b)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return b[:n], nil
}

func sysctlPath(key string) string { return filepath.Join("/proc/sys", key) }

// sysctlName returns the key in the form of sysctl(8), in which a dot in an interface name becomes
// a slash.
func sysctlName(key string) string { return strings.NewReplacer("/", ".", ".", "/").Replace(key) }
