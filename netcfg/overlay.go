package netcfg

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// An overlay is a network whose bridges on all nodes are one, by VXLAN (RFC 7348): a port of each bridge wraps the frames
// for guests of other nodes in UDP. Which node has which MAC, and which MAC an address, is known from the peers. Nothing is
// learned from frames, and the bridge answers ARP for peers itself.

// overlayOf returns how the bridge of an overlay reaches those of the other nodes. under is the interface that has this
// node's address, or the zero link while none has: one may come. It returns ErrUnavailable while the address is not known.
func (p *plan) overlayOf(n seedbed.Network, under link) (uplink, error) {
	u := uplink{port: uplinkPrefix + linkDigits(n.Bridge), made: madeVXLAN, local: p.receives[0]}
	growth, encrypted := seedbed.VXLANOverhead(u.local), ""
	if p.encrypts() {
		encrypted = " and encryption"
		growth += seedbed.TunnelOverhead(p.address)
	}
	room := under.mtu - growth
	switch {
	case !p.address.IsValid():
		return u, seedbed.Errorf(seedbed.ErrUnavailable, "network %s is an overlay, and the address of this node for it is not known: "+
			"the node reports it within a minute, unless it has none; name one in network.address", n.Name)
	case p.tunnelless != nil:
		return u, fmt.Errorf("network %s is an overlay: %w", n.Name, p.tunnelless)
	case under.index != 0 && room < mtuOf(n):
		return u, seedbed.Errorf(seedbed.ErrConflict, "MTU %d of network %s is more than the %d of interface %s, which has "+
			"this node's address %s, leaves for VXLAN%s: set a network's of %d, or an interface's of %d",
			mtuOf(n), n.Name, under.mtu, under.name, p.address, encrypted, room, mtuOf(n)+growth)
	}
	if u.group = p.overlay.Group; u.group.IsValid() {
		u.under = under.index
		switch {
		case u.group.Is4() != u.local.Is4():
			return u, seedbed.Errorf(seedbed.ErrConflict, "network %s is an overlay, and the group %s (network.overlay.group) is not of "+
				"the family of this node's address %s: choose a group of that family, or another address in network.address", n.Name, u.group, u.local)
		case under.index == 0:
			return u, seedbed.Errorf(seedbed.ErrUnavailable, "network %s is an overlay, and no interface has the address %s, by which the "+
				"frames for the group %s would go: give one the address, or name another in network.address", n.Name, p.address, u.group)
		}
	}
	return u, nil
}

// underlay returns the interface that has the address at which this node gets the frames of overlays, or the zero link.
func (p *plan) underlay(links map[string]link, addrs []address) link {
	at := slices.IndexFunc(addrs, func(a address) bool { return a.prefix.Addr() == p.address })
	for _, l := range links {
		if at >= 0 && l.index == addrs[at].index {
			return l
		}
	}
	return link{}
}

func overlaid(n seedbed.Network) bool { return n.VNI != 0 }

// hops is how many routers may pass on a frame to a group. By default, none does.
const hops = 64

// vxlanData adds what a VXLAN is made with.
func (u uplink) vxlanData(n seedbed.Network, ae *netlink.AttributeEncoder) {
	ae.Uint32(unix.IFLA_VXLAN_ID, uint32(n.VNI))
	local, group := uint16(unix.IFLA_VXLAN_LOCAL), uint16(unix.IFLA_VXLAN_GROUP)
	if u.local.Is6() {
		local, group = unix.IFLA_VXLAN_LOCAL6, unix.IFLA_VXLAN_GROUP6
	}
	if u.group.IsValid() {
		ae.Bytes(group, u.group.AsSlice())
		ae.Uint32(unix.IFLA_VXLAN_LINK, u.under)
		ae.Uint8(unix.IFLA_VXLAN_TTL, hops)
	}
	ae.Bytes(local, u.local.AsSlice())
	ae.Bytes(unix.IFLA_VXLAN_PORT, be16(seedbed.VXLANPort))
	ae.Uint8(unix.IFLA_VXLAN_LEARNING, 0)
}

// vxlan is what a VXLAN was made with.
type vxlan struct {
	vni   int
	local netip.Addr
	port  uint16
	group netip.Addr // of the frames for all, and the interface by which they go
	under uint32
}

