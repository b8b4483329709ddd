package netcfg

import (
	"net/netip"
	"slices"
	"strings"

	"seedbed"
)

// plan is a State that was checked and sorted, so that equal states make equal plans.
type plan struct {
	networks     []seedbed.Network // by bridge name
	ports        []port            // by tap
	metadataPort uint16
	connections  uint32 // of one NIC
	fragments    uint32 // of one NIC, in a second; 0 is no bound
	installation string
	// closed are managed bridges without a network that could not be removed.
	closed []string
	// foreign holds the reason why the bridge of a network was not changed, by the network's name.
	foreign map[string]error
	// sum is the digest of the elements, once it was computed.
	sum string
}

func newPlan(s State, o Options) (*plan, error) {
	p := &plan{networks: slices.Clone(s.Networks), metadataPort: 80, connections: DefaultConnections, fragments: DefaultFragments,
		installation: o.Installation}
	if o.MetadataPort != 0 {
		if o.MetadataPort < 1 || o.MetadataPort > 65535 {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "metadata port %d is not a TCP port: expected 1 to 65535", o.MetadataPort)
		}
		p.metadataPort = uint16(o.MetadataPort)
	}
	if o.Connections != 0 {
		if o.Connections < 1 || o.Connections > maxConnections {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%d connections of one NIC: expected 1 to %d", o.Connections, maxConnections)
		}
		p.connections = uint32(o.Connections)
	}
	switch {
	case o.Fragments == NoBound:
		p.fragments = 0
	case o.Fragments < NoBound || o.Fragments > maxFragments:
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%d fragments a second of one NIC: expected 1 to %d, or %d for no bound",
			o.Fragments, maxFragments, NoBound)
	case o.Fragments != 0:
		p.fragments = uint32(o.Fragments)
	}
	if strings.ContainsFunc(o.Installation, func(r rune) bool { return r <= ' ' || r > '~' || r == '@' || r == ':' }) ||
		len(o.Installation) > 32 {
		return nil, seedbed.Errorf(seedbed.ErrInvalid,
			"installation %q is not a mark: expected at most 32 printable characters without blanks, ':' or '@'", o.Installation)
	}
	slices.SortFunc(p.networks, func(a, b seedbed.Network) int { return strings.Compare(a.Bridge, b.Bridge) })
	if err := checkNetworks(p.networks); err != nil {
		return nil, err
	}
	if s.Ports == nil {
		return p, nil
	}
	var err error
	p.ports, err = newPorts(s.Ports, p.networks)
	return p, err
}

func checkNetworks(networks []seedbed.Network) error {
	names := map[string]bool{}
	for i, n := range networks {
		if err := checkNetwork(n); err != nil {
			return err
		}
		if names[n.Name] {
			return seedbed.Errorf(seedbed.ErrInvalid, "network %s is given twice", n.Name)
		}
		names[n.Name] = true
		for _, o := range networks[:i] {
			if o.Bridge == n.Bridge {
				return seedbed.Errorf(seedbed.ErrInvalid, "networks %s and %s have the same bridge %s", o.Name, n.Name, n.Bridge)
			}
			if o.Prefix.Overlaps(n.Prefix) && o.NAT && n.NAT {
				return seedbed.Errorf(seedbed.ErrInvalid,
					"networks %s (%s) and %s (%s) overlap, and both have NAT: answers from outside could not be told apart; "+
						"give one another prefix, or switch its NAT off",
					o.Name, o.Prefix, n.Name, n.Prefix)
			}
		}
	}
	return nil
}

func checkNetwork(n seedbed.Network) error {
	if err := seedbed.CheckName("network", n.Name); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return seedbed.Errorf(seedbed.ErrInvalid, "network %s: "+format, append([]any{n.Name}, args...)...)
	}
	switch {
	case !validIfname(n.Bridge):
		return bad("bridge %q is not an interface name: expected 1 to 15 characters without blanks, '/' or ':'", n.Bridge)
	case !unicast(n.MAC):
		return bad("MAC %s of bridge %s is not a unicast address", n.MAC, n.Bridge)
	case !n.Prefix.Addr().Is4() || n.Prefix != n.Prefix.Masked() || n.Prefix.Bits() < 8 || n.Prefix.Bits() > 30:
		return bad("prefix %s is not usable: expected an IPv4 network of /8 to /30", n.Prefix)
	case n.Prefix.Contains(MetadataAddr):
		return bad("prefix %s contains the metadata address %s", n.Prefix, MetadataAddr)
	case !host(n.Prefix, n.Gateway):
		return bad("gateway %s is not a host address of %s", n.Gateway, n.Prefix)
	}
	for _, d := range n.DNS {
		if !d.Is4() {
			return bad("DNS server %s is not an IPv4 address", d)
		}
	}
	return nil
}

func (p *plan) nat() bool {
	return slices.ContainsFunc(p.networks, func(n seedbed.Network) bool { return n.NAT })
}

// validIfname is the kernel's dev_valid_name (net/core/dev.c), in ASCII.
func validIfname(s string) bool {
	return len(s) >= 1 && len(s) <= 15 && s != "." && s != ".." &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == ':' })
}

func unicast(m seedbed.MAC) bool { return m[0]&1 == 0 && m != seedbed.MAC{} }

// host reports whether a is an address of p other than its first and last.
func host(p netip.Prefix, a netip.Addr) bool {
	return a.Is4() && p.Contains(a) && a != p.Addr() && a != lastAddr(p)
}

func lastAddr(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		a[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(a)
}
