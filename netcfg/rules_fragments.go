package netcfg

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// DefaultFragments is how many fragments a second the node takes of one NIC unless Options says
// another number.
//
// The kernel keeps the fragments of unfinished packets in a queue of 4 MiB that the node and all
// guests share, one for IPv4 and one for IPv6, and drops every fragment while it is full. A fragment
// of a usual frame takes 2.5 KiB there. It stays for 30 seconds, over IPv6 for 60. A NIC that sends
// 60 at once and then 6 a second thus holds at most 600 KiB over IPv4 and 1 MiB over IPv6.
const DefaultFragments = 6

const (
	// maxFragments is the largest rate whose bytes fit into the kernel's numbers.
	maxFragments = 100_000
	// fragmentBurst is how many seconds' fragments may come at once: with DefaultFragments, those of
	// the longest datagram.
	fragmentBurst = 10
	// fragmentBytes is the length of the packets that the rate counts. The queue is of bytes, and a
	// guest's frame may have 64 KiB.
	fragmentBytes = 1500
)

// fragmentSets returns the set of NICs by bridge and MAC, and those of NICs whose rate is tracked, in
// packets and in bytes. The bridge table has proved the MAC. Other stations of a bridge are in none.
func fragmentSets() []set {
	nic := nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeEtherAddr)
	rates := func(name string) set {
		return set{name: name, key: nic, concat: true, size: nicsSize, timeout: sourceTime}
	}
	return []set{
		{name: "nics", key: nic, concat: true, of: func(p *plan, t *port) (string, string, bool) {
			return string(ifname(p.networks[t.network].Bridge)) + string(t.mac[:]) + "\x00\x00", "", true
		}},
		rates("fragment-rates"), rates("fragment-bytes"),
	}
}

// toFragments sends fragments through fragmentRules, before the kernel puts them together. That is
// here and not at the bridge's hooks: with br_netfilter the kernel does it for what guests of one
// bridge send each other too, and it does it for what reaches the node past the bridge.
func toFragments() []rule {
	return []rule{
		{"IPv4 fragments", cat(ipv4(), ipFragment(), jumpChain("fragments"))},
		{"IPv6 fragments", cat(ipv6(), ip6Fragment(), jumpChain("fragments"))},
	}
}

// fragmentRules bound what one NIC can hold of the node's fragment queues.
func fragmentRules(p *plan) []rule {
	rules := []rule{
		{"fragments of a guest's port without a bridge", cat(in(expr.MetaKeyIIFNAME, "ports"), drop())},
		{"fragments past the bridge, from a port that is not listed", cat(iifGuest(), toGroup(), drop())},
	}
	if p.fragments == 0 {
		return rules
	}
	over := func(set string, typ expr.LimitType, of, burst uint32) exprs {
		each := p.fragments * of
		limit := &expr.Limit{Type: typ, Rate: uint64(each), Unit: expr.LimitTimeSecond, Burst: each * burst, Over: true}
		return exprs{&expr.Dynset{SrcRegKey: 1, SetName: set, Operation: unix.NFT_DYNSET_OP_UPDATE, Exprs: []expr.Any{limit}}}
	}
	nic := pair(etherSaddr(), "nics")
	return append(rules,
		rule{"too many fragments", cat(nic, over("fragment-rates", expr.LimitTypePkts, 1, fragmentBurst), drop())},
		// The kernel adds one second's bytes to the burst.
		rule{"too many bytes in fragments",
			cat(nic, over("fragment-bytes", expr.LimitTypePktBytes, fragmentBytes, fragmentBurst-1), drop())})
}

func laterFragment(f family) exprs {
	if f.name == "6" {
		return ip6LaterFragment()
	}
	return not(masked(network(6, 0, 0), 0x1f, 0xff))
}

// firstFragment matches a packet that is only the beginning of one.
func firstFragment(f family) exprs {
	if f.name == "6" {
		return ip6Fragment()
	}
	return ipFragment()
}

// fragmentKey loads what the fragments of a packet have in common: the port, the addresses and the identification.
func fragmentKey(w way, f family) exprs {
	key := flowKey(w, f)
	at := reg + 1 + 2*f.addr.Bytes/4
	if f.name == "6" {
		return append(key, &expr.Exthdr{DestRegister: at, Type: unix.IPPROTO_FRAGMENT, Offset: 4, Len: 4, Op: expr.ExthdrOpIpv6})
	}
	return append(key, load(expr.PayloadBaseNetworkHeader, at, 4, 2))
}

const (
	// fragmentsSize bounds the packets of all ports whose further fragments pass, and fragmentedRate those of a port, each
	// second.
	fragmentsSize  = 1 << 19
	fragmentedRate = 500
)

// passRules note the packets whose further fragments pass.
func passRules(w way, f family) []rule {
	return []rule{
		{"too many fragmented packets", cat(firstFragment(f),
			tooFastAt(w.name, "fragmented-rates", fragmentedRate, expr.LimitTimeSecond, fragmentedRate), drop())},
		{"a fragmented packet", cat(firstFragment(f), fragmentKey(w, f), note("fragmented"+f.name, fragmentTime), accept())},
		{"no room for another fragmented packet", cat(firstFragment(f), drop())},
		{"the packet", accept()},
	}
}
