// Package dhcp6 is a DHCPv6 server (RFC 8415) for one bridge whose guests are all known: each NIC has one address, which the
// caller provides. It must run behind filters that set a NIC's mark on what it sends, since a guest names itself as it likes.
package dhcp6

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/ifbind"
)

// Offer is the configuration of one client.
type Offer struct {
	Addr netip.Addr
	// Prefix is the subnet on the link.
	Prefix netip.Prefix
	// DNS are resolvers, and Search the domains in which the client looks up short names.
	DNS    []netip.Addr
	Search []string
	// NTP are time servers.
	NTP []netip.Addr
	// BootURL is what firmware loads that boots from the network; empty for nothing.
	BootURL string
	// Lease is how long the client may keep the address.
	Lease time.Duration
}

// Server answers the DHCPv6 clients of one interface.
type Server struct {
	// MAC is that of the interface, which names the server.
	MAC seedbed.MAC
	// Lookup returns the offer for the NIC with a mark, and false for an unknown one. It must be quick.
	Lookup func(mark uint32) (Offer, bool)
	Log    *slog.Logger
}

const serverPort, clientPort = 547, 546

// allServers is the group to which clients send (All_DHCP_Relay_Agents_and_Servers of RFC 8415 7.1).
var allServers = net.ParseIP("ff02::1:2")

// Serve answers on the interface until ctx ends, and then returns nil. It returns ErrUnavailable if the interface does not
// exist, or was removed or replaced while serving; it can then be called again. It needs CAP_NET_RAW and CAP_NET_BIND_SERVICE,
// and Linux 5.19.
func (s *Server) Serve(ctx context.Context, iface string) error {
	ifi, err := net.InterfaceByName(iface)
	if err != nil {
		return seedbed.Errorf(seedbed.ErrUnavailable, "serve DHCPv6 on %s: %v", iface, err)
	}
	conn, err := listen(ctx, ifi)
	if err != nil {
		return fmt.Errorf("serve DHCPv6 on %s: %w", iface, err)
	}
	defer conn.Close()
	buf, control := make([]byte, 1500), make([]byte, 64) // a longer request is cut, and does not parse
	return ifbind.Loop{What: "serve DHCPv6", Iface: ifi, Conn: conn}.Run(ctx, func() error {
		n, cn, _, from, err := conn.ReadMsgUDPAddrPort(buf, control)
		if err != nil {
			return fmt.Errorf("read DHCPv6 request on %s: %w", iface, err)
		}
		s.handle(conn, buf[:n], ifbind.MarkOf(control[:cn]), from, iface)
		return nil
	})
}

func (s *Server) handle(conn *net.UDPConn, packet []byte, mark uint32, from netip.AddrPort, iface string) {
	reply, err := s.answer(packet, mark)
	if err == nil { // to the NIC with the mark, and to no other that has the address
		_, _, err = conn.WriteMsgUDPAddrPort(reply, controlOf(mark), netip.AddrPortFrom(from.Addr(), clientPort))
	}
	if err != nil {
		s.Log.Debug("DHCPv6 request not answered", "interface", iface, "from", from.Addr(), "err", err)
	}
}

// listen opens the server's port on one interface, with the marks of what arrives.
func listen(ctx context.Context, ifi *net.Interface) (*net.UDPConn, error) {
	lc := ifbind.ListenConfig(ifi.Name)
	bind := lc.Control
	lc.Control = func(network, address string, raw syscall.RawConn) error {
		var inner error
		err := raw.Control(func(fd uintptr) {
			if inner = ifbind.ReceiveMarks(fd); errors.Is(inner, unix.ENOPROTOOPT) {
				inner = seedbed.Errorf(seedbed.ErrUnavailable, "the kernel does not tell the marks of packets: Linux 5.19 or later does")
			}
		})
		return errors.Join(err, inner, bind(network, address, raw))
	}
	pc, err := lc.ListenPacket(ctx, "udp6", fmt.Sprintf("[::]:%d", serverPort))
	if err != nil {
		return nil, err
	}
	if err := ipv6.NewPacketConn(pc).JoinGroup(ifi, &net.UDPAddr{IP: allServers}); err != nil {
		pc.Close()
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

// controlOf returns the control message that sets the mark of a packet (cmsg(3), SO_MARK of socket(7)).
func controlOf(mark uint32) []byte {
	b := make([]byte, unix.CmsgSpace(4))
	h := unix.Cmsghdr{Level: unix.SOL_SOCKET, Type: unix.SO_MARK}
	h.SetLen(unix.CmsgLen(4))
	n, err := binary.Encode(b, binary.NativeEndian, h)
	if err != nil {
		panic(err) // a header has a fixed size, and b has room for it
	}
	binary.NativeEndian.PutUint32(b[n:], mark)
	return b
}
