package netcfg

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The vocabulary of the rules. Each function is one match or statement as nft(8) writes it, in the
// kernel's own instructions. Registers 1 to 4 hold 16 bytes each; a concatenation is loaded into
// registers 1 and 2, since an interface name fills the first.

type exprs = []expr.Any

func cat(parts ...exprs) exprs { return slices.Concat(parts...) }

func load(base expr.PayloadBase, reg, offset, size uint32) *expr.Payload {
	return &expr.Payload{DestRegister: reg, Base: base, Offset: offset, Len: size}
}

func compare(op expr.CmpOp, data ...byte) expr.Any { return &expr.Cmp{Op: op, Register: 1, Data: data} }

// eth, net and l4 compare bytes of the Ethernet, network and transport header.
func eth(offset uint32, data ...byte) exprs {
	return exprs{load(expr.PayloadBaseLLHeader, 1, offset, uint32(len(data))), compare(expr.CmpOpEq, data...)}
}

func network(offset uint32, data ...byte) exprs {
	return exprs{load(expr.PayloadBaseNetworkHeader, 1, offset, uint32(len(data))), compare(expr.CmpOpEq, data...)}
}

func transport(offset uint32, data ...byte) exprs {
	return exprs{load(expr.PayloadBaseTransportHeader, 1, offset, uint32(len(data))), compare(expr.CmpOpEq, data...)}
}

// networkRange and transportRange compare one byte of the network or transport header with a range.
// They do not match a packet that ends before it.
func networkRange(offset uint32, from, to byte) exprs {
	return byteRange(expr.PayloadBaseNetworkHeader, offset, from, to)
}

func transportRange(offset uint32, from, to byte) exprs {
	return byteRange(expr.PayloadBaseTransportHeader, offset, from, to)
}

func byteRange(base expr.PayloadBase, offset uint32, from, to byte) exprs {
	return exprs{load(base, 1, offset, 1),
		&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: []byte{from}, ToData: []byte{to}}}
}

func meta(key expr.MetaKey, data ...byte) exprs {
	return exprs{&expr.Meta{Key: key, Register: 1}, compare(expr.CmpOpEq, data...)}
}

// not inverts the last comparison of e.
func not(e exprs) exprs {
	e = slices.Clone(e)
	c := *e[len(e)-1].(*expr.Cmp)
	c.Op = expr.CmpOpNeq
	e[len(e)-1] = &c
	return e
}

// masked applies a mask before the last comparison of e.
func masked(e exprs, mask ...byte) exprs {
	n := uint32(len(mask))
	return slices.Insert(slices.Clone(e), len(e)-1,
		expr.Any(&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: n, Mask: mask, Xor: make([]byte, n)}))
}

func ethertype(t uint16) exprs { return eth(12, be16(t)...) }

// toGroup matches frames to the link-local group addresses, 01:80:c2:00:00:0X (IEEE 802.1D 7.12.6).
func toGroup() exprs {
	return masked(eth(0, 0x01, 0x80, 0xc2, 0, 0, 0), 0xff, 0xff, 0xff, 0xff, 0xff, 0xf0)
}

func ipSaddr(a netip.Addr) exprs { return network(12, a.AsSlice()...) }
func ipDaddr(a netip.Addr) exprs { return network(16, a.AsSlice()...) }

// ipFragment is "ip frag-off & 0x3fff != 0": more fragments follow, or this is not the first.
func ipFragment() exprs { return not(masked(network(6, 0, 0), 0x3f, 0xff)) }

func l4proto(p byte) exprs                { return meta(expr.MetaKeyL4PROTO, p) }
func sport(proto byte, port uint16) exprs { return cat(l4proto(proto), transport(0, be16(port)...)) }
func dport(proto byte, port uint16) exprs { return cat(l4proto(proto), transport(2, be16(port)...)) }
func icmp(typ byte) exprs                 { return cat(l4proto(unix.IPPROTO_ICMP), transport(0, typ)) }
func icmp6(typ byte) exprs                { return cat(l4proto(unix.IPPROTO_ICMPV6), transport(0, typ)) }
func ipv4() exprs                         { return meta(expr.MetaKeyNFPROTO, unix.NFPROTO_IPV4) }
func ipv6() exprs                         { return meta(expr.MetaKeyNFPROTO, unix.NFPROTO_IPV6) }

// iifGuest matches the name of a guest's interface (seedbed.NICID.Tap): "sb" and at least one
// digit.
func iifGuest() exprs {
	return exprs{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: []byte("sb0"), ToData: []byte("sb9")}}
}

// in looks up register 1 in a set; notIn is its opposite.
func in(key expr.MetaKey, set string) exprs {
	return exprs{&expr.Meta{Key: key, Register: 1}, &expr.Lookup{SourceRegister: 1, SetName: set}}
}

func notIn(key expr.MetaKey, set string) exprs {
	return exprs{&expr.Meta{Key: key, Register: 1}, &expr.Lookup{SourceRegister: 1, SetName: set, Invert: true}}
}

// setMeta gives the packet what register 1 holds.
func setMeta(key expr.MetaKey) expr.Any {
	return &expr.Meta{Key: key, SourceRegister: true, Register: 1}
}

// pair looks up the interface name and a part of the packet; notPair is its opposite.
func pair(p *expr.Payload, set string) exprs { return pairOf(expr.MetaKeyIIFNAME, p, set) }

// pairOf is pair for the interface by which a packet comes or goes.
func pairOf(iface expr.MetaKey, p *expr.Payload, set string) exprs {
	return exprs{&expr.Meta{Key: iface, Register: 1}, p, &expr.Lookup{SourceRegister: 1, SetName: set}}
}

func notPair(p *expr.Payload, set string) exprs {
	return exprs{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, p, &expr.Lookup{SourceRegister: 1, SetName: set, Invert: true}}
}

// ctState matches any of the bits of expr.CtStateBit…; ctStatus those of enum ip_conntrack_status.
func ctState(bits uint32) exprs  { return ct(expr.CtKeySTATE, bits) }
func ctStatus(bits uint32) exprs { return ct(expr.CtKeySTATUS, bits) }

func ct(key expr.CtKey, bits uint32) exprs {
	mask := binary.NativeEndian.AppendUint32(nil, bits)
	return not(masked(exprs{&expr.Ct{Key: key, Register: 1}, compare(expr.CmpOpEq, 0, 0, 0, 0)}, mask...))
}

func accept() exprs { return exprs{&expr.Verdict{Kind: expr.VerdictAccept}} }

// drop drops the frame and counts it, which helps to find lost frames.
func drop() exprs { return exprs{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}} }

func gotoChain(chain string) exprs {
	return exprs{&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}}
}

func jumpChain(chain string) exprs {
	return exprs{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}
}

func be16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

// ifname returns an interface name as the kernel compares it: 16 bytes, padded with zeros.
func ifname(s string) []byte {
	b := make([]byte, 16)
	copy(b, s)
	return b
}
