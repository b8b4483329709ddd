package netcfg

import (
	"encoding/binary"
	"errors"
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
	u := uplink{port: uplinkPrefix + linkDigits(n.Bridge), made: madeVXLAN, local: p.address}
	room := under.mtu - seedbed.VXLANOverhead(p.address)
	switch {
	case !p.address.IsValid():
		return u, seedbed.Errorf(seedbed.ErrUnavailable, "network %s is an overlay, and the address of this node for it is not known: "+
			"the node reports it within a minute, unless it has none; name one in network.address", n.Name)
	case under.index != 0 && room < mtuOf(n):
		return u, seedbed.Errorf(seedbed.ErrConflict, "MTU %d of network %s is more than the %d of interface %s, which has "+
			"this node's address %s, leaves for VXLAN: set a network's of %d, or an interface's of %d",
			mtuOf(n), n.Name, under.mtu, under.name, p.address, room, mtuOf(n)+seedbed.VXLANOverhead(p.address))
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

// vxlanData adds what a VXLAN is made with.
func (u uplink) vxlanData(n seedbed.Network, ae *netlink.AttributeEncoder) {
	ae.Uint32(unix.IFLA_VXLAN_ID, uint32(n.VNI))
	local := uint16(unix.IFLA_VXLAN_LOCAL)
	if u.local.Is6() {
		local = unix.IFLA_VXLAN_LOCAL6
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
	at := ends{bridge.index, port.index}
	known, ok := m.reached[n.Bridge]
	ok = ok && known.ends == at && port.master == bridge.index && port.up && bridge.up // the kernel forgets without these
	now := p.remotes()[n.Bridge]
	gone, added := changedEntries(known.remotes, now)
	if !ok {
		all, err := rt.known()
		if err != nil {
			return err
		}
		gone, added = map[entry]bool{}, entriesOf(now)
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

// ends are the indexes of a bridge and its VXLAN.
type ends struct{ bridge, port uint32 }

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
			own[place{p.networks[s.network].Bridge, netip.AddrFrom4(s.addr)}] = true
		}
	}
	networks := map[string]*seedbed.Network{}
	for i := range p.networks {
		networks[p.networks[i].Bridge] = &p.networks[i]
	}
	for _, q := range p.peers {
		switch {
		case p.uplinks[q.bridge].made != madeVXLAN:
			continue
		case !q.node.IsValid() || q.node == p.address || q.node.Is4() != p.address.Is4():
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
		p.far[q.bridge] = append(p.far[q.bridge], remote{q.mac, q.addr, q.further, networks[q.bridge].Addr6(q.mac), q.node})
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
		all[entry{kind: tunnelEntry, addr: r.node}] = true
	}
	return all
}

// changedEntries returns the entries of two lists of remotes that are not in both, from what differs in the lists.
func changedEntries(before, after []remote) (gone, added map[entry]bool) {
	gone, added = map[entry]bool{}, map[entry]bool{}
	nodes := [2]map[netip.Addr]bool{{}, {}}
	for i, list := range [][]remote{before, after} {
		for _, r := range list {
			nodes[i][r.node] = true
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

// setEntry adds or removes an entry (struct ndmsg of linux/neighbour.h).
func (r *route) setEntry(at ends, e entry, there bool) error {
	b := make([]byte, unix.SizeofNdMsg)
	b[0] = unix.AF_BRIDGE
	index, state, flags, extra := at.port, uint16(unix.NUD_NOARP|unix.NUD_REACHABLE), byte(unix.NTF_SELF), netlink.Replace
	switch {
	case e.kind == memberEntry:
		flags = unix.NTF_MASTER
	case e.kind == neighbourEntry:
		if b[0] = unix.AF_INET; e.addr.Is6() {
			b[0] = unix.AF_INET6
		}
		index, state, flags = at.bridge, unix.NUD_PERMANENT, 0
	case e.mac == seedbed.MAC{}:
		extra = netlink.Append
	}
	binary.NativeEndian.PutUint32(b[4:], index)
	binary.NativeEndian.PutUint16(b[8:], state)
	b[10] = flags
	ae := netlink.NewAttributeEncoder()
	ae.Bytes(unix.NDA_LLADDR, e.mac[:])
	if e.addr.IsValid() {
		ae.Bytes(unix.NDA_DST, e.addr.AsSlice())
	}
	attrs, err := ae.Encode()
	if err != nil {
		return err
	}
	h := netlink.Header{Type: unix.RTM_DELNEIGH, Flags: netlink.Request | netlink.Acknowledge}
	if there {
		h.Type, h.Flags = unix.RTM_NEWNEIGH, h.Flags|netlink.Create|extra
	}
	_, err = r.nl.Execute(netlink.Message{Header: h, Data: append(b, attrs...)})
	if !there && errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// entries returns what the kernel knows of guests of other nodes, by the indexes of bridges and VXLANs.
func (r *route) entries() (map[uint32][]entry, error) {
	all := map[uint32][]entry{}
	for _, family := range []byte{unix.AF_BRIDGE, unix.AF_INET, unix.AF_INET6} {
		b := make([]byte, unix.SizeofNdMsg)
		b[0] = family
		msgs, err := r.nl.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.RTM_GETNEIGH, Flags: netlink.Request | netlink.Dump}, Data: b})
		if err != nil {
			return nil, fmt.Errorf("list neighbours: %w", err)
		}
		for _, m := range msgs {
			if index, e, ok := parseEntry(m.Data); ok {
				all[index] = append(all[index], e)
			}
		}
	}
	return all, nil
}

// parseEntry returns the entry of a message, and its interface. It returns false for what is not an entry of an overlay.
func parseEntry(b []byte) (index uint32, e entry, ok bool) {
	if len(b) < unix.SizeofNdMsg {
		return 0, e, false
	}
	index, state, flags := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint16(b[8:]), b[10]
	ad, err := netlink.NewAttributeDecoder(b[unix.SizeofNdMsg:])
	if err != nil {
		return 0, e, false
	}
	for ad.Next() {
		switch a := ad.Bytes(); {
		case ad.Type() == unix.NDA_LLADDR && len(a) == len(e.mac):
			e.mac = seedbed.MAC(a)
		case ad.Type() == unix.NDA_DST:
			e.addr, _ = netip.AddrFromSlice(a)
		}
	}
	permanent := state&unix.NUD_PERMANENT != 0
	switch {
	case ad.Err() != nil:
		return 0, e, false
	case b[0] != unix.AF_BRIDGE:
		e.kind = neighbourEntry
		return index, e, permanent
	case flags&unix.NTF_SELF != 0:
		e.kind = tunnelEntry
		return index, e, e.addr.IsValid()
	}
	e.kind, e.addr = memberEntry, netip.Addr{}
	return index, e, !permanent
}
