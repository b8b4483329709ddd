package seedbed

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Listen is where nodes take connections: the ports of a protocol at one of their addresses, or at all of a version of IP. Its text
// form is "tcp:8080", "udp:60000-60100" or "tcp:192.0.2.1:8080", and over IPv6 "tcp:[::]:8080" or "tcp:[2001:db8::1]:8080".
type Listen struct {
	// Protocol is "tcp" or "udp".
	Protocol string
	// Addr is an address of the node. Without one, it is any IPv4 address that is neither a loopback nor a link-local one, and
	// with "::" any such IPv6 address.
	Addr netip.Addr
	// First and Last are the ports, both included.
	First, Last uint16
}

// maxForwardPorts bounds the ports of one forward. Each is an element of a set in the kernel.
const maxForwardPorts = 1024

// ParseListen parses the text form of a Listen. Any other text is ErrInvalid.
func ParseListen(s string) (Listen, error) {
	bad := func(format string, args ...any) (Listen, error) {
		return Listen{}, Errorf(ErrInvalid, "%q "+format+": expected such as tcp:8080, udp:60000-60100, tcp:192.0.2.1:8080, or "+
			"tcp:[::]:8080 for IPv6", append([]any{Clip(s)}, args...)...)
	}
	protocol, rest, ok := strings.Cut(s, ":")
	l := Listen{Protocol: protocol}
	if !ok || protocol != "tcp" && protocol != "udp" {
		return bad("has no protocol")
	}
	ports := rest
	if at := strings.LastIndexByte(rest, ':'); at >= 0 {
		if l.Addr, ok = parseListenAddr(rest[:at]); !ok {
			return bad("has no address that other hosts reach")
		}
		ports = rest[at+1:]
	}
	first, last, ok := parsePorts(ports)
	switch {
	case !ok || first == 0:
		return bad("has no ports from 1 to 65535")
	case last-first >= maxForwardPorts:
		return bad("has %d ports, and %d is the most", int(last-first)+1, maxForwardPorts)
	}
	l.First, l.Last = first, last
	return l, nil
}

// parseListenAddr parses the address of a Listen. IPv6 addresses are in brackets, as in URLs (RFC 3986).
func parseListenAddr(s string) (netip.Addr, bool) {
	inner, six := strings.CutPrefix(s, "[")
	if six {
		inner, six = strings.CutSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(inner)
	switch {
	case err != nil || a.Is6() != six || a.Zone() != "" || a.IsMulticast():
		return a, false
	case a == netip.IPv6Unspecified():
		return a, true
	case six:
		return a, !special6(AddrRange{a, a})
	}
	return a, !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsUnspecified()
}

// ParsePort parses the number of a TCP or UDP port. Any other text is ErrInvalid.
func ParsePort(s string) (uint16, error) {
	first, last, ok := parsePorts(s)
	if !ok || first == 0 || last != first {
		return 0, Errorf(ErrInvalid, "%q is not a port: expected 1 to 65535", Clip(s))
	}
	return first, nil
}

// String returns the text form; of the zero Listen, the empty string.
func (l Listen) String() string {
	if l.Protocol == "" {
		return ""
	}
	s := l.Protocol + ":"
	switch {
	case l.Addr.Is6():
		s += "[" + l.Addr.String() + "]:"
	case l.Addr.IsValid():
		s += l.Addr.String() + ":"
	}
	return s + Span{l.First, l.Last}.String()
}

// MarshalText implements encoding.TextMarshaler.
func (l Listen) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Listen) UnmarshalText(b []byte) (err error) {
	*l, err = ParseListen(string(b))
	return err
}

// Overlaps reports whether both take the same ports at the same address. One at an address of its own may share ports with
// one at all addresses, and takes precedence.
func (l Listen) Overlaps(other Listen) bool {
	return l.Protocol == other.Protocol && l.Addr == other.Addr && l.First <= other.Last && other.First <= l.Last
}

// Any reports whether it is at all addresses of a version of IP.
func (l Listen) Any() bool { return !l.Addr.IsValid() || l.Addr == netip.IPv6Unspecified() }

