package seedbed

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"strings"
)

// NetworkKind says what a network's guests reach, and from where they are reached.
type NetworkKind string

// The kinds of networks.
const (
	// NetworkNAT: guests reach other networks with the address of their node, and are not reached from there.
	NetworkNAT NetworkKind = "nat"
	// NetworkRouted: guests reach other networks, and are reached from there, with their own addresses. The
	// routers around the node must know the way.
	NetworkRouted NetworkKind = "routed"
	// NetworkIsolated: guests reach each other and the services of their node, such as metadata. DHCP hands
	// out no default route. Without any prefix, nothing of Seedbed gives them addresses; see Bare.
	NetworkIsolated NetworkKind = "isolated"
	// NetworkBridged: guests are hosts of the network that the node reaches by an interface, the uplink. That
	// network has its own routers. Addresses come from Seedbed or, without any prefix, from its DHCP server.
	NetworkBridged NetworkKind = "bridged"
	// NetworkDirect is as bridged, without a bridge: QEMU is at the uplink itself, by macvtap, or the guest has a virtual function
	// of it. Nothing of Seedbed is in between: no service of the node, no filters.
	NetworkDirect NetworkKind = "direct"
)

// Outside reports whether the guests of such a network reach networks outside the node.
func (k NetworkKind) Outside() bool { return k == NetworkNAT || k == NetworkRouted }

// OnWire reports whether guests of such a network are hosts of one that is not Seedbed's.
func (k NetworkKind) OnWire() bool { return k == NetworkBridged || k == NetworkDirect }

// Served reports whether the nodes serve the guests of such a network.
func (k NetworkKind) Served() bool { return k != NetworkDirect }

// Network is a network that instances have NICs in. On each node it is a bridge that Seedbed manages,
// with its addresses, DHCP and filters.
type Network struct {
	Name string      `json:"name"`
	Kind NetworkKind `json:"kind"`
	// Bridge is the interface name, at most 15 characters.
	Bridge string `json:"bridge"`
	// MAC is the bridge's own address. It is chosen once and kept.
	MAC MAC `json:"mac"`
	// Prefix is the subnet of the guests, and Gateway the bridge's address in it. An isolated network's
	// gateway is the address of DHCP alone. A bridged network's is a router that is not Seedbed's. It may
	// have none, and no prefix, of IPv4 or at all.
	Prefix  netip.Prefix `json:"prefix"`
	Gateway netip.Addr   `json:"gateway"`
	// Uplink is the interface of each node by which guests of a bridged network reach it: a bridge of the
	// node, or an interface that the node does not use itself. A node may give it another name.
	Uplink string `json:"uplink,omitempty"`
	// VLAN is the tag of the network on the uplink (IEEE 802.1Q); 0 means untagged.
	VLAN int `json:"vlan,omitempty"`
	// VNI is the number of an overlay, 1 to 16,777,215: the bridges of all nodes are then one, by VXLAN (RFC 7348). 0 means
	// that the network of each node is its own, or that it is bridged.
	VNI int `json:"vni,omitempty"`
	// DNS are the resolvers that DHCP hands out. With ResolverAddr among them, each node is one; see Resolves.
	DNS []netip.Addr `json:"dns"`
	// NAT is set for the kind nat. Nodes of releases before 0.4.0 read it instead of Kind.
	NAT  bool `json:"nat"`
	DHCP bool `json:"dhcp"`
	NetworkOptions
	// Identity says how callers are identified: "tap" (the default; only NICs of Seedbed on this
	// node, by their packet mark) or "mac" (also unmarked callers, by their MAC in the neighbour
	// table, for guests whose tap is not Seedbed's).
	Identity string `json:"identity,omitempty"`
	// Allow says which protections are off for this network.
	Allow NetworkPermissions `json:"allow,omitzero"`
	// Peers are the networks whose guests its guests reach, by their qualified names, sorted. Each of them has this one among
	// its peers. PeerPrefixes are their prefixes, to which the way is by the gateway.
	Peers        []string       `json:"peers,omitempty"`
	PeerPrefixes []netip.Prefix `json:"peer_prefixes,omitempty"`
	// ACLs are the rules that PVC's client made; see ACLGroups.
	ACLs []NetworkACL `json:"acls,omitempty"`
	// Published says which other projects than its own may use it. It is only shown to that project.
	// Nodes are not told.
	Published *Publication `json:"published,omitempty"`
	// Addresses counts its IPv4 addresses. The API shows it, and nodes are not told.
	Addresses *AddressCount `json:"addresses,omitempty"`
}

