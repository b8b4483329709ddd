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
	index  uint32              // of the interface
	own    seedbed.Tunnel      // its key and port
	peers  wireguard.Peers     // nil if they are not known
	routes map[netip.Addr]bool // into the tunnels; nil if they are not known
}

func (p *plan) encrypts() bool { return p.overlay.Encryption != nil }

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

// minTunnelMTU is the least MTU of an interface with IPv6 (RFC 8200 5): the kernel takes IPv6 from one with less.
const minTunnelMTU = 1280

// tunnelMTU returns what the interface of the tunnels has room for. under is the interface by which the node reaches the others.
func (p *plan) tunnelMTU(under link) int {
	mtu := seedbed.EthernetMTU
	if under.index != 0 {
		mtu = under.mtu
	}
	return mtu - seedbed.TunnelOverhead(p.address)
}

// hindrance returns why the node cannot have tunnels, or nil.
func (p *plan) hindrance(links map[string]link, addrs []address) error {
	l, there := links[p.tunnelName()]
	under := p.underlay(links, addrs)
	if there && !l.ofTunnels() {
		return seedbed.Errorf(seedbed.ErrConflict, "interface %s exists and was not made by Seedbed: remove it", l.name)
	}
	if err := p.overlay.Encryption.Err(); err != nil {
		return err
	}
	if _, err := readSysctl(keyConf6("all", "disable_ipv6")); isAbsent(err) {
		return seedbed.Errorf(seedbed.ErrUnavailable, "IPv6 is switched off in the kernel of this node, and has the addresses in the tunnels: "+
			"boot it without ipv6.disable")
	}
	if mtu := p.tunnelMTU(under); mtu < minTunnelMTU {
		return seedbed.Errorf(seedbed.ErrConflict, "MTU %d of interface %s, which has this node's address %s, is too small to encrypt overlays: "+
			"give it at least %d", under.mtu, under.name, p.address, under.mtu+minTunnelMTU-mtu)
	}
	return nil
}

// ensureTunnels makes the interface of the tunnels exist, with its key and its peers, if the node is to have some. It does not bring
// it up. It adds a new one to links. addrs are those of ownAddrs. What keeps the node from having tunnels is p.tunnelless, and the
// overlays end at the node; what else fails leaves what is there.
func (m *Manager) ensureTunnels(rt *route, p *plan, links map[string]link, addrs []address) error {
	p.tunnelless, p.tunnelFault = nil, nil
	if !p.tunnelled {
		return nil
	}
	if p.tunnelless = p.hindrance(links, addrs); p.tunnelless != nil {
		return nil
	}
	name := p.tunnelName()
	if _, there := links[name]; !there {
		switch l, err := rt.makeTunnels(name); {
		case errors.Is(err, unix.EOPNOTSUPP):
			p.tunnelless = seedbed.Errorf(seedbed.ErrUnavailable, "the kernel of this node cannot encrypt overlays: load its module wireguard, "+
				"or set network.overlay.encryption to none on all nodes if the wire between them is trusted")
			return nil
		case err != nil:
			return m.failedTunnels(p, fmt.Errorf("make %s: %w", name, err))
		default:
			m.log.Info("tunnels to the other nodes created", "interface", name, "port", p.overlay.Port)
			links[name] = l
		}
	}
	l := links[name]
	if want := aliasPrefix + markBefore + p.installation; l.alias != want {
		if err := rt.setAlias(l, want); err != nil {
			return m.failedTunnels(p, fmt.Errorf("set alias of %s: %w", name, err))
		}
	}
	if m.tunnels.index != l.index {
		m.tunnels = tunnels{index: l.index}
	}
	own, peers := seedbed.Tunnel{Key: p.overlay.Encryption.Public(), Port: p.overlay.Port}, p.tunnelPeers()
	if m.tunnels.own == own && maps.Equal(peers, m.tunnels.peers) {
		return nil
	}
	if err := p.overlay.Encryption.Configure(name, p.overlay.Port, peers, m.tunnels.peers); err != nil {
		m.tunnels = tunnels{}
		return m.failedTunnels(p, err)
	}
	m.tunnels.own, m.tunnels.peers = own, peers
	return nil
}

func (r *route) makeTunnels(name string) (link, error) {
	if err := r.create(name, madeTunnels, nil, nil); err != nil {
		return link{}, err
	}
	all, err := r.linksOf(madeTunnels)
	if err == nil && all[name].index == 0 {
		err = errors.New("it vanished")
	}
	return all[name], err
}

