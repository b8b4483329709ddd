package netcfg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// plainMetric is the metric of the route to an isolated network. Any other route of the node to the same prefix
// takes precedence, so a network may overlap those of the node or another network.
const plainMetric = 1 << 16

// address is an address of an interface.
type address struct {
	prefix netip.Prefix // the address itself with its prefix length
	scope  uint8        // IPv4 only
	flags  uint32       // IFA_F_…
	metric uint32       // of the route that comes with it
	index  uint32       // of the interface
	label  string       // IPv4 only
	// avoided is true for an address that is not chosen as the source of other traffic. It is for
	// IPv6 only, where the scope does not have that effect.
	avoided bool
}

// wantAddrs returns all addresses that a managed bridge has.
func wantAddrs(n seedbed.Network, v6 bool) []address {
	// Scope link keeps the kernel from choosing the metadata address as a source for other traffic.
	want := []address{{prefix: netip.PrefixFrom(seedbed.MetadataAddr, 32), scope: unix.RT_SCOPE_LINK}}
	if n.Kind != seedbed.NetworkBridged && n.Gateway.IsValid() {
		gateway := address{prefix: netip.PrefixFrom(n.Gateway, n.Prefix.Bits()), scope: unix.RT_SCOPE_UNIVERSE}
		if !n.Kind.Outside() {
			gateway.metric = metricOf(n)
		}
		want = append([]address{gateway}, want...)
	}
	for _, s := range services {
		switch {
		case !s.on(n) || s.addr.Is6() && !v6:
		case s.addr.Is6():
			want = append(want, serviceAddr6(s.addr))
		default:
			want = append(want, address{prefix: netip.PrefixFrom(s.addr, 32), scope: unix.RT_SCOPE_LINK})
		}
	}
	if v6 {
		want = append(want, serviceAddr6(seedbed.MetadataAddr6),
			address{prefix: netip.PrefixFrom(seedbed.MetadataAddr6LinkLocal, 64), flags: unix.IFA_F_NODAD})
	}
	if v6 && n.Prefix6.IsValid() {
		// Another route of the node to the prefix takes precedence, since a prefix may come to a network that exists, and
		// after it that of a network which reaches outside, where answers to its guests come from.
		want = append(want, address{prefix: netip.PrefixFrom(n.NodeAddr6(), n.Prefix6.Bits()), flags: unix.IFA_F_NODAD, metric: metricOf(n),
			avoided: true})
	}
	return want
}

// metricOf returns the metric of the route to a network, which is lower for one whose guests reach other networks: at most one
// of those with an address does, and answers come by the route.
func metricOf(n seedbed.Network) uint32 {
	if n.ReachesOthers() {
		return plainMetric - 1
	}
	return plainMetric
}

// serviceAddr6 returns an address that every bridge has and no other host may claim, so that it is not probed.
func serviceAddr6(a netip.Addr) address {
	return address{prefix: netip.PrefixFrom(a, 128), flags: unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE, avoided: true}
}

// addrsByLink returns the addresses of all interfaces, by index.
func (r *route) addrsByLink() (map[uint32][]address, error) {
	all, err := r.addrs()
	by := map[uint32][]address{}
	for _, a := range all {
		by[a.index] = append(by[a.index], a)
	}
	return by, err
}

