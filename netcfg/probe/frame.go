package probe

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"seedbed"
)

// The headers of Ethernet (IEEE 802.3), of ARP for IPv4 on it (RFC 826), and of IPv6 (RFC 8200 3), in bytes.
const (
	etherLen = 14
	arpLen   = 28
	ip6Len   = 40
	// ndHops is the hop limit of what is not forwarded (RFC 4861 7.1).
	ndHops  = 255
	arpAsks = 1
)

// arpHead is what ARP for IPv4 on Ethernet begins with.
var arpHead = []byte{0, 1, 8, 0, 6, 4}

// networkOrder returns a number as the kernel reads it in network byte order.
func networkOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

func ether(to [6]byte, from seedbed.MAC, typ uint16) []byte {
	return binary.BigEndian.AppendUint16(append(append([]byte(nil), to[:]...), from[:]...), typ)
}

// request returns the frame that asks who has an address.
func request(from seedbed.MAC, a netip.Addr) ([]byte, error) {
	if a.Is4() {
		to := a.As4()
		b := append(ether([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, from, unix.ETH_P_ARP), arpHead...)
		b = append(append(b, 0, arpAsks), from[:]...)
		return append(append(b, make([]byte, 4+6)...), to[:]...), nil
	}
	group, err := ndp.SolicitedNodeMulticast(a)
	if err != nil {
		return nil, err
	}
	message, err := ndp.MarshalMessageChecksum(&ndp.NeighborSolicitation{TargetAddress: a}, netip.IPv6Unspecified(), group)
	if err != nil {
		return nil, err
	}
	g := group.As16()
	b := append(ether([6]byte{0x33, 0x33, g[12], g[13], g[14], g[15]}, from, unix.ETH_P_IPV6), 0x60, 0, 0, 0) // RFC 2464 7
	b = binary.BigEndian.AppendUint16(b, uint16(len(message)))
	b = append(append(b, unix.IPPROTO_ICMPV6, ndHops), make([]byte, 16)...)
	return append(append(b, g[:]...), message...), nil
}

// answer returns the address that the sender of a frame says it has, and its MAC address. ok is false if it says nothing.
func answer(frame []byte) (a netip.Addr, mac seedbed.MAC, ok bool) {
	if len(frame) < etherLen {
		return a, mac, false
	}
	copy(mac[:], frame[6:12])
	body := frame[etherLen:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_ARP:
		if len(body) < arpLen || !bytes.HasPrefix(body, arpHead) {
			return a, mac, false
		}
		copy(mac[:], body[8:14]) // of whom it speaks, which may be another than who sends it
		return netip.AddrFrom4([4]byte(body[14:18])), mac, true
	case unix.ETH_P_IPV6:
		if len(body) < ip6Len || body[6] != unix.IPPROTO_ICMPV6 || body[7] != ndHops {
			return a, mac, false
		}
		message, err := ndp.ParseMessage(body[ip6Len:])
		told, advertises := message.(*ndp.NeighborAdvertisement)
		if err != nil || !advertises {
			return a, mac, false
		}
		for _, o := range told.Options {
			if l, is := o.(*ndp.LinkLayerAddress); is && l.Direction == ndp.Target && len(l.Addr) == len(mac) {
				copy(mac[:], l.Addr)
			}
		}
		return told.TargetAddress, mac, true
	}
	return a, mac, false
}

// filter returns the program that passes ARP and ICMPv6, and nothing of a VLAN: the port is of the network whose frames have no
// tag there.
func filter() ([]unix.SockFilter, error) {
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtVLANTagPresent},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 6},
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_ARP, SkipTrue: 3},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IPV6, SkipTrue: 3},
		bpf.LoadAbsolute{Off: etherLen + 6, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_ICMPV6, SkipTrue: 1},
		bpf.RetConstant{Val: longest},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return nil, err
	}
	out := make([]unix.SockFilter, len(program))
	for i, p := range program {
		out[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	return out, nil
}
