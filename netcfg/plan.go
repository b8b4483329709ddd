package netcfg

import (
	"net/netip"
	"slices"
	"strings"

	"seedbed"
)

// plan is a State that was checked and put in order, so that equal states give equal plans.
type plan struct {
	networks     []seedbed.Network // by bridge name
	ports        []Port            // by tap
	metadataPort uint16
	// closed are bridges of ours without a network that could not be removed.
	closed []string
	// foreign is why a bridge that a network wants was left as it is, by name.
	foreign map[string]error
}

func newPlan(s State, o Options) (*plan, error) {
	p := &plan{networks: slices.Clone(s.Networks), ports: slices.Clone(s.Ports), metadataPort: 80}
	if o.MetadataPort != 0 {
		if o.MetadataPort < 1 || o.MetadataPort > 65535 {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "metadata port %d is not a TCP port: want 1 to 65535", o.MetadataPort)
		}
		p.metadataPort = uint16(o.MetadataPort)
	}
	slices.SortFunc(p.networks, func(a, b seedbed.Network) int { return strings.Compare(a.Bridge, b.Bridge) })
	slices.SortFunc(p.ports, func(a, b Port) int { return strings.Compare(a.Tap, b.Tap) })
	if err := checkNetworks(p.networks); err != nil {
		return nil, err
	}
	if err := p.checkPorts(); err != nil {
		return nil, err
	}
	return p, nil
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
			if o.Prefix.Overlaps(n.Prefix) {
				return seedbed.Errorf(seedbed.ErrInvalid, "networks %s (%s) and %s (%s) overlap", o.Name, o.Prefix, n.Name, n.Prefix)
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
		return bad("bridge %q is not an interface name: want 1 to 15 characters without blanks, '/' or ':'", n.Bridge)
	case !unicast(n.MAC):
		return bad("MAC %s of bridge %s is not a unicast address", n.MAC, n.Bridge)
	case !n.Prefix.Addr().Is4() || n.Prefix != n.Prefix.Masked() || n.Prefix.Bits() < 8 || n.Prefix.Bits() > 30:
		return bad("prefix %s is not usable: want an IPv4 network of /8 to /30", n.Prefix)
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

func (p *plan) checkPorts() error {
	networks := map[string]seedbed.Network{}
	for _, n := range p.networks {
		networks[n.Bridge] = n
	}
	for i, t := range p.ports {
		n, ok := networks[t.Bridge]
		bad := func(format string, args ...any) error {
			return seedbed.Errorf(seedbed.ErrInvalid, "port %q: "+format, append([]any{t.Tap}, args...)...)
		}
		switch {
		case !validIfname(t.Tap):
			return bad("not an interface name: want 1 to 15 characters without blanks, '/' or ':'")
		case i > 0 && p.ports[i-1].Tap == t.Tap:
			return bad("given twice")
		case !ok:
			return bad("bridge %q belongs to no network of the state", t.Bridge)
		case !unicast(t.MAC):
			return bad("MAC %s is not a unicast address", t.MAC)
		case t.Mark == 0:
			return bad("mark 0 names nobody")
		case !host(n.Prefix, t.Addr) || t.Addr == n.Gateway:
			return bad("address %s is not a guest's address in %s", t.Addr, n.Prefix)
		}
	}
	return nil
}

// only leaves the networks that keep says, and their ports.
func (p *plan) only(keep func(seedbed.Network) bool) {
	p.networks = slices.DeleteFunc(p.networks, func(n seedbed.Network) bool { return !keep(n) })
	p.ports = slices.DeleteFunc(p.ports, func(t Port) bool {
		return !slices.ContainsFunc(p.networks, func(n seedbed.Network) bool { return n.Bridge == t.Bridge })
	})
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

// host tells whether a is an address of p other than its first and last.
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