// ensureAddrs adds the missing addresses of a bridge that has have, and removes any others.
func (r *route) ensureAddrs(l link, n seedbed.Network, v6 bool, have []address) error {
	want := map[netip.Prefix]address{}
	for _, a := range wantAddrs(n, v6) {
		a.index = l.index
		want[a.prefix] = a
	}
	missing := want
	var stale []address
	for _, a := range have {
		w, ok := want[a.prefix]
		switch {
		case !ok:
			stale = append(stale, a)
		case a.metric == w.metric:
			delete(missing, a.prefix)
		}
	}
	// Add first: removing the first address of a subnet also removes its other addresses.
	for _, a := range missing {
		if err := r.setAddr(unix.RTM_NEWADDR, netlink.Create|netlink.Replace, a); err != nil {
			return fmt.Errorf("add %s to %s: %w", a.prefix, l.name, err)
		}
	}
	for _, a := range stale {
		if err := r.setAddr(unix.RTM_DELADDR, 0, a); err != nil {
			return fmt.Errorf("take %s from %s: %w", a.prefix, l.name, err)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return r.verifyAddrs(l, n)
}

// verifyAddrs adds addresses that were removed together with another of the same subnet.
func (r *route) verifyAddrs(l link, n seedbed.Network) error {
	have, err := r.addrs()
	if err != nil {
		return err
	}
	first := wantAddrs(n, false)[0] // the gateway's, if there is one
	first.index = l.index
	for _, a := range have {
		if a.index == l.index && a.prefix == first.prefix {
			return nil
		}
	}
	if err := r.setAddr(unix.RTM_NEWADDR, netlink.Create|netlink.Replace, first); err != nil {
		return fmt.Errorf("add %s to %s: %w", first.prefix, l.name, err)
	}
	return nil
}

// addrs returns the addresses of the namespace.
func (r *route) addrs() ([]address, error) {
	msgs, err := r.nl.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETADDR, Flags: netlink.Request | netlink.Dump},
		Data:   make([]byte, unix.SizeofIfAddrmsg),
	})
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var out []address
	for _, m := range msgs {
		if a, ok := parseAddr(m.Data); ok {
			out = append(out, a)
		}
	}
	return out, nil
}

// parseAddr parses struct ifaddrmsg and its attributes (linux/if_addr.h).
func parseAddr(b []byte) (address, bool) {
	if len(b) < unix.SizeofIfAddrmsg || b[0] != unix.AF_INET && b[0] != unix.AF_INET6 {
		return address{}, false
	}
	a := address{scope: b[3], flags: uint32(b[2]), index: binary.NativeEndian.Uint32(b[4:])}
	ad, err := netlink.NewAttributeDecoder(b[unix.SizeofIfAddrmsg:])
	if err != nil {
		return address{}, false
	}
	var own, other netip.Addr
	for ad.Next() {
		switch v := ad.Bytes(); ad.Type() {
		case unix.IFA_LOCAL:
			own, _ = netip.AddrFromSlice(v)
		case unix.IFA_ADDRESS: // the peer's, if there is a local one
			other, _ = netip.AddrFromSlice(v)
		case unix.IFA_LABEL:
			a.label = ad.String()
		case unix.IFA_FLAGS:
			if len(v) == 4 {
				a.flags = binary.NativeEndian.Uint32(v)
			}
		case unix.IFA_RT_PRIORITY:
			if len(v) == 4 {
				a.metric = binary.NativeEndian.Uint32(v)
			}
		}
	}
	if !own.IsValid() {
		own = other
	}
	a.prefix = netip.PrefixFrom(own, int(b[1]))
	return a, ad.Err() == nil && a.prefix.IsValid()
}

