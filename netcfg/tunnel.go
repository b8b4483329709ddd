package netcfg

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/wireguard"
)

// A node that encrypts the frames of overlays has one interface of WireGuard, with a tunnel to each other such node. In the
// tunnels, a node has the address that follows from its key, and its VXLANs send to those of the others. Rules drop what
// comes or would leave by another interface.

// madeTunnels is the kind of the interface, and tunnelPrefix begins its name.
const (
	madeTunnels  = "wireguard"
	tunnelPrefix = "sw-"
)

// tunnels is what was written of the tunnels to other nodes.
type tunnels struct {
	index uint32 // of the interface
	own   seedbed.Tunnel
	peers wireguard.Peers
}

func (p *plan) encrypts() bool { return p.overlay.Encryption != nil }

// tunnelled reports whether the node is to have tunnels.
func (p *plan) tunnelled() bool {
	return p.encrypts() && p.address.IsValid() && slices.ContainsFunc(p.networks, overlaid)
}

func (p *plan) tunnelName() string { return tunnelPrefix + linkDigits(p.installation) }

func (l link) ofTunnels() bool {
	return l.kind == madeTunnels && len(l.name) == len(tunnelPrefix)+linkDigitsLen && strings.HasPrefix(l.name, tunnelPrefix) &&
		(l.alias == "" || strings.HasPrefix(l.alias, aliasPrefix))
}

// addNodes adds the addresses of the nodes, and those at which this one gets the frames of overlays.
func (p *plan) addNodes(nodes []netip.Addr) {
	p.hosts, p.nodes, p.receives, p.inner = nodes, slices.Clone(nodes), []netip.Addr{p.address}, map[netip.Addr]netip.Addr{}
	if p.encrypts() {
		own := p.overlay.Encryption.Public()
		p.receives[0] = own.Addr()
		p.nodes = append(p.nodes, own.Addr())
		have := map[seedbed.TunnelKey]int{own: 1}
		for addr, t := range p.tunnels {
			if addr != p.address {
				have[t.Key]++
			}
		}
		for addr, t := range p.tunnels {
			if addr != p.address && have[t.Key] == 1 {
				p.inner[addr] = t.Key.Addr()
				p.nodes = append(p.nodes, t.Key.Addr())
			}
		}
	}
	if g := p.overlay.Group; g.IsValid() {
		p.receives, p.nodes = append(p.receives, g), append(p.nodes, g)
	}
	slices.SortFunc(p.nodes, netip.Addr.Compare)
	p.nodes = slices.Compact(p.nodes)
}

// reach returns where frames of overlays for a node go, or the zero Addr if they go nowhere: it has no address, this one, or one
// of the other family; only one of the two encrypts; or another node has the same key.
func (p *plan) reach(node netip.Addr) netip.Addr {
	_, encrypts := p.tunnels[node]
	switch {
	case !node.IsValid() || node == p.address || node.Is4() != p.address.Is4() || encrypts && !p.encrypts():
		return netip.Addr{}
	case p.encrypts():
		return p.inner[node]
	}
	return node
}

// tunnelPeers returns the nodes to which there are tunnels.
func (p *plan) tunnelPeers() wireguard.Peers {
	peers := wireguard.Peers{}
	for addr, t := range p.tunnels {
		if p.reach(addr).IsValid() {
			peers[t.Key] = netip.AddrPortFrom(addr, t.Port)
		}
	}
	return peers
}

