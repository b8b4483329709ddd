package netcfg

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// uplink is how the bridge of a bridged network or an overlay reaches that network on this node.
type uplink struct {
	// on is the interface of the node, which Apply does not make. It is empty for an overlay, and if the bridge stays as
	// it is, because the uplink is not usable.
	on string
	// port is the port of the bridge to it: on itself, or a link that Apply makes, of the kind made.
	port, made string
	// local is the address at which this node gets the frames of an overlay. group is that to which the frames for all go by the
	// interface with the index under, if there is one.
	local, group netip.Addr
	under        uint32
}

// The kinds of links that Apply makes for uplinks: a pair of interfaces to a bridge of the node, a VLAN, and a VXLAN.
const (
	madePair  = "veth"
	madeVLAN  = "vlan"
	madeVXLAN = "vxlan"
)

// The names of these links are one of these and digits of a digest. The second is the end of a pair that is a port of
// the node's bridge.
const (
	uplinkPrefix = "su-"
	peerPrefix   = "sp-"
)

const linkDigitsLen = 12

// linkDigits returns the digits in the names of the links of a bridge.
func linkDigits(bridge string) string {
	sum := sha256.Sum256([]byte(bridge))
	return hex.EncodeToString(sum[:linkDigitsLen/2])
}

// uplinkOf finds how the bridge of a bridged network reaches it. It returns ErrConflict if it cannot.
func (p *plan) uplinkOf(n seedbed.Network, links map[string]link, addrs []address) (uplink, error) {
	u := uplink{on: cmp.Or(p.names[n.Uplink], n.Uplink)}
	on, ok := links[u.on]
	_, _, ours := on.madeFor()
	switch {
	case !ok:
		return u, seedbed.Errorf(seedbed.ErrConflict,
			"interface %s, the uplink of network %s, does not exist on this node: make it, or name the node's own in network.uplinks",
			u.on, n.Name)
	case ours || on.ofUplink():
		return u, seedbed.Errorf(seedbed.ErrConflict,
			"interface %s, the uplink of network %s, is Seedbed's own: choose one of the node", u.on, n.Name)
	case on.mtu < mtuOf(n):
		return u, seedbed.Errorf(seedbed.ErrConflict,
			"MTU %d of network %s is more than the %d of its uplink %s: set a smaller one, or that of the uplink", mtuOf(n), n.Name, on.mtu, u.on)
	case n.VLAN != 0:
		u.port, u.made = uplinkPrefix+linkDigits(n.Bridge), madeVLAN
	case on.kind == "bridge":
		u.port, u.made = uplinkPrefix+linkDigits(n.Bridge), madePair
	default:
		u.port = u.on
		return u, free(n, on, links, addrs)
	}
	return u, nil
}

// free returns ErrConflict if an interface cannot become a port of n's bridge, since the node uses it.
func free(n seedbed.Network, on link, links map[string]link, addrs []address) error {
	bridge, there := links[n.Bridge]
	used := slices.IndexFunc(addrs, func(a address) bool { return a.index == on.index })
	switch {
	case there && on.master == bridge.index:
		return nil
	case on.master != 0:
		return seedbed.Errorf(seedbed.ErrConflict,
			"interface %s, the uplink of network %s, is a port of another interface: name that one, or a VLAN", on.name, n.Name)
	case used >= 0:
		return seedbed.Errorf(seedbed.ErrConflict,
			"interface %s, the uplink of network %s, has the address %s of this node, which would lose it: "+
				"make a bridge that has the interface and its addresses, and name that one, or choose a VLAN", on.name, n.Name, addrs[used].prefix)
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if l := links[name]; l.parent == on.index && l.takesFrames() {
			return seedbed.Errorf(seedbed.ErrConflict,
				"interface %s, the uplink of network %s, is that of %s %s, such as a guest of a direct network has: "+
					"choose another uplink, or a VLAN", on.name, n.Name, l.kind, l.name)
		}
	}
	return nil
}

// takesFrames reports whether the link gets the frames of the interface that it is on, which then cannot be a port of a bridge.
func (l link) takesFrames() bool {
	return slices.Contains([]string{"macvlan", "macvtap", "ipvlan", "ipvtap"}, l.kind)
}

// ownAddrs returns the addresses of the node that are not link-local. If no network of the plan reaches several nodes, they
// are not needed and ownAddrs returns none.
func (r *route) ownAddrs(p *plan) ([]address, error) {
	if !slices.ContainsFunc(p.networks, seedbed.Network.Wide) {
		return nil, nil
	}
	all, err := r.addrs()
	return slices.DeleteFunc(all, func(a address) bool { return a.prefix.Addr().IsLinkLocalUnicast() }), err
}