func (l *link) parseVXLAN(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		switch b := ad.Bytes(); {
		case ad.Type() == unix.IFLA_VXLAN_ID && len(b) == 4:
			l.vxlan.vni = int(binary.NativeEndian.Uint32(b))
		case ad.Type() == unix.IFLA_VXLAN_LOCAL || ad.Type() == unix.IFLA_VXLAN_LOCAL6:
			l.vxlan.local, _ = netip.AddrFromSlice(b)
		case ad.Type() == unix.IFLA_VXLAN_PORT && len(b) == 2:
			l.vxlan.port = binary.BigEndian.Uint16(b)
		case ad.Type() == unix.IFLA_VXLAN_GROUP || ad.Type() == unix.IFLA_VXLAN_GROUP6:
			l.vxlan.group, _ = netip.AddrFromSlice(b)
		case ad.Type() == unix.IFLA_VXLAN_LINK && len(b) == 4:
			l.vxlan.under = binary.NativeEndian.Uint32(b)
		}
	}
	return nil
}

func (r *route) setQuiet(l link) error {
	ae := netlink.NewAttributeEncoder()
	ae.Nested(unix.IFLA_LINKINFO, func(ae *netlink.AttributeEncoder) error {
		ae.String(unix.IFLA_INFO_SLAVE_KIND, "bridge")
		ae.Nested(unix.IFLA_INFO_SLAVE_DATA, func(ae *netlink.AttributeEncoder) error {
			ae.Uint8(unix.IFLA_BRPORT_LEARNING, 0)
			ae.Uint8(unix.IFLA_BRPORT_UNICAST_FLOOD, 0)
			ae.Uint8(unix.IFLA_BRPORT_NEIGH_SUPPRESS, 1)
			return nil
		})
		return nil
	})
	return r.set(l, 0, ae)
}

// ensureOverlay attaches a bridge to its VXLAN, and tells the kernel of the guests of other nodes.
func (m *Manager) ensureOverlay(rt *route, n seedbed.Network, bridge link, p *plan, links map[string]link) error {
	u := p.uplinks[n.Bridge]
	port := links[u.port]
	if port.index == 0 {
		return seedbed.Errorf(seedbed.ErrConflict, "interface %s is not there", u.port)
	}
	if err := m.attach(rt, attach{port, bridge.index, true}, p.alias(n), mtuOf(n)); err != nil {
		return fmt.Errorf("attach %s: %w", port.name, err)
	}
	if port.master != bridge.index || port.port != quiet {
		if err := rt.setQuiet(port); err != nil {
			return fmt.Errorf("set learning and flooding off and neigh_suppress on at %s: %w", port.name, err)
		}
	}
	at := ends{bridge.index, port.index, u.under}
	known, ok := m.reached[n.Bridge]
	ok = ok && known.ends == at && port.master == bridge.index && port.up && bridge.up // the kernel forgets without these
	now := p.remotes()[n.Bridge]
	if p.overlay.Daemon {
		now = nil
	}
	gone, added := changedEntries(known.remotes, now)
	if !ok {
		all, err := rt.known()
		if err != nil {
			return err
		}
		gone, added = map[entry]bool{}, entriesOf(now)
		if u.group.IsValid() {
			added[entry{kind: tunnelEntry, addr: u.group}] = true
		}
		for _, e := range slices.Concat(all[at.port], all[at.bridge]) {
			gone[e] = true
		}
	}
	if err := rt.reach(at, gone, added); err != nil {
		delete(m.reached, n.Bridge)
		return err
	}
	m.reached[n.Bridge] = reached{at, now}
	return nil
}

// ends are the indexes of a bridge, its VXLAN, and the interface by which frames for a group go.
type ends struct{ bridge, port, under uint32 }

// reached are the guests of other nodes that the kernel knows.
type reached struct {
	ends
	remotes []remote
}

// remote is a NIC of a guest of another node.
type remote struct {
	mac  seedbed.MAC
	addr netip.Addr // not valid if it is not known
	// further are its secondary addresses, packed.
	further string
	// addr6 is not valid if the network has no IPv6 addresses.
	addr6 netip.Addr
	node  netip.Addr
	// all is where a copy of what goes to all goes for it: to its node, or nowhere if a group gets it.
	all netip.Addr
}