func (r *route) setAddr(typ netlink.HeaderType, flags netlink.HeaderFlags, a address) error {
	ip := a.prefix.Addr()
	b := make([]byte, unix.SizeofIfAddrmsg)
	b[0], b[1], b[3] = unix.AF_INET, byte(a.prefix.Bits()), a.scope
	if ip.Is6() {
		b[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(b[4:], a.index)
	ae := netlink.NewAttributeEncoder()
	ae.Bytes(unix.IFA_LOCAL, ip.AsSlice())
	ae.Bytes(unix.IFA_ADDRESS, ip.AsSlice())
	ae.Uint32(unix.IFA_FLAGS, a.flags)
	if ip.Is4() && a.prefix.Bits() < 31 {
		ae.Bytes(unix.IFA_BROADCAST, seedbed.LastAddr(a.prefix).AsSlice())
	}
	if a.label != "" {
		ae.String(unix.IFA_LABEL, a.label)
	}
	if a.metric != 0 {
		ae.Uint32(unix.IFA_RT_PRIORITY, a.metric)
	}
	if a.avoided {
		// struct ifa_cacheinfo: a preferred lifetime of zero (deprecated, RFC 4862), and valid
		// forever.
		life := make([]byte, 16)
		binary.NativeEndian.PutUint32(life[4:], math.MaxUint32)
		ae.Bytes(unix.IFA_CACHEINFO, life)
	}
	return r.write(typ, flags, b, ae)
}

// Answers to guests whose IPv6 addresses come from elsewhere have a routing table of their own, with a default route by each bridge
// of such a network. Only what leaves a socket of the bridge uses it, after the main table. Over IPv4, the kernel takes any
// address to be on the link of such a socket.
const (
	answerTable    = 0x5eedbed
	answerPriority = 33000 // the main table has 32766
)

// fromElsewhere reports whether the guests of a network have addresses that the node does not know.
func fromElsewhere(n seedbed.Network) bool { return !n.Addressed() }

// ensureAnswerRoute adds the route of answers by a bridge that is up.
func (r *route) ensureAnswerRoute(l link) error {
	ae := netlink.NewAttributeEncoder()
	ae.Uint32(unix.RTA_OIF, l.index)
	ae.Uint32(unix.RTA_TABLE, answerTable)
	// struct rtmsg
	err := r.write(unix.RTM_NEWROUTE, netlink.Create, []byte{unix.AF_INET6, 5: unix.RTPROT_STATIC, 7: unix.RTN_UNICAST, 11: 0}, ae)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// ensureAnswerRules makes the rules of the table be those of some bridges, and of others that keep names.
func (r *route) ensureAnswerRules(bridges []string, keep func(bridge string) bool) error {
	msgs, err := r.nl.Execute(netlink.Message{Header: netlink.Header{Type: unix.RTM_GETRULE, Flags: netlink.Request | netlink.Dump},
		Data: []byte{unix.AF_INET6, 11: 0}})
	if errors.Is(err, unix.EAFNOSUPPORT) && len(bridges) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	missing := map[string]bool{}
	for _, b := range bridges {
		missing[b] = true
	}
	for _, m := range msgs {
		bridge, ours := parseAnswerRule(m.Data)
		switch {
		case ours && missing[bridge]:
			delete(missing, bridge)
		case ours && !keep(bridge):
			if err := r.writeAnswerRule(unix.RTM_DELRULE, 0, bridge); err != nil {
				return fmt.Errorf("remove the rule of %s: %w", bridge, err)
			}
		}
	}
	for _, b := range slices.Sorted(maps.Keys(missing)) {
		if err := r.writeAnswerRule(unix.RTM_NEWRULE, netlink.Create|netlink.Excl, b); err != nil {
			return fmt.Errorf("add the rule of %s: %w", b, err)
		}
	}
	return nil
}

// writeAnswerRule adds or removes the rule of a bridge: struct fib_rule_hdr and its attributes (linux/fib_rules.h).
func (r *route) writeAnswerRule(typ netlink.HeaderType, flags netlink.HeaderFlags, bridge string) error {
	const toTable = 1 // FR_ACT_TO_TBL
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.FRA_OIFNAME, bridge)
	ae.Uint32(unix.FRA_TABLE, answerTable)
	ae.Uint32(unix.FRA_PRIORITY, answerPriority)
	return r.write(typ, flags, []byte{unix.AF_INET6, 7: toTable, 11: 0}, ae)
}

// parseAnswerRule returns the bridge of a rule, and whether it is one of the table.
func parseAnswerRule(b []byte) (bridge string, ours bool) {
	const headerLen = 12
	if len(b) < headerLen || b[0] != unix.AF_INET6 {
		return "", false
	}
	ad, err := netlink.NewAttributeDecoder(b[headerLen:])
	if err != nil {
		return "", false
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.FRA_OIFNAME:
			bridge = ad.String()
		case unix.FRA_TABLE:
			ours = ad.Uint32() == answerTable
		}
	}
	return bridge, ours && ad.Err() == nil
}

// write sends a message of a header and attributes.
func (r *route) write(typ netlink.HeaderType, flags netlink.HeaderFlags, header []byte, ae *netlink.AttributeEncoder) error {
	attrs, err := ae.Encode()
	if err != nil {
		return err
	}
	_, err = r.nl.Execute(netlink.Message{
		Header: netlink.Header{Type: typ, Flags: netlink.Request | netlink.Acknowledge | flags}, Data: append(header, attrs...)})
	return err
}

func metadata6() []netip.Addr {
	return []netip.Addr{seedbed.MetadataAddr6, seedbed.MetadataAddr6LinkLocal}
}

var zero6 = netip.IPv6Unspecified()

// HasIPv6 reports whether a bridge accepts IPv6 addresses: the kernel has IPv6 and it is not
// disabled for that interface.
func (m *Manager) HasIPv6(bridge string) bool { return hasIPv6(bridge) }

func hasIPv6(bridge string) bool {
	off, err := readSysctl(keyConf6(bridge, "disable_ipv6"))
	return err == nil && off == 0
}