// ofUplink reports whether l is a link that Apply makes for an uplink. One without an alias is what a crash between
// making it and setting the alias leaves.
func (l link) ofUplink() bool {
	return (l.kind == madePair || l.kind == madeVLAN || l.kind == madeVXLAN) && len(l.name) == len(uplinkPrefix)+linkDigitsLen &&
		(strings.HasPrefix(l.name, uplinkPrefix) || strings.HasPrefix(l.name, peerPrefix)) &&
		(l.alias == "" || strings.HasPrefix(l.alias, aliasPrefix))
}

// right reports whether the link that Apply makes for an uplink exists as it should.
func (u uplink) right(n seedbed.Network, links map[string]link) bool {
	l, ok := links[u.port]
	if !ok || l.kind != u.made {
		return false
	}
	switch u.made {
	case madeVLAN:
		return l.parent == links[u.on].index && l.vlan == n.VLAN
	case madeVXLAN:
		return l.vxlan == vxlan{n.VNI, u.local, seedbed.VXLANPort, u.group, u.under}
	}
	_, ok = links[u.peer()]
	return ok
}

// UplinkPort returns the index of the port by which a bridge that Apply made reaches the network that it is bridged to. It
// returns ErrNotFound if the bridge is not such a one, or has lost its uplink.
func UplinkPort(bridge string) (int, error) {
	rt, err := dialRoute()
	if err != nil {
		return 0, err
	}
	defer rt.Close()
	links, err := rt.links()
	if err != nil {
		return 0, err
	}
	on := links[bridge]
	port := links[on.uplinkPort()]
	if _, _, ours := on.madeFor(); !ours || port.index == 0 || port.master != on.index || port.kind == madeVXLAN {
		return 0, seedbed.Errorf(seedbed.ErrNotFound, "interface %s is not a bridge with an uplink", bridge)
	}
	return int(port.index), nil
}

func (u uplink) peer() string { return peerPrefix + strings.TrimPrefix(u.port, uplinkPrefix) }

// makeUplink makes the link of an uplink, unless it exists as it should. It reports whether it did.
func (r *route) makeUplink(n seedbed.Network, u uplink, links map[string]link) (bool, error) {
	if u.made == "" || u.right(n, links) {
		return false, nil
	}
	if l, ok := links[u.port]; ok {
		if !l.ofUplink() {
			return false, seedbed.Errorf(seedbed.ErrConflict, "interface %s exists and was not made by Seedbed for network %s: remove it",
				u.port, n.Name)
		}
		if err := r.deleteLink(l); err != nil {
			return false, seedbed.Errorf(seedbed.ErrConflict, "network %s: remove %s: %v", n.Name, u.port, err)
		}
	}
	err := r.create(u.port, u.made, func(ae *netlink.AttributeEncoder) error { return u.data(n, ae) }, func(ae *netlink.AttributeEncoder) {
		if u.made == madeVLAN {
			ae.Uint32(unix.IFLA_LINK, links[u.on].index)
		}
	})
	if errors.Is(err, unix.EEXIST) && u.made == madeVXLAN {
		return false, seedbed.Errorf(seedbed.ErrConflict, "VXLAN %d is another's on this node: make a network of another VNI", n.VNI)
	}
	if err != nil {
		return false, seedbed.Errorf(seedbed.ErrConflict, "network %s: make %s, a %s: %v (the kernel needs the module %s)",
			n.Name, u.port, u.made, err, u.module())
	}
	return true, nil
}

func (u uplink) module() string {
	if u.made == madeVLAN {
		return "8021q"
	}
	return u.made
}

// data adds what a link of the kind is made with: VETH_INFO_PEER of linux/veth.h, or what linux/if_link.h has.
func (u uplink) data(n seedbed.Network, ae *netlink.AttributeEncoder) error {
	switch u.made {
	case madeVLAN:
		ae.Uint16(unix.IFLA_VLAN_ID, uint16(n.VLAN))
		return nil
	case madeVXLAN:
		u.vxlanData(n, ae)
		return nil
	}
	const vethInfoPeer = 1
	peer := netlink.NewAttributeEncoder()
	peer.String(unix.IFLA_IFNAME, u.peer())
	attrs, err := peer.Encode()
	ae.Bytes(vethInfoPeer, append(make([]byte, unix.SizeofIfInfomsg), attrs...))
	return err
}