// Key returns a text by which listens sort: by protocol, address and first port. No two that do not overlap have the same.
func (l Listen) Key() string {
	return fmt.Sprintf("%s %08x %05d", l.Protocol, l.Addr.AsSlice(), l.First)
}

// MaxForwards is how many forwards a NIC may have.
const MaxForwards = 64

// Forward sends connections to ports of the node on which an instance runs to the instance.
type Forward struct {
	Listen Listen `json:"listen"`
	// Port is the instance's port for the first one; the others follow.
	Port uint16 `json:"port"`
	// Description is one line for people.
	Description string `json:"description,omitempty"`
}

// Ports returns the ports of the instance that it goes to.
func (f Forward) Ports() Span { return Span{f.Port, f.Port + f.Listen.Last - f.Listen.First} }

// Check returns ErrInvalid, which says what would be right, unless the forward is usable.
func (f Forward) Check() error {
	if _, err := ParseListen(f.Listen.String()); err != nil {
		return err
	}
	switch count := f.Listen.Last - f.Listen.First; {
	case f.Port == 0 || f.Ports().Last < f.Port:
		return Errorf(ErrInvalid, "forward %s: port %d of the instance: expected 1 to %d", f.Listen, f.Port, 65535-count)
	case f.Listen.Protocol == "tcp" && f.Listen.Any() && f.Listen.First <= sshPort && sshPort <= f.Listen.Last:
		return Errorf(ErrInvalid, "forward %s: at port %d, nodes are administered by SSH: choose another, or name the address of a node",
			f.Listen, sshPort)
	case !line(f.Description):
		return Errorf(ErrInvalid, "forward %s: its description is not one line of at most %d bytes", f.Listen, maxDescription)
	}
	return nil
}

// CheckNew returns the error of Check, and ErrInvalid for a forward that takes a port of the nodes which earlier releases let go.
func (f Forward) CheckNew() error {
	if f.Listen.Protocol == "udp" && f.Listen.First <= VXLANPort && VXLANPort <= f.Listen.Last {
		return Errorf(ErrInvalid, "forward %s: at port %d, nodes get the frames of overlays: choose another", f.Listen, VXLANPort)
	}
	return f.Check()
}

const sshPort = 22

// ForwardTo is a forward and the NIC that it goes to.
type ForwardTo struct {
	Forward
	// Instance is the full name of the instance, and NIC the index of its NIC.
	Instance string `json:"instance"`
	NIC      int    `json:"nic"`
	// Addr is the address of the NIC, of the version of IP of the listen.
	Addr netip.Addr `json:"addr"`
	// Node is the node that takes the connections: that on which the instance runs.
	Node string `json:"node"`
}

// Trace is the way of a packet that an instance sends, as the records of the installation say it.
type Trace struct {
	// NIC is the index of the NIC that sends it.
	NIC int `json:"nic"`
	// To is where it is sent. It is not valid for DHCP, which goes to the whole link.
	To netip.Addr `json:"to,omitzero"`
	// Protocol is "tcp", "udp" or "icmp" (an echo request), and Port the destination port of the former two.
	Protocol string `json:"protocol"`
	Port     uint16 `json:"port,omitempty"`
	// Reaches is whether it passes all hops.
	Reaches bool  `json:"reaches"`
	Hops    []Hop `json:"hops"`
}

// Hop is a place that a packet passes, or not.
type Hop struct {
	// At is the place, such as "security groups of web1".
	At     string `json:"at"`
	Passes bool   `json:"passes"`
	// Detail says why, and what would change it.
	Detail string `json:"detail"`
}

// MaxPeers is how many peers a network may have.
const MaxPeers = 16

// Peer ends the peering of the network with some others, and then peers it with others, by their qualified names. It returns
// ErrNotFound if it is not peered with one of the former, and ErrExists if it is with one of the latter. The caller checks the
// network.
func (n *Network) Peer(add, remove []string) error {
	for _, name := range remove {
		at := slices.Index(n.Peers, name)
		if at < 0 {
			return Errorf(ErrNotFound, "network %q is not peered with network %q", n.Name, name)
		}
		n.Peers = slices.Concat(n.Peers[:at], n.Peers[at+1:])
	}
	for _, name := range add {
		if slices.Contains(n.Peers, name) {
			return Errorf(ErrExists, "network %q is peered with network %q already", n.Name, name)
		}
		n.Peers = slices.Concat(n.Peers, []string{name})
	}
	slices.Sort(n.Peers)
	return nil
}

