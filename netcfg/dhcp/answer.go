package dhcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"seedbed"
)

// defaultLease is the lease time of an offer that has none.
const defaultLease = time.Hour

// action is what to do about one request.
type action struct {
	mac  seedbed.MAC
	addr netip.Addr
	// reply is nil if nothing is to be sent.
	reply *dhcpv4.DHCPv4
	// server is the source of the reply, to its destination, and hw the destination MAC of the
	// frame.
	server, to netip.Addr
	hw         seedbed.MAC
	// lease is the time that an acknowledgement grants; zero for any other action.
	lease              time.Duration
	released, declined bool
}

var broadcastMAC = seedbed.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

var (
	// errIgnored marks a request that is not answered.
	errIgnored = errors.New("not for this server")
	errTooFast = errors.New("client is too fast")
)

// clientOf returns the MAC of the client, from the fixed part of a packet (RFC 2131 2).
func clientOf(packet []byte) (seedbed.MAC, error) {
	const hwType, hwLength, relay, hwAddr, end = 1, 2, 24, 28, 44
	switch {
	case len(packet) < end || packet[0] != byte(dhcpv4.OpcodeBootRequest),
		packet[hwType] != byte(iana.HWTypeEthernet), packet[hwLength] != 6:
		return seedbed.MAC{}, fmt.Errorf("%w: no request of an Ethernet client", errIgnored)
	case [4]byte(packet[relay:]) != [4]byte{}:
		return seedbed.MAC{}, fmt.Errorf("%w: relayed", errIgnored)
	}
	return seedbed.MAC(packet[hwAddr:]), nil
}

// answer decides on one packet, the payload of a UDP datagram. An error says why there is no
// answer. allow reports whether a known client may ask now. It is called before the packet is parsed
// and a reply built, so that a client that is refused costs little.
func (s *Server) answer(packet []byte, mtu int, allow func(seedbed.MAC) bool) (*action, error) {
	mac, err := clientOf(packet)
	if err != nil {
		return nil, err
	}
	o, ok := s.Lookup(mac)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: %s is not known", errIgnored, mac)
	case !allow(mac):
		return nil, fmt.Errorf("%w: %s", errTooFast, mac)
	}
	req, err := dhcpv4.FromBytes(packet)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("offer for %s: %w", mac, err)
	}
	a := &action{mac: mac, addr: o.Addr, server: o.server()}
	switch t := req.MessageType(); t {
	case dhcpv4.MessageTypeDiscover:
		return a, a.respond(req, o, dhcpv4.MessageTypeOffer, mtu)
	case dhcpv4.MessageTypeRequest:
		return a, a.request(req, o, mtu)
	case dhcpv4.MessageTypeInform:
		if addrOf(req.ClientIPAddr) != o.Addr {
			return nil, fmt.Errorf("%w: inform with another address", errIgnored)
		}
		return a, a.respond(req, o, dhcpv4.MessageTypeInform, mtu)
	case dhcpv4.MessageTypeRelease:
		if addrOf(req.ClientIPAddr) != o.Addr {
			return nil, fmt.Errorf("%w: release of another address", errIgnored)
		}
		a.released = true
		return a, nil
	case dhcpv4.MessageTypeDecline:
		a.declined = true
		return a, nil
	default:
		return nil, fmt.Errorf("%w: message type %d", errIgnored, t)
	}
}

// request follows RFC 2131 4.3.2: which address the client means depends on the state that it is
// in.
func (a *action) request(req *dhcpv4.DHCPv4, o Offer, mtu int) error {
	wanted := addrOf(req.RequestedIPAddress())      // SELECTING and INIT-REBOOT
	if c := addrOf(req.ClientIPAddr); c.IsValid() { // RENEWING and REBINDING
		wanted = c
	}
	if id := addrOf(req.ServerIdentifier()); id.IsValid() && id != o.server() {
		return fmt.Errorf("%w: the client took another server's offer", errIgnored)
	}
	switch {
	case !wanted.IsValid():
		return fmt.Errorf("%w: request without an address", errIgnored)
	case wanted != o.Addr:
		return a.refuse(req, o)
	}
	return a.respond(req, o, dhcpv4.MessageTypeAck, mtu)
}

// respond builds an offer or acknowledgement. MessageTypeInform stands for the acknowledgement of
// an inform, which does not grant a lease.
func (a *action) respond(req *dhcpv4.DHCPv4, o Offer, t dhcpv4.MessageType, mtu int) error {
	reply, err := replyTo(req)
	if err != nil {
		return err
	}
	o.describe(reply, mtu)
	if t == dhcpv4.MessageTypeInform {
		reply.ClientIPAddr = req.ClientIPAddr
		t = dhcpv4.MessageTypeAck
	} else {
		reply.YourIPAddr = o.Addr.AsSlice()
		o.grant(reply)
		if t == dhcpv4.MessageTypeAck {
			reply.ClientIPAddr = req.ClientIPAddr
			a.lease = o.lease()
		}
	}
	reply.UpdateOption(dhcpv4.OptMessageType(t))
	trim(reply, req)
	a.reply = reply
	a.direct(req)
	return nil
}

// refuse builds a NAK, which makes the client start over. It is broadcast (RFC 2131 4.1).
func (a *action) refuse(req *dhcpv4.DHCPv4, o Offer) error {
	reply, err := replyTo(req)
	if err != nil {
		return err
	}
	reply.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak))
	reply.UpdateOption(dhcpv4.OptServerIdentifier(o.server().AsSlice()))
	reply.UpdateOption(dhcpv4.OptMessage("this address is not yours"))
	a.reply, a.to, a.hw = reply, broadcastAddr, broadcastMAC
	return nil
}

// replyTo returns an empty reply to req, with the client identifier as RFC 6842 requires. It omits
// relay information and an identifier that no client would send.
func replyTo(req *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	reply, err := dhcpv4.NewReplyFromRequest(req)
	if err != nil {
		return nil, err
	}
	reply.Options.Del(dhcpv4.OptionRelayAgentInformation)
	if len(reply.Options.Get(dhcpv4.OptionClientIdentifier)) > 255 {
		reply.Options.Del(dhcpv4.OptionClientIdentifier)
	}
	return reply, nil
}

var broadcastAddr = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// direct sets the destination of an offer or acknowledgement (RFC 2131 4.1).
func (a *action) direct(req *dhcpv4.DHCPv4) {
	a.hw = a.mac
	switch c := addrOf(req.ClientIPAddr); {
	case c.IsValid():
		a.to = a.addr // it equals c by now, or the client cannot use the address c
	case req.IsBroadcast():
		a.to, a.hw = broadcastAddr, broadcastMAC
	default:
		a.to = a.addr
	}
}

// addrOf converts ip to an Addr. A missing address and 0.0.0.0 become the zero Addr.
func addrOf(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip.To4())
	if !ok || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}