// ensureWayOut attaches the bridge of a network that reaches several nodes to that network. If it cannot, the network is cut off.
func (m *Manager) ensureWayOut(rt *route, n seedbed.Network, bridge link, p *plan, links map[string]link) {
	switch u := p.uplinks[n.Bridge]; {
	case p.cutOff[n.Bridge] != nil:
	case u.made == madeVXLAN:
		p.cutOff[n.Bridge] = m.ensureOverlay(rt, n, bridge, p, links)
	case u.on != "":
		if err := m.ensureUplink(rt, bridge, u, p.alias(n), links); err != nil {
			p.cutOff[n.Bridge] = fmt.Errorf("network %s does not reach its uplink %s: %w", n.Name, u.on, err)
		}
	}
}

// ensureUplink attaches a bridge to its uplink. It changes of the interface that the node has only that it is up and,
// if it is not shared, whose port it is.
func (m *Manager) ensureUplink(rt *route, bridge link, u uplink, alias string, links map[string]link) error {
	on, port := links[u.on], links[u.port]
	if port.index == 0 || on.index == 0 {
		return seedbed.Errorf(seedbed.ErrConflict, "interface %s vanished while the bridge was attached to it", u.on)
	}
	steps := []attach{{port, bridge.index, u.made != ""}}
	if u.made == madePair {
		steps = append(steps, attach{links[u.peer()], on.index, true})
	}
	for _, a := range steps {
		if err := m.attach(rt, a, alias, on.mtu); err != nil {
			return fmt.Errorf("attach %s: %w", a.port.name, err)
		}
	}
	if !on.up {
		if err := rt.setUp(on); err != nil {
			return fmt.Errorf("bring %s up: %w", u.on, err)
		}
	}
	return nil
}

// attach is a port of a bridge, and whether Apply made it.
type attach struct {
	port   link
	master uint32
	ours   bool
}

func (m *Manager) attach(rt *route, a attach, alias string, mtu int) error {
	if a.ours {
		if a.port.alias != alias {
			if err := rt.setAlias(a.port, alias); err != nil {
				return err
			}
		}
		if a.port.mtu != mtu {
			if err := rt.setMTU(a.port, mtu); err != nil {
				return err
			}
		}
		// It must not send anything of its own.
		if err := m.setSysctl(keyConf6(a.port.name, "disable_ipv6"), 1, true); err != nil && !isAbsent(err) {
			return err
		}
	}
	if a.port.master != a.master {
		if err := rt.setMaster(a.port, a.master); err != nil {
			return err
		}
	}
	if a.ours && !a.port.up {
		return rt.setUp(a.port)
	}
	return nil
}

// retireUplinks removes the links that Apply made for uplinks of bridges that are no longer there. Those of another
// installation stay, unless all is set.
func (m *Manager) retireUplinks(rt *route, p *plan, links map[string]link, all bool) error {
	keep, foreign, local := map[string]bool{}, map[string]bool{}, map[string]netip.Addr{}
	for _, u := range p.uplinks {
		keep[strings.TrimPrefix(u.port, uplinkPrefix)] = true
		local[u.port] = u.local
	}
	for bridge := range p.foreign {
		foreign[linkDigits(bridge)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		l, ok := links[name]
		digits := strings.TrimPrefix(strings.TrimPrefix(name, uplinkPrefix), peerPrefix)
		_, mark := parseAlias(l.alias)
		// An overlay does not stay attached to a bridge that is another's now.
		kept := keep[digits] || foreign[digits] && l.kind != madeVXLAN
		// Nor does a VXLAN stay that sends from another address: the rules that come may let out in plain what is for the tunnels.
		if u := local[name]; kept && l.kind == madeVXLAN && u.IsValid() && u != l.vxlan.local {
			kept = false
		}
		if !ok || !l.ofUplink() || kept || !all && l.alias != "" && mark != p.installation {
			continue
		}
		if err := rt.deleteLink(l); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		delete(links, uplinkPrefix+digits) // an end of a pair takes the other with it
		delete(links, peerPrefix+digits)
		m.log.Info("uplink removed", "interface", name)
	}
	return m.retireTunnels(rt, p, links, all)
}

// parseVLAN reads which VLAN a link is.
func (l *link) parseVLAN(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		if b := ad.Bytes(); ad.Type() == unix.IFLA_VLAN_ID && len(b) == 2 {
			l.vlan = int(binary.NativeEndian.Uint16(b))
		}
	}
	return nil
}