// ensureTunnels makes the interface of the tunnels exist as it should, if the node is to have some. It adds a new one to links.
// If it fails, it leaves no new one. addrs are those of ownAddrs.
func (m *Manager) ensureTunnels(rt *route, p *plan, links map[string]link, addrs []address) error {
	if !p.tunnelled() {
		return nil
	}
	name := p.tunnelName()
	l, there := links[name]
	if there && !l.ofTunnels() {
		return seedbed.Errorf(seedbed.ErrConflict, "interface %s exists and was not made by Seedbed: remove it", name)
	}
	if !there {
		err := rt.create(name, madeTunnels, nil, nil)
		if errors.Is(err, unix.EOPNOTSUPP) {
			return seedbed.Errorf(seedbed.ErrUnavailable, "the kernel of this node cannot encrypt overlays: load its module wireguard, or set "+
				"network.overlay.encryption to none on all nodes if the wire between them is trusted")
		}
		if err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		all, err := rt.linksOf(madeTunnels)
		if l = all[name]; err == nil && l.index == 0 {
			err = seedbed.Errorf(seedbed.ErrConflict, "interface %s vanished while it was made", name)
		}
		if err != nil {
			return err
		}
		m.log.Info("tunnels to the other nodes created", "interface", name, "port", p.overlay.Port)
	}
	if err := m.fitTunnels(rt, p, l, p.underlay(links, addrs), addrs); err != nil {
		m.tunnels = tunnels{}
		if !there {
			err = errors.Join(err, rt.deleteLink(l))
		}
		return fmt.Errorf("tunnels to the other nodes: %w", err)
	}
	links[name] = l
	return nil
}

// fitTunnels gives the interface of the tunnels what it is to have. under is the interface by which the node reaches the others.
func (m *Manager) fitTunnels(rt *route, p *plan, l, under link, addrs []address) error {
	if want := aliasPrefix + markBefore + p.installation; l.alias != want {
		if err := rt.setAlias(l, want); err != nil {
			return fmt.Errorf("set alias of %s: %w", l.name, err)
		}
	}
	if err := m.setSysctl(keyConf6(l.name, "disable_ipv6"), 0, true); err != nil {
		if isAbsent(err) {
			return seedbed.Errorf(seedbed.ErrUnavailable, "IPv6 is switched off in the kernel of this node, and has the addresses in the tunnels: "+
				"boot it without ipv6.disable")
		}
		return err
	}
	before := m.tunnels
	if before.index != l.index {
		before = tunnels{}
	}
	peers := p.tunnelPeers()
	inUse := func(err error) error {
		if errors.Is(err, unix.EADDRINUSE) {
			return seedbed.Errorf(seedbed.ErrConflict, "UDP port %d of this node is another program's: choose another in network.overlay.port",
				p.overlay.Port)
		}
		return err
	}
	now := tunnels{l.index, seedbed.Tunnel{Key: p.overlay.Encryption.Public(), Port: p.overlay.Port}, peers}
	if before.own != now.own || !maps.Equal(peers, before.peers) {
		if err := p.overlay.Encryption.Configure(l.name, p.overlay.Port, peers, before.peers); err != nil {
			return inUse(err)
		}
	}
	if err := rt.ensureTunnelAddr(l, p.receives[0], addrs); err != nil {
		return err
	}
	mtu := seedbed.EthernetMTU
	if under.index != 0 {
		mtu = under.mtu
	}
	if mtu -= seedbed.TunnelOverhead(p.address); l.mtu != mtu {
		if err := rt.setMTU(l, mtu); err != nil {
			return fmt.Errorf("set MTU %d of %s: %w", mtu, l.name, err)
		}
	}
	if !l.up {
		if err := rt.setUp(l); err != nil {
			return fmt.Errorf("bring %s up: %w", l.name, inUse(err))
		}
	}
	for key := range before.peers {
		if !peers[key].IsValid() {
			if err := rt.setTunnelRoute(l, key.Addr(), false); err != nil {
				return err
			}
		}
	}
	for key := range peers {
		if !before.peers[key].IsValid() || !l.up {
			if err := rt.setTunnelRoute(l, key.Addr(), true); err != nil {
				return err
			}
		}
	}
	m.tunnels = now
	return nil
}