// NetworkOptions are settings of a network that may change while guests use it.
type NetworkOptions struct {
	// Range holds the addresses from which NICs get one that do not ask for one. Zero means the whole prefix.
	Range AddrRange `json:"range,omitzero"`
	// Kept are addresses that no NIC gets: those of hosts that Seedbed does not know.
	Kept []AddrRange `json:"kept,omitempty"`
	// Reservations are in the order of their addresses, which other NICs do not get. NICs that exist keep theirs. Those of IPv6 decide
	// the first address; see Addr6.
	Reservations []Reservation `json:"reservations,omitempty"`
	// Floating are the addresses that the network lends to NICs, so that other hosts reach them. FloatingUplink is the
	// interface of each node that answers for them, which may have another name on a node.
	Floating       []AddrRange `json:"floating,omitempty"`
	FloatingUplink string      `json:"floating_uplink,omitempty"`
	// Description is one line for people.
	Description string `json:"description,omitempty"`
	// MTU is that of the bridge and of the guests' NICs, in bytes; 0 means the kernel's, 1,500.
	MTU int `json:"mtu,omitempty"`
	// BandwidthIn is how fast each NIC may receive, and BandwidthOut how fast it may send; 0 means as fast as it can.
	BandwidthIn  BitRate `json:"bandwidth_in,omitempty"`
	BandwidthOut BitRate `json:"bandwidth_out,omitempty"`
	// Domain is the DNS domain of the guests, and Search are the domains in which they look up short names.
	Domain string   `json:"domain,omitempty"`
	Search []string `json:"search,omitempty"`
	// NTP are time servers. With TimeAddr among them, guests reach that of their node there.
	NTP []netip.Addr `json:"ntp,omitempty"`
	// Routes are further routes of the guests. Those of IPv6 are by the node, which advertises them.
	Routes []NetworkRoute `json:"routes,omitempty"`
	// BootFile is what firmware loads that boots from the network: a file by TFTP (PXE) from BootServer or,
	// without one, a URL.
	BootServer netip.Addr `json:"boot_server,omitzero"`
	BootFile   string     `json:"boot_file,omitempty"`
	// Prefix6 is the IPv6 subnet of the guests, a /64; see Addr6. Without one, guests have link-local IPv6 addresses alone.
	Prefix6 netip.Prefix `json:"prefix6,omitzero"`
	// Range6 is the part of Prefix6 in which NICs have their first addresses: one of /65 to /80, whose addresses end in the 48 bits of
	// the MAC address of the NIC. Without one, see Addr6.
	Range6 netip.Prefix `json:"range6,omitzero"`
	// Router6 is the address of the nodes in Prefix6. The zero Addr means its first.
	Router6 netip.Addr `json:"gateway6,omitzero"`
	// SLAAC makes guests choose their addresses in Prefix6 by router advertisements (RFC 4862). Otherwise they ask DHCPv6.
	SLAAC bool `json:"slaac,omitempty"`
	// NoProbe gives guests of a bridged network their addresses without asking on the wire whether a host uses them.
	NoProbe bool `json:"no_probe,omitempty"`
	// Mode is how guests of a direct network are at the uplink: one of DirectModes. Unlike other options, it stays as it is.
	Mode string `json:"mode,omitempty"`
}