// remotes returns the peers in overlays, by bridge and in the order of their MACs: those on nodes that this one reaches.
func (p *plan) remotes() map[string][]remote {
	if p.far != nil {
		return p.far
	}
	p.far, p.unreached = map[string][]remote{}, 0
	type place struct {
		bridge string
		addr   netip.Addr
	}
	own := map[place]bool{}
	for _, t := range p.ports {
		if n := &p.networks[t.network]; n.VNI != 0 {
			own[place{n.Bridge, netip.AddrFrom4(t.addr)}] = true
		}
	}
	for _, s := range p.secondaries {
		if !s.far() {
			own[place{p.networks[s.network].Bridge, s.addr}] = true
		}
	}
	for _, q := range p.peers {
		switch {
		case p.uplinks[q.bridge].made != madeVXLAN:
			continue
		case !p.reach(q.node).IsValid():
			p.unreached++
			continue
		}
		here := func(a netip.Addr) bool { return own[place{q.bridge, a}] } // a guest of this node has it now
		if here(q.addr) {
			q.addr = netip.Addr{}
		}
		if q.further != "" {
			q.further = packed(slices.DeleteFunc(unpacked(q.further), here))
		}
		r := remote{q.mac, q.addr, q.further, p.addrs6[p.index[q.bridge]](q.mac), p.reach(q.node), netip.Addr{}}
		if !p.overlay.Group.IsValid() {
			r.all = r.node
		}
		p.far[q.bridge] = append(p.far[q.bridge], r)
	}
	return p.far
}

// entry is one thing that the kernel knows of guests of other nodes: which node has a MAC (tunnelEntry), that a MAC is behind the
// VXLAN (memberEntry), or which MAC an address (neighbourEntry). A tunnel of the zero MAC is a node that gets what goes to all.
type entry struct {
	kind entryKind
	mac  seedbed.MAC
	addr netip.Addr
}

type entryKind byte

const (
	tunnelEntry entryKind = iota
	memberEntry
	neighbourEntry
)

// key returns the entry without what a newer one of the same key replaces.
func (e entry) key() entry {
	switch {
	case e.kind == tunnelEntry && e.mac != seedbed.MAC{}:
		e.addr = netip.Addr{}
	case e.kind == neighbourEntry:
		e.mac = seedbed.MAC{}
	}
	return e
}

func (r remote) entries(add func(entry)) {
	add(entry{tunnelEntry, r.mac, r.node})
	add(entry{memberEntry, r.mac, netip.Addr{}})
	for _, a := range append(unpacked(r.further), r.addr, r.addr6) {
		if a.IsValid() {
			add(entry{neighbourEntry, r.mac, a})
		}
	}
}

// entriesOf returns the entries of remotes, with their nodes.
func entriesOf(remotes []remote) map[entry]bool {
	all := map[entry]bool{}
	for _, r := range remotes {
		r.entries(func(e entry) { all[e] = true })
		if r.all.IsValid() {
			all[entry{kind: tunnelEntry, addr: r.all}] = true
		}
	}
	return all
}

// changedEntries returns the entries of two lists of remotes that are not in both, from what differs in the lists.
func changedEntries(before, after []remote) (gone, added map[entry]bool) {
	gone, added = map[entry]bool{}, map[entry]bool{}
	nodes := [2]map[netip.Addr]bool{{}, {}}
	for i, list := range [][]remote{before, after} {
		for _, r := range list {
			if r.all.IsValid() {
				nodes[i][r.all] = true
			}
		}
	}
	for a := range nodes[0] {
		gone[entry{kind: tunnelEntry, addr: a}] = true
	}
	for a := range nodes[1] {
		added[entry{kind: tunnelEntry, addr: a}] = true
	}
	put := func(r remote, in map[entry]bool) { r.entries(func(e entry) { in[e] = true }) }
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && slices.Compare(before[0].mac[:], after[0].mac[:]) < 0:
			put(before[0], gone)
			before = before[1:]
		case len(before) == 0 || before[0].mac != after[0].mac:
			put(after[0], added)
			after = after[1:]
		default:
			if before[0] != after[0] {
				put(before[0], gone)
				put(after[0], added)
			}
			before, after = before[1:], after[1:]
		}
	}
	return gone, added
}

// reach makes the kernel forget and know what only one of two sets of entries has.
func (r *route) reach(at ends, gone, added map[entry]bool) error {
	replaced := make(map[entry]bool, len(added))
	for e := range added {
		replaced[e.key()] = true
	}
	for e := range gone {
		if !added[e] && !replaced[e.key()] {
			if err := r.setEntry(at, e, false); err != nil {
				return fmt.Errorf("forget %v: %w", e, err)
			}
		}
	}
	for e := range added {
		if !gone[e] {
			if err := r.setEntry(at, e, true); err != nil {
				return fmt.Errorf("add %v: %w", e, err)
			}
		}
	}
	return nil
}
