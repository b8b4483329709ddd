package netcfg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// neighbours queries the kernel's ARP and ND tables, one entry at a time. A failed exchange may
// leave an answer in the socket, which is then replaced.
type neighbours struct {
	mu     sync.Mutex
	conn   *netlink.Conn
	closed bool
}

func openNeighbours() (*neighbours, error) {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, err
	}
	return &neighbours{conn: c}, nil
}

func (n *neighbours) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.conn == nil {
		return nil
	}
	c := n.conn
	n.conn = nil
	return c.Close()
}

// Neighbour returns the MAC that the kernel has for an address on the interface with that index. It
// sends one RTM_GETNEIGH, which takes some microseconds at any size of the table. It returns
// ErrNotFound if there is no entry with an answer.
func (m *Manager) Neighbour(ctx context.Context, ifindex int, ip netip.Addr) (seedbed.MAC, error) {
	if err := ctx.Err(); err != nil {
		return seedbed.MAC{}, err
	}
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() || ifindex <= 0 {
		return seedbed.MAC{}, seedbed.Errorf(seedbed.ErrInvalid,
			"neighbour %s on interface %d: expected an address and an interface index", ip, ifindex)
	}
	msgs, err := m.neigh.ask(neighRequest(ifindex, ip))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return seedbed.MAC{}, noNeighbour(ifindex, ip)
	}
	if err != nil {
		return seedbed.MAC{}, fmt.Errorf("neighbour %s on interface %d: %w", ip, ifindex, err)
	}
	for _, msg := range msgs {
		if mac, ok := parseNeigh(msg.Data); ok {
			return mac, nil
		}
	}
	return seedbed.MAC{}, noNeighbour(ifindex, ip)
}

func noNeighbour(ifindex int, ip netip.Addr) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "no neighbour %s on interface %d", ip, ifindex)
}

func (n *neighbours) ask(m netlink.Message) ([]netlink.Message, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errors.New("the manager is closed")
	}
	if n.conn == nil {
		c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
		if err != nil {
			return nil, err
		}
		n.conn = c
	}
	msgs, err := n.conn.Execute(m)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) {
		n.conn.Close()
		n.conn = nil
	}
	return msgs, err
}

// neighRequest returns a request with struct ndmsg and NDA_DST (linux/neighbour.h).
func neighRequest(ifindex int, ip netip.Addr) netlink.Message {
	dst := ip.AsSlice()
	b := make([]byte, unix.SizeofNdMsg, unix.SizeofNdMsg+unix.SizeofRtAttr+len(dst))
	b[0] = unix.AF_INET
	if ip.Is6() {
		b[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(b[4:], uint32(ifindex))
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(dst)))
	b = binary.NativeEndian.AppendUint16(b, unix.NDA_DST)
	b = append(b, dst...)
	return netlink.Message{Header: netlink.Header{Type: unix.RTM_GETNEIGH, Flags: netlink.Request}, Data: b}
}

// parseNeigh returns the MAC of an entry that is or was confirmed.
func parseNeigh(b []byte) (seedbed.MAC, bool) {
	if len(b) < unix.SizeofNdMsg {
		return seedbed.MAC{}, false
	}
	const usable = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT
	if binary.NativeEndian.Uint16(b[8:])&usable == 0 {
		return seedbed.MAC{}, false
	}
	ad, err := netlink.NewAttributeDecoder(b[unix.SizeofNdMsg:])
	if err != nil {
		return seedbed.MAC{}, false
	}
	for ad.Next() {
		if a := ad.Bytes(); ad.Type() == unix.NDA_LLADDR && len(a) == 6 {
			return seedbed.MAC(a), true
		}
	}
	return seedbed.MAC{}, false
}

// HasLink reports whether the namespace has an interface of that name. It sends one RTM_GETLINK,
// which takes some microseconds at any number of interfaces.
func (m *Manager) HasLink(ctx context.Context, name string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if !seedbed.ValidInterface(name) {
		return false, seedbed.Errorf(seedbed.ErrInvalid, "interface %q: expected 1 to 15 characters without blanks, '/' or ':'", name)
	}
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFNAME, name)
	ae.Uint32(unix.IFLA_EXT_MASK, rtextFilterSkipStats)
	attrs, err := ae.Encode()
	if err != nil {
		return false, err
	}
	_, err = m.neigh.ask(netlink.Message{Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request},
		Data: append(make([]byte, unix.SizeofIfInfomsg), attrs...)})
	switch {
	case errors.Is(err, unix.ENODEV):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for interface %s: %w", name, err)
	}
	return true, nil
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
	if e.addr.IsMulticast() {
		ae.Uint32(unix.NDA_IFINDEX, at.under)
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
			if index, e, ok := parseEntry(m.Data); ok && !(r.daemon && ofDaemon(m.Data)) {
				all[index] = append(all[index], e)
			}
		}
	}
	return all, nil
}

// ofDaemon reports whether another program made the entry of a message: it says so, or the entry is one of a MAC that stays.
// Those that setEntry makes are not.
func ofDaemon(b []byte) bool {
	state, flags := binary.NativeEndian.Uint16(b[8:]), b[10]
	return flags&unix.NTF_EXT_LEARNED != 0 || b[0] == unix.AF_BRIDGE && state&unix.NUD_PERMANENT != 0
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
