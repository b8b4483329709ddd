package metadata

import (
	"net/netip"

	"seedbed"
)

// Facts are what the kernel knows of the caller on one connection.
type Facts struct {
	// Bridge is the interface that the listener is bound to.
	Bridge string
	// Mark is the packet mark of the connection's SYN; zero when no rule of ours saw it.
	Mark uint32
	// Peer is the caller's address, never in IPv4-mapped form.
	Peer netip.Addr
	// MAC is the one that the neighbour table of Bridge has for Peer.
	MAC seedbed.MAC
}

// identity is what a connection is pinned to.
type identity struct {
	instance seedbed.InstanceID
	mark     uint32
}

// resolve finds the NIC that the facts belong to. When there is none, reason
// says why, for the log.
func (x *index) resolve(f Facts) (p *port, reason string) {
	p = x.marks[f.Mark]
	switch {
	case f.Mark == 0:
		return nil, "no packet mark"
	case p == nil:
		return nil, "no such NIC"
	case p.bridge != f.Bridge:
		return nil, "the NIC is on another bridge"
	case p.nic.MAC != f.MAC:
		return nil, "the MAC is not the NIC's"
	case p.nic.Addr != f.Peer:
		return nil, "the address is not the NIC's"
	}
	return p, ""
}

// entry finds the record of a pinned identity: the instance is still served
// and still has that NIC.
func (x *index) entry(id identity) *entry {
	p := x.marks[id.mark]
	if p == nil || p.entry.id() != id.instance {
		return nil
	}
	return p.entry
}