func (n Network) checkPeers(bad complaint) error {
	switch {
	case len(n.Peers) > MaxPeers:
		return bad("it would have %d peers: expected at most %d", len(n.Peers), MaxPeers)
	case slices.Contains(n.Peers, n.Name):
		return bad("it cannot be a peer of itself: expected another network")
	case len(n.Peers) > 0 && n.Kind.OnWire():
		return bad("a %s network has no peers, since its routers are not Seedbed's: expected one of the kind nat, routed or isolated",
			n.Kind)
	}
	return nil
}

// CanPeer returns ErrInvalid if the guests of two networks could not reach each other: one is bridged, they have addresses in
// common, or one has IPv4 alone and the other IPv6 alone.
func (n Network) CanPeer(other Network) error {
	for _, p := range [][2]netip.Prefix{{n.Prefix, other.Prefix}, {n.Prefix6, other.Prefix6}} {
		if p[0].Overlaps(p[1]) {
			return Errorf(ErrInvalid, "networks %q (%s) and %q (%s) have addresses in common: expected peers with other prefixes",
				n.Name, p[0], other.Name, p[1])
		}
	}
	err := other.checkPeers(func(format string, args ...any) error {
		return Errorf(ErrInvalid, "network %q: "+format, append([]any{other.Name}, args...)...)
	})
	if err == nil && !(n.Prefix.IsValid() && other.Prefix.IsValid()) && !(n.Prefix6.IsValid() && other.Prefix6.IsValid()) {
		err = Errorf(ErrInvalid, "networks %q and %q have no version of IP in common: expected IPv4 prefixes of both, or IPv6 prefixes",
			n.Name, other.Name)
	}
	return err
}

// Routes6 reports whether the node is an IPv6 router of the guests.
func (n Network) Routes6() bool { return n.Prefix6.IsValid() && n.ReachesOthers() }

// RoutesToPeers returns routes to the IPv4 prefixes of the peers.
func (n Network) RoutesToPeers() (all []NetworkRoute) {
	for _, p := range n.PeerPrefixes {
		if p.Addr().Is4() && n.Gateway.IsValid() {
			all = append(all, NetworkRoute{p, n.Gateway})
		}
	}
	return all
}

// ReachesOthers reports whether the nodes are routers of the guests: to hosts outside of them, or to the guests of peers.
func (n Network) ReachesOthers() bool { return n.Kind.Outside() || len(n.Peers) > 0 }

// OverlapsOutside reports whether both networks reach other networks and have addresses in common, so that
// answers from there could not be told apart.
func (n Network) OverlapsOutside(other Network) bool {
	return n.ReachesOthers() && other.ReachesOthers() && (n.Prefix.Overlaps(other.Prefix) || n.Prefix6.Overlaps(other.Prefix6))
}

// The modes of direct networks. All but the last are those of macvtap (libvirt's source mode of an interface of type direct).
const (
	// DirectBridge: guests of a node reach each other at the uplink. The default.
	DirectBridge = "bridge"
	// DirectVEPA: the switch sends frames back to the port that they came from (IEEE 802.1Qbg).
	DirectVEPA = "vepa"
	// DirectPrivate: guests of a node do not reach each other.
	DirectPrivate = "private"
	// DirectPassthrough: one guest of a node has the uplink for itself.
	DirectPassthrough = "passthrough"
	// DirectSRIOV: each NIC is a virtual function of the uplink.
	DirectSRIOV = "sriov"
)

// DirectModes returns the modes of direct networks.
func DirectModes() []string {
	return []string{DirectBridge, DirectVEPA, DirectPrivate, DirectPassthrough, DirectSRIOV}
}

