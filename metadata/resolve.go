package metadata

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"seedbed"
)

// Facts are what the kernel knows of the caller on one connection.
type Facts struct {
	// Bridge is the interface that the listener is bound to.
	Bridge string
	// Mark is the packet mark of the connection's SYN; zero if it did not pass Seedbed's rules.
	Mark uint32
	// Peer is the caller's address, never in IPv4-mapped form.
	Peer netip.Addr
	// MAC is what the neighbour table of Bridge has for Peer.
	MAC seedbed.MAC
}

// resolve finds the NIC that the facts belong to. If there is no such NIC, reason says why, for the
// log.
//
// Over IPv6, and in networks whose addresses come from elsewhere, guests choose their addresses, so only
// the mark and the MAC identify the caller. Its neighbour entry on the bridge shows that it is on the link
// and not behind a router.
func (x *index) resolve(f Facts) (p port, reason string) {
	var ok bool
	if f.Mark != 0 {
		p, ok = x.port(f.Mark)
	} else if p, _, ok = x.portOf(f.Bridge, f.MAC); ok && x.state.Networks[p.network].Identity != seedbed.IdentityMAC {
		return port{}, "no packet mark"
	}
	switch {
	case !ok && f.Mark == 0:
		return port{}, "no packet mark, and no NIC has the MAC there"
	case !ok:
		return port{}, "no such NIC"
	case x.bridge(p) != f.Bridge:
		return port{}, "the NIC is on another bridge"
	case p.mac != f.MAC:
		return port{}, "the MAC is not the NIC's"
	case !f.Peer.Is6() && x.state.Networks[p.network].Addressed() && p.addr != f.Peer && !x.secondary(p, f.Peer):
		return port{}, "the address is not the NIC's"
	}
	return p, ""
}

// secondary reports whether an address is a secondary one of a NIC.
func (x *index) secondary(p port, a netip.Addr) bool {
	g, _ := x.state.Guest(p.instance)
	i := slices.IndexFunc(g.NICs, func(nic seedbed.GuestNIC) bool { return nic.MAC == p.mac })
	return i >= 0 && slices.Contains(g.NICs[i].Secondary, a)
}

// resolve finds the NIC of the facts in x. An unmarked caller is never a NIC whose tap is on this
// node, because frames of that NIC have a mark. resolve returns an error if it cannot find out
// whether the tap is here.
func (s *Server) resolve(ctx context.Context, x *index, f Facts) (p port, reason string, err error) {
	p, reason = x.resolve(f)
	if reason != "" || f.Mark != 0 || s.cfg.HasLink == nil {
		return p, reason, nil
	}
	_, mark, _ := x.portOf(f.Bridge, f.MAC)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	tap := seedbed.NICID(mark).Tap()
	here, err := s.cfg.HasLink(ctx, tap)
	switch {
	case err != nil:
		return port{}, "", fmt.Errorf("is %s on this host: %w", tap, err)
	case here:
		return port{}, "no packet mark, and the NIC's tap is on this host", nil
	}
	return p, "", nil
}