// failedTunnels notes why the tunnels are not as they should be, and returns it as the error of Apply. That another has the port
// is not one: no other network waits for it.
func (m *Manager) failedTunnels(p *plan, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		p.tunnelFault = portTaken(p.overlay.Port, p.tunnelName())
		m.once(p.tunnelFault.Error(), "overlays do not reach beyond this node; what is on the node works", "err", p.tunnelFault)
		return nil
	}
	p.tunnelFault = fmt.Errorf("tunnels to the other nodes: %w", err)
	return p.tunnelFault
}

// portTaken returns the error of the port of tunnels that is not free.
func portTaken(port uint16, own string) error {
	const hint = "choose another in network.overlay.port"
	holder, err := wireguard.Holder(port, own)
	switch {
	case err != nil || holder == "":
		return seedbed.Errorf(seedbed.ErrConflict, "UDP port %d of this node is another program's: %s", port, hint)
	case strings.HasPrefix(holder, tunnelPrefix):
		return seedbed.Errorf(seedbed.ErrConflict, "UDP port %d of this node is that of %s, the tunnels of another installation of Seedbed: %s",
			port, holder, hint)
	}
	return seedbed.Errorf(seedbed.ErrConflict, "UDP port %d of this node is that of interface %s, another WireGuard: %s", port, holder, hint)
}

// openTunnels brings the interface of the tunnels up, with its address and the routes to the other nodes. The rules are in force.
func (m *Manager) openTunnels(rt *route, p *plan, links map[string]link, addrs []address) error {
	l, there := links[p.tunnelName()]
	if !there || !p.tunnelled || p.tunnelless != nil || p.tunnelFault != nil {
		return nil
	}
	if err := m.fitTunnels(rt, p, l, p.tunnelMTU(p.underlay(links, addrs)), addrs); err != nil {
		m.tunnels.routes = nil
		return m.failedTunnels(p, err)
	}
	return nil
}

func (m *Manager) fitTunnels(rt *route, p *plan, l link, mtu int, addrs []address) error {
	if l.mtu != mtu { // first: one that is too small takes IPv6 from the interface
		if err := rt.setMTU(l, mtu); err != nil {
			return fmt.Errorf("set MTU %d of %s: %w", mtu, l.name, err)
		}
	}
	if err := m.setSysctl(keyConf6(l.name, "disable_ipv6"), 0, true); err != nil {
		return err
	}
	if !l.up {
		m.tunnels.routes = nil // the kernel forgets them
		if err := rt.setUp(l); err != nil {
			return fmt.Errorf("bring %s up: %w", l.name, err)
		}
	}
	if err := rt.ensureTunnelAddr(l, p.receives[0], addrs); err != nil {
		return err
	}
	want := map[netip.Addr]bool{}
	for key := range m.tunnels.peers {
		want[key.Addr()] = true
	}
	has := m.tunnels.routes
	if has == nil {
		var err error
		if has, err = tunnelRoutes(l); err != nil {
			return fmt.Errorf("list the routes by %s: %w", l.name, err)
		}
	}
	for to := range has {
		if !want[to] {
			if err := rt.setTunnelRoute(l, to, false); err != nil {
				return err
			}
		}
	}
	for to := range want {
		if !has[to] {
			if err := rt.setTunnelRoute(l, to, true); err != nil {
				return err
			}
		}
	}
	m.tunnels.routes = want
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

// tunnelRoutes returns to which addresses of nodes routes lead by the interface of the tunnels. The kernel lists only those.
func tunnelRoutes(l link) (map[netip.Addr]bool, error) {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetOption(netlink.GetStrictCheck, true); err != nil {
		return nil, err
	}
	of := rtnetlink.RouteMessage{Family: unix.AF_INET6, Protocol: unix.RTPROT_STATIC,
		Attributes: rtnetlink.RouteAttributes{OutIface: l.index}}
	b, err := of.MarshalBinary()
	if err != nil {
		return nil, err
	}
	msgs, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request | netlink.Dump}, Data: b})
	if err != nil {
		return nil, err
	}
	all := map[netip.Addr]bool{}
	for _, m := range msgs {
		var r rtnetlink.RouteMessage
		if err := r.UnmarshalBinary(m.Data); err != nil {
			return nil, err
		}
		to, ok := netip.AddrFromSlice(r.Attributes.Dst)
		if ok && r.DstLength == 128 && r.Table == unix.RT_TABLE_MAIN && r.Attributes.OutIface == l.index {
			all[to] = true
		}
	}
	return all, nil
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
		kept := p.tunnelled && p.tunnelless == nil && name == p.tunnelName()
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