// checkUplink checks what only networks with an uplink have, and lack.
func (n Network) checkUplink(bad complaint) error {
	switch {
	case n.Kind != NetworkDirect && n.Mode != "":
		return bad("mode is for direct networks: expected none for a %s one", n.Kind)
	case !n.Kind.OnWire() && (n.Uplink != "" || n.VLAN != 0):
		return bad("a %s network has no uplink and no VLAN: expected the kind bridged or direct with them", n.Kind)
	case n.Kind != NetworkBridged && n.NoProbe:
		return bad("no_probe is for bridged networks: no host is asked in a %s one", n.Kind)
	case !n.Kind.OnWire():
		return nil
	case n.Uplink == "":
		return bad("uplink is missing: expected the interface by which the nodes reach it")
	case !ValidInterface(n.Uplink) || n.Uplink == n.Bridge:
		return bad("uplink %q is not another interface: expected the name of one, of 1 to %d characters without blanks, '/' or ':'",
			Clip(n.Uplink), ifnameSize)
	case n.VLAN < 0 || n.VLAN > maxVLAN:
		return bad("VLAN %d: expected 1 to %d, or 0 for none", n.VLAN, maxVLAN)
	case n.Identity == IdentityMAC:
		return bad("identity is mac, which any host can forge on a %s network: expected tap", n.Kind)
	case n.Kind == NetworkDirect:
		return n.checkDirect(bad)
	}
	return nil
}

// checkDirect refuses what nothing would do in a direct network: nothing of Seedbed is between its guests and the uplink.
func (n Network) checkDirect(bad complaint) error {
	switch {
	case !slices.Contains(DirectModes(), n.Mode):
		return bad("mode %q is unknown: expected %s", Clip(n.Mode), strings.Join(DirectModes(), ", "))
	case n.VLAN != 0 && n.Mode != DirectSRIOV:
		return bad("VLAN %d: only mode sriov tags frames: expected that, or the interface of the VLAN as uplink", n.VLAN)
	case n.DHCP:
		return bad("DHCP is on, but in a direct network no node answers it: expected it off; guests have their addresses by CD-ROM")
	case slices.ContainsFunc(n.DNS, func(a netip.Addr) bool { return a == ResolverAddr }):
		return bad("no node is a resolver at %s in a direct network: expected others", ResolverAddr)
	}
	for _, has := range []struct {
		is   bool
		what string
	}{
		{n.MTU != 0, "MTU (its guests have that of the uplink)"}, {n.BandwidthIn != 0 || n.BandwidthOut != 0, "bandwidth"},
		{n.Allow != NetworkPermissions{}, "protection to switch off"}, {n.Domain != "" || len(n.Search) > 0, "domain"},
		{len(n.NTP) > 0, "time server"}, {len(n.Routes) > 0, "further route"}, {n.BootFile != "", "boot file"},
	} {
		if has.is {
			return bad("a direct network has no %s: nothing of Seedbed is between its guests and the uplink", has.what)
		}
	}
	return nil
}

// HasFree returns ErrInvalid if a NIC asks for free secondary addresses of a kind that the network does not have. index is the NIC's
// place, for messages.
func (n Network) HasFree(index int, nic NICRequest) error {
	switch {
	case !n.Prefix.IsValid() && nic.SecondaryCount > 0:
		return Errorf(ErrInvalid, "nics: NIC %d asks for secondary addresses in network %q, %s: expected none", index, n.Name, n.Without4())
	case !n.Prefix6.IsValid() && nic.SecondaryCount6 > 0:
		return Errorf(ErrInvalid, "nics: NIC %d asks for secondary IPv6 addresses in network %q, which has no IPv6 prefix: expected none",
			index, n.Name)
	}
	return nil
}

// Keeps returns ErrInvalid if nothing keeps a NIC in this network to what it has: in a direct one, to groups and rates.
func (n Network) Keeps(nic NIC) error {
	what := ""
	switch {
	case n.Kind.Served():
		return nil
	case len(nic.Groups) > 0:
		what = "security groups"
	case nic.BandwidthIn != 0 || nic.BandwidthOut != 0:
		what = "rates"
	default:
		return nil
	}
	return Errorf(ErrInvalid, "NIC %d is in the direct network %q, and has %s: nothing of Seedbed is between its guests and the uplink: "+
		"expected none, also none of a profile or a request that are for all NICs", nic.Index, n.Name, what)
}