// ensureTunnelAddr gives the interface of the tunnels its address, and takes others.
func (r *route) ensureTunnelAddr(l link, addr netip.Addr, addrs []address) error {
	want := address{prefix: netip.PrefixFrom(addr, addr.BitLen()), flags: unix.IFA_F_NODAD, index: l.index}
	there := false
	for _, a := range addrs {
		switch {
		case a.index != l.index:
		case a.prefix == want.prefix:
			there = true
		default:
			if err := r.setAddr(unix.RTM_DELADDR, 0, a); err != nil {
				return fmt.Errorf("take %s from %s: %w", a.prefix, l.name, err)
			}
		}
	}
	if there {
		return nil
	}
	if err := r.setAddr(unix.RTM_NEWADDR, netlink.Create|netlink.Replace, want); err != nil {
		return fmt.Errorf("add %s to %s: %w", addr, l.name, err)
	}
	return nil
}

// setTunnelRoute adds or removes the route to a node's address in its tunnel.
func (r *route) setTunnelRoute(l link, to netip.Addr, there bool) error {
	m := &rtnetlink.RouteMessage{Family: unix.AF_INET6, DstLength: 128, Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_STATIC,
		Type: unix.RTN_UNICAST, Attributes: rtnetlink.RouteAttributes{Dst: to.AsSlice(), OutIface: l.index}}
	if there {
		if err := r.rt.Route.Replace(m); err != nil {
			return fmt.Errorf("add the route to %s by %s: %w", to, l.name, err)
		}
		return nil
	}
	if err := r.rt.Route.Delete(m); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("remove the route to %s by %s: %w", to, l.name, err)
	}
	return nil
}

// retireTunnels removes the interface of the tunnels if the node is to have none. That of another installation stays, unless
// all is set.
func (m *Manager) retireTunnels(rt *route, p *plan, links map[string]link, all bool) error {
	for name, l := range links {
		_, mark := parseAlias(l.alias)
		kept := p.tunnelled() && p.tunnelless == nil && name == p.tunnelName()
		if !l.ofTunnels() || kept || !all && l.alias != "" && mark != p.installation {
			continue
		}
		if err := rt.deleteLink(l); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		delete(links, name)
		m.tunnels = tunnels{}
		m.log.Info("tunnels to the other nodes removed", "interface", name)
	}
	return nil
}

const encryptionCheck = "overlay encryption"

// checkTunnels reports which nodes this one does not reach because only one of the two encrypts.
func (p *plan) checkTunnels() (checks []seedbed.Check) {
	if p.encrypts() && !p.tunnelled() || !slices.ContainsFunc(p.networks, overlaid) {
		return nil
	}
	var plain, encrypting, same []string
	for _, a := range p.hosts {
		_, encrypts := p.tunnels[a]
		switch {
		case a == p.address:
		case p.encrypts() && !encrypts:
			plain = append(plain, a.String())
		case !p.encrypts() && encrypts:
			encrypting = append(encrypting, a.String())
		case encrypts && p.encrypts() && !p.inner[a].IsValid():
			same = append(same, a.String())
		}
	}
	add := func(name string, which []string, what, hint string) {
		if len(which) > 0 {
			checks = append(checks, failed(name, fmt.Errorf("%s: %s", what, strings.Join(which, ", ")), hint))
		}
	}
	add(encryptionCheck, plain, "this node encrypts overlays, and sends nothing to the nodes whose key it does not know",
		"set network.overlay.encryption to wireguard there as well, and restart seedbed-metadata and seedbed-worker")
	add(encryptionCheck, encrypting, "this node does not encrypt overlays, and sends nothing to the nodes that do",
		"set network.overlay.encryption to wireguard here as well, and restart seedbed-metadata and seedbed-worker")
	add("overlay keys", same, "nodes have the same key as another, and get nothing",
		"remove overlay.key from the state directory of seedbed-metadata (metadata.state) on each of them but one, and restart it")
	if p.encrypts() && len(checks) == 0 && p.tunnelless == nil {
		checks = append(checks, passed(encryptionCheck, "%s, key %s", count(len(p.tunnelPeers()), "tunnel"), p.overlay.Encryption.Public()))
	}
	return checks
}