// Equal reports whether the options are the same.
func (o NetworkOptions) Equal(other NetworkOptions) bool {
	return o.Description == other.Description && o.Range == other.Range && slices.Equal(o.Kept, other.Kept) &&
		slices.Equal(o.Reservations, other.Reservations) && slices.Equal(o.Floating, other.Floating) &&
		o.FloatingUplink == other.FloatingUplink &&
		o.MTU == other.MTU && o.BandwidthIn == other.BandwidthIn && o.BandwidthOut == other.BandwidthOut && o.Domain == other.Domain &&
		slices.Equal(o.Search, other.Search) && slices.Equal(o.NTP, other.NTP) && slices.Equal(o.Routes, other.Routes) &&
		o.BootServer == other.BootServer && o.BootFile == other.BootFile && o.Prefix6 == other.Prefix6 && o.Range6 == other.Range6 &&
		o.Router6 == other.Router6 && o.SLAAC == other.SLAAC &&
		o.NoProbe == other.NoProbe && o.Mode == other.Mode
}

// The bounds of a network's settings. DHCP has room for no more.
const (
	EthernetMTU     = 1500 // RFC 894
	MinMTU          = 1280 // IPv6 needs as much (RFC 8200 5)
	MaxMTU          = 9216
	minBandwidth    = BitRate(1_000_000)
	maxBandwidth    = BitRate(32_000_000_000) // tc-tbf(8) counts bytes a second in 32 bits
	maxVLAN         = 4094                    // IEEE 802.1Q 9.6
	MaxVNI          = 1<<24 - 1               // RFC 7348 5
	maxNetworkDNS   = 8
	maxNetworkNTP   = 4
	maxNetworkKept  = 64
	maxRoutes       = 8
	maxSearch       = 6
	maxSearchText   = 255
	maxDescription  = 256
	maxBootFile     = 127 // the field file of a BOOTP packet less its NUL (RFC 2131 2)
	ifnameSize      = 15  // IFNAMSIZ less its NUL (linux/if.h)
	maxNetworkBits  = 30
	leastPrefixBits = 8
)

// Check returns ErrInvalid, which says what would be right, unless the network is usable. Its name may be
// a qualified one.
func (n Network) Check() error {
	bad := func(format string, args ...any) error {
		return Errorf(ErrInvalid, "network %q: "+format, append([]any{Clip(n.Name)}, args...)...)
	}
	if err := CheckName("network", ShortName(n.Name)); err != nil {
		return err
	}
	switch {
	case !n.Kind.Outside() && n.Kind != NetworkIsolated && !n.Kind.OnWire():
		return bad("kind %q is unknown: expected nat, routed, isolated, bridged or direct", Clip(string(n.Kind)))
	case n.NAT != (n.Kind == NetworkNAT):
		return bad("NAT is %t, and the kind %s", n.NAT, n.Kind)
	case !ValidInterface(n.Bridge):
		return bad("bridge %q is not an interface name: expected 1 to %d characters without blanks, '/' or ':'", Clip(n.Bridge), ifnameSize)
	case n.MAC[0]&1 != 0 || n.MAC == MAC{}:
		return bad("the MAC address %s of its bridge is not a unicast address", n.MAC)
	case n.Identity != "" && n.Identity != IdentityTap && n.Identity != IdentityMAC:
		return bad("identity is %q: expected tap or mac", Clip(n.Identity))
	}
	switch {
	case n.VNI < 0 || n.VNI > MaxVNI:
		return bad("VNI %d: expected 1 to %d, or 0 for a network that is not an overlay", n.VNI, MaxVNI)
	case n.VNI != 0 && n.Kind.OnWire():
		return bad("a %s network has no VNI: it reaches all nodes by its uplink", n.Kind)
	case n.VNI != 0 && n.MTU == 0:
		return bad("an overlay needs an MTU, which leaves room for VXLAN between the nodes: expected one such as 1450")
	case n.VNI != 0 && n.Identity == IdentityMAC:
		return bad("identity is mac, which is not for overlays: expected tap")
	}
	if err := n.checkUplink(bad); err != nil {
		return err
	}
	check := n.checkBare
	if n.Addressed() || n.Prefix != (netip.Prefix{}) {
		check = n.checkPrefix
	}
	if err := check(bad); err != nil {
		return err
	}
	if err := errors.Join(cmp.Or(n.checkPrefix6(bad), n.checkRange6(bad)), n.checkPeers(bad)); err != nil {
		return err
	}
	if err := checkServers("DNS", n.DNS, maxNetworkDNS, n.Prefix6.IsValid(), bad); err != nil {
		return err
	}
	return n.checkOptions(bad)
}

