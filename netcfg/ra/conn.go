package ra

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"

	"seedbed"
	"seedbed/internal/ifbind"
)

// hops is the hop limit of messages that no router has forwarded (RFC 4861 6.1.1).
const hops = 255

// socket is a raw socket that is bound to an interface. An ndp.Conn would name the interface in each address: package net then lists
// all interfaces of the node, which takes longer the more guests there are.
type socket struct {
	*ipv6.PacketConn
	buf [1500]byte
}

// listen opens a socket that gets the solicitations of an interface, and sends from the address of the metadata service there.
func listen(ctx context.Context, ifi *net.Interface) (*socket, error) {
	c := ifbind.ListenConfig(ifi.Name)
	raw, err := c.ListenPacket(ctx, "ip6:ipv6-icmp", seedbed.MetadataAddr6LinkLocal.String())
	if err != nil {
		return nil, err
	}
	s := &socket{PacketConn: ipv6.NewPacketConn(raw)}
	var only ipv6.ICMPFilter
	only.SetAll(true)
	only.Accept(ipv6.ICMPTypeRouterSolicitation)
	err = errors.Join(s.SetICMPFilter(&only), s.JoinGroup(ifi, &net.IPAddr{IP: allRouters.AsSlice()}), s.SetMulticastInterface(ifi),
		s.SetMulticastLoopback(false), s.SetHopLimit(hops), s.SetMulticastHopLimit(hops), s.SetControlMessage(ipv6.FlagHopLimit, true))
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ReadFrom returns the next message, and who sent it. It skips what came by a router, and what is not a message.
func (s *socket) ReadFrom() (ndp.Message, netip.Addr, error) {
	for {
		n, cm, from, err := s.PacketConn.ReadFrom(s.buf[:])
		if err != nil {
			return nil, netip.Addr{}, err
		}
		sender, ok := netip.AddrFromSlice(from.(*net.IPAddr).IP)
		m, err := ndp.ParseMessage(s.buf[:n])
		if ok && err == nil && cm != nil && cm.HopLimit == hops {
			return m, sender, nil
		}
	}
}

// WriteTo sends a message. The kernel adds its checksum (RFC 3542 3.1).
func (s *socket) WriteTo(m ndp.Message, to netip.Addr) error {
	b, err := ndp.MarshalMessage(m)
	if err == nil {
		_, err = s.PacketConn.WriteTo(b, nil, &net.IPAddr{IP: to.AsSlice()})
	}
	return err
}
