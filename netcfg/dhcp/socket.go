package dhcp

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"seedbed/internal/ifbind"
)

const (
	serverPort = 67
	clientPort = 68
)

// listen opens the server's port on one interface. Other servers can use the same port on other
// interfaces.
func listen(ctx context.Context, iface string) (*net.UDPConn, error) {
	lc := ifbind.ListenConfig(iface)
	pc, err := lc.ListenPacket(ctx, "udp4", fmt.Sprintf("0.0.0.0:%d", serverPort))
	if err != nil {
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

// sender writes frames to one interface. A client without an address does not answer ARP, so
// replies are sent to its MAC through a packet socket.
type sender struct {
	fd    int
	index int
}

func openSender(index int) (*sender, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // protocol 0: it receives nothing
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	return &sender{fd: fd, index: index}, nil
}

func (s *sender) Close() error { return unix.Close(s.fd) }

// mtu asks the kernel for one interface. The functions of package net list all interfaces for that, of which a node may have
// thousands.
func (s *sender) mtu(iface string) (int, error) {
	r, err := unix.NewIfreq(iface)
	if err != nil {
		return 0, err
	}
	err = unix.IoctlIfreq(s.fd, unix.SIOCGIFMTU, r)
	return int(r.Uint32()), err
}

func (s *sender) send(a *action) error {
	to := &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_IP), Ifindex: s.index, Halen: 6}
	copy(to.Addr[:], a.hw[:])
	return unix.Sendto(s.fd, datagram(a.server, a.to, a.reply.ToBytes()), 0, to)
}

func htons(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// datagram returns an IPv4 packet with a UDP datagram from the server's port to the client's.
func datagram(src, dst netip.Addr, payload []byte) []byte {
	b := make([]byte, 28, 28+len(payload))
	b[0], b[1], b[8], b[9] = 0x45, 0x10, 64, unix.IPPROTO_UDP // 0x10: low delay, as other DHCP servers set it
	binary.BigEndian.PutUint16(b[2:], uint16(28+len(payload)))
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(b[10:], ^sum(0, b[:20]))

	udp := b[20:]
	binary.BigEndian.PutUint16(udp, serverPort)
	binary.BigEndian.PutUint16(udp[2:], clientPort)
	length := uint16(8 + len(payload))
	binary.BigEndian.PutUint16(udp[4:], length)
	b = append(b, payload...)
	pseudo := sum(sum(unix.IPPROTO_UDP, b[12:20]), binary.BigEndian.AppendUint16(nil, length))
	check := ^sum(pseudo, b[20:])
	if check == 0 { // 0 would mean that there is no checksum (RFC 768)
		check = 0xffff
	}
	binary.BigEndian.PutUint16(b[26:], check)
	return b
}

// sum returns the Internet checksum of b added to start, not inverted (RFC 1071).
func sum(start uint16, b []byte) uint16 {
	t := uint32(start)
	for ; len(b) >= 2; b = b[2:] {
		t += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		t += uint32(b[0]) << 8
	}
	for t > 0xffff {
		t = t>>16 + t&0xffff
	}
	return uint16(t)
}