// checkPrefix checks the addresses of the network.
func (n Network) checkPrefix(bad complaint) error {
	switch {
	case n.Prefix == netip.Prefix{} && n.Prefix6.IsValid():
		return n.checkNo4(bad)
	case !n.Prefix.IsValid() || !n.Prefix.Addr().Is4() || n.Prefix != n.Prefix.Masked() ||
		n.Prefix.Bits() < leastPrefixBits || n.Prefix.Bits() > maxNetworkBits:
		return bad("prefix %s is not usable: expected an IPv4 subnet of /%d to /%d, such as 10.99.0.0/24",
			n.Prefix, leastPrefixBits, maxNetworkBits)
	case special(n.Prefix):
		return bad("prefix %s is not usable: expected a subnet without loopback, link-local, multicast or reserved addresses", n.Prefix)
	case !n.Host(n.Gateway) && (!n.Kind.OnWire() || n.Gateway.IsValid()):
		return bad("gateway %s is not an address of a host in %s", n.Gateway, n.Prefix)
	}
	return nil
}

// Addressed reports whether Seedbed gives the NICs of the network their addresses. A network without any prefix has them from
// elsewhere, or none: it is bridged, direct, or isolated.
func (n Network) Addressed() bool { return n.Prefix.IsValid() || n.Prefix6.IsValid() }

// Bare reports whether the network is plain Ethernet between guests: nothing gives these addresses that Seedbed knows of.
func (n Network) Bare() bool { return !n.Addressed() && !n.Kind.OnWire() }

// checkBare checks that a network without any prefix has nothing that needs one.
func (n Network) checkBare(bad complaint) error {
	switch {
	case n.Kind.Outside():
		return bad("it has no prefix: expected an IPv4 subnet such as 10.99.0.0/24, or an IPv6 one such as fd12:3456:789a:1::/64, or " +
			"the kind isolated, bridged or direct, whose guests may have their addresses from elsewhere")
	case n.Kind.Served() && slices.Contains(n.DNS, ResolverAddr):
		return bad("without a prefix, it has no resolver at %s: expected others", ResolverAddr)
	case n.Gateway.IsValid() || n.DHCP || n.Range.First.IsValid() || len(n.Kept) > 0 || len(n.Reservations) > 0 || len(n.Routes) > 0 ||
		n.BootFile != "":
		return bad("without a prefix, its addresses come from elsewhere: " +
			"expected no gateway, DHCP, range, kept addresses, reservations, routes and boot file")
	case n.Kind == NetworkIsolated && n.Identity == IdentityMAC:
		return bad("identity is mac, and without a prefix nothing keeps a guest from the address of another: expected tap")
	}
	return nil
}

// Only6 reports whether the NICs of the network have IPv6 addresses alone.
func (n Network) Only6() bool { return n.Addressed() && !n.Prefix.IsValid() }

// Probed reports whether hosts that Seedbed does not know may use the addresses of its NICs, so that they are asked first.
func (n Network) Probed() bool { return n.Kind == NetworkBridged && n.Addressed() && !n.NoProbe }

type complaint = func(format string, args ...any) error

// checkServers checks the addresses of servers. v6 is whether they may have IPv6 addresses.
func checkServers(what string, all []netip.Addr, most int, v6 bool, bad complaint) error {
	if len(all) > most {
		return bad("%d %s servers: expected at most %d", len(all), what, most)
	}
	for _, a := range all {
		switch {
		case a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" || a.Is6() && (a.Is4In6() || a.IsLinkLocalUnicast() || a.IsLoopback()):
			return bad("%s server %s is not the address of a host", what, a)
		case a == ResolverAddr6:
			return bad("%s server %s is another address of the resolver: expected %s, with which guests learn of both", what, a, ResolverAddr)
		case a == TimeAddr6:
			return bad("%s server %s is another address of the time server: expected %s, with which guests learn of both", what, a, TimeAddr)
		case !a.Is4() && !v6:
			return bad("%s server %s is not the IPv4 address of a host", what, a)
		}
	}
	return nil
}

func (n Network) checkOptions(bad complaint) error {
	if n.Range.First.IsValid() && (!n.Host(n.Range.First) || !n.Host(n.Range.Last)) {
		return bad("range %s is not one of hosts in %s", n.Range, n.Prefix)
	}
	if len(n.Kept) > maxNetworkKept {
		return bad("%d ranges are kept out: expected at most %d", len(n.Kept), maxNetworkKept)
	}
	for _, r := range n.Kept {
		if p := n.prefixOf(r.First); !p.Contains(r.First) || !p.Contains(r.Last) {
			return bad("%q is kept out, which is not a part of %s", r, p)
		}
	}
	if err := n.checkReservations(bad); err != nil {
		return err
	}
	if err := n.checkFloating(bad); err != nil {
		return err
	}
	if !line(n.Description) {
		return bad("its description is not one line of at most %d bytes", maxDescription)
	}
	if n.MTU != 0 && (n.MTU < MinMTU || n.MTU > MaxMTU) {
		return bad("MTU %d: expected %d to %d, or 0 for the default", n.MTU, MinMTU, MaxMTU)
	}
	if err := CheckBandwidth(n.BandwidthIn, n.BandwidthOut); err != nil {
		return bad("%v", err)
	}
	if n.Domain != "" && !validDomain(n.Domain) {
		return bad("domain %q is not a DNS name", Clip(n.Domain))
	}
	if len(n.Search) > maxSearch || len(strings.Join(n.Search, " ")) > maxSearchText {
		return bad("%d search domains: expected at most %d of %d characters in all", len(n.Search), maxSearch, maxSearchText)
	}
	for _, d := range n.Search {
		if !validDomain(d) {
			return bad("search domain %q is not a DNS name", Clip(d))
		}
	}
	if err := checkServers("time", n.NTP, maxNetworkNTP, n.Prefix6.IsValid(), bad); err != nil {
		return err
	}
	if len(n.Routes) > maxRoutes {
		return bad("%d routes: expected at most %d", len(n.Routes), maxRoutes)
	}
	for _, r := range n.Routes {
		if r.Prefix.Addr().Is6() {
			if err := n.checkRoute6(r, bad); err != nil {
				return err
			}
			continue
		}
		if !r.Prefix.IsValid() || !r.Prefix.Addr().Is4() || r.Prefix != r.Prefix.Masked() || !n.Host(r.Via) {
			return bad("route %s via %s: expected an IPv4 subnet, and the address of a router in %s", r.Prefix, r.Via, n.Prefix)
		}
	}
	return n.checkBoot(bad)
}

func (n Network) checkBoot(bad complaint) error {
	server, file := n.BootServer, n.BootFile
	switch {
	case file == "" && !server.IsValid():
		return nil
	case file == "" || len(file) > maxBootFile || strings.ContainsFunc(file, func(r rune) bool { return r <= ' ' || r > '~' }):
		return bad("boot file %q: expected 1 to %d printable characters", Clip(file), maxBootFile)
	case server.IsValid():
		return checkServers("boot", []netip.Addr{server}, 1, false, bad)
	case !strings.HasPrefix(file, "http://") && !strings.HasPrefix(file, "https://"):
		return bad("boot file %q: expected an http or https URL, or a boot server with it", file)
	}
	return nil
}

// The values of Network.Identity.
const (
	IdentityTap = "tap"
	IdentityMAC = "mac"
)

// NetworkPermissions lists what guests may do only if their network allows it.
type NetworkPermissions struct {
	// Addresses: sending from IP addresses, and answering ARP and ND for addresses, that are not
	// the guest's (routers).
	Addresses bool `json:"addresses,omitempty"`
	// DHCPServer: answering DHCP and DHCPv6.
	DHCPServer bool `json:"dhcp_server,omitempty"`
	// RouterAdvertisements: sending router advertisements and redirects.
	RouterAdvertisements bool `json:"router_advertisements,omitempty"`
	// MetadataAddresses: claiming 169.254.169.254, fd00:ec2::254 or fe80::a9fe:a9fe by ARP or ND.
	MetadataAddresses bool `json:"metadata_addresses,omitempty"`
}
