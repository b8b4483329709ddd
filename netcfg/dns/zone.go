package dns

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// How long resolvers keep an answer and a negative answer, in seconds: a new guest is soon found.
const (
	ttl         = 60
	negativeTTL = 5
)

// answer returns the reply to a query that is about a network of the guest that asks, or that nobody answers. It returns
// false for one to forward.
func (s *Server) answer(from netip.Addr, req *dns.Msg) (reply *dns.Msg, local bool) {
	refuse := func(rcode int) (*dns.Msg, bool) {
		s.Counts.Refused.Add(1)
		return replyTo(req, rcode), true
	}
	switch opt := req.IsEdns0(); {
	case req.Opcode != dns.OpcodeQuery:
		return refuse(dns.RcodeNotImplemented)
	case len(req.Question) != 1:
		return refuse(dns.RcodeFormatError)
	case opt != nil && opt.Version() != 0:
		return refuse(dns.RcodeBadVers)
	}
	q := req.Question[0]
	if q.Qclass != dns.ClassINET || q.Qtype == dns.TypeAXFR || q.Qtype == dns.TypeIXFR {
		return refuse(dns.RcodeRefused)
	}
	zones := []Zone{s.Zone}
	if s.Others != nil {
		zones = append(zones, s.Others(from)...)
	}
	switch reply = answerFrom(zones, req); {
	case reply != nil:
		s.Counts.Answered.Add(1)
		return reply, true
	case s.Forwarder == nil:
		return refuse(dns.RcodeRefused)
	}
	return nil, false
}

// isHost reports whether a question is about the address of a host whose domain is left out. Such names are nowhere but
// here, and the node's resolvers need not know of them.
func isHost(q dns.Question, name string) bool {
	return dns.CountLabel(name) == 1 && (q.Qtype == dns.TypeA || q.Qtype == dns.TypeAAAA)
}

// answerFrom answers a query about one of the networks, and returns nil for any other. The first takes precedence, and of
// the others' domains the longest. One that shares its domain with others leaves to the next what it does not know.
func answerFrom(zones []Zone, req *dns.Msg) *dns.Msg {
	name := dns.CanonicalName(req.Question[0].Name)
	if reply := zones[0].fromName(req, name); reply != nil {
		return reply
	}
	if others := zones[1:]; len(others) > 0 {
		for _, z := range slices.SortedStableFunc(slices.Values(others), func(a, b Zone) int { return len(b.Domain) - len(a.Domain) }) {
			if reply := z.fromName(req, name); reply != nil {
				return reply
			}
		}
	}
	if reply := fromHostname(req, name, zones); reply != nil {
		return reply
	}
	for _, z := range zones {
		for _, p := range z.Prefixes {
			if reverse := reverseZone(p); reverse != "" && dns.IsSubDomain(reverse, name) {
				if reply := z.fromReverse(req, name, p, reverse); reply != nil {
					return reply
				}
			}
		}
	}
	if isHost(req.Question[0], name) {
		return fromHosts(req, strings.TrimSuffix(name, "."), zones)
	}
	return nil
}

// fromName is fromDomain for a whole name. It returns nil also for one of another domain.
func (z Zone) fromName(req *dns.Msg, name string) *dns.Msg {
	domain := dns.CanonicalName(z.Domain)
	if !dns.IsSubDomain(domain, name) {
		return nil
	}
	return z.fromDomain(req, strings.TrimSuffix(strings.TrimSuffix(name, domain), "."), domain)
}

// fromDomain answers for a name below the network's domain, or for the domain if it is empty. It returns nil for what others
// may know.
func (z Zone) fromDomain(req *dns.Msg, name, domain string) *dns.Msg {
	var addrs []netip.Addr
	ok := !z.SharedDomain
	switch {
	case name != "":
		addrs, ok = z.Names.Addrs(name)
	default:
		addrs = z.Gateways
	}
	if z.SharedDomain && !ok {
		return nil
	}
	q := req.Question[0]
	m := authoritative(req, ok)
	switch {
	case name == "" && q.Qtype == dns.TypeSOA:
		m.Answer = append(m.Answer, soa(domain, domain, ttl))
	case name == "" && q.Qtype == dns.TypeNS:
		m.Answer = append(m.Answer, &dns.NS{Hdr: header(q.Name, dns.TypeNS, ttl), Ns: domain})
	default:
		addAddrs(m, q, addrs)
	}
	return negative(m, domain, domain)
}

// fromHostname answers for the name by which a guest of a project calls itself, such as web1.shop.internal (see
// [seedbed.Guest.Hostname]), of the first network that has it. It returns nil for any other name.
func fromHostname(req *dns.Msg, name string, zones []Zone) *dns.Msg {
	labels := dns.SplitDomainName(name)
	if len(labels) != 3 || labels[2] != "internal" {
		return nil
	}
	for _, z := range zones {
		if addrs, ok := z.Names.Host(labels[0], labels[1]); ok {
			m := authoritative(req, true)
			addAddrs(m, req.Question[0], addrs)
			return m // without an SOA, since the domain is not of one network
		}
	}
	return nil
}

// fromHosts answers for a guest whose domain is left out, of the first network that has it.
func fromHosts(req *dns.Msg, name string, zones []Zone) *dns.Msg {
	m := authoritative(req, false)
	for _, z := range zones {
		if addrs, ok := z.Names.Addrs(name); ok {
			m.Rcode = dns.RcodeSuccess
			addAddrs(m, req.Question[0], addrs)
			break
		}
	}
	return m // without an SOA, since the root is not ours
}

func addAddrs(m *dns.Msg, q dns.Question, addrs []netip.Addr) {
	asks := func(typ uint16) bool { return q.Qtype == typ || q.Qtype == dns.TypeANY }
	for _, a := range addrs {
		switch {
		case a.Is4() && asks(dns.TypeA):
			m.Answer = append(m.Answer, &dns.A{Hdr: header(q.Name, dns.TypeA, ttl), A: a.AsSlice()})
		case a.Is6() && asks(dns.TypeAAAA):
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: header(q.Name, dns.TypeAAAA, ttl), AAAA: a.AsSlice()})
		}
	}
}

// fromReverse answers for the name of an address of the prefix. It returns nil for other addresses of the reverse zone, and
// for those that others may know.
func (z Zone) fromReverse(req *dns.Msg, name string, prefix netip.Prefix, reverse string) *dns.Msg {
	domain := dns.CanonicalName(z.Domain)
	addr, ok := addrOf(name)
	if !ok || !prefix.Contains(addr) {
		return nil
	}
	host, ok := z.Names.Name(addr)
	switch {
	case z.SharedPrefix && !ok:
		return nil
	case slices.Contains(z.Gateways, addr) && !z.SharedPrefix:
		host, ok = "", true
	}
	q := req.Question[0]
	m := authoritative(req, ok)
	if ok && (q.Qtype == dns.TypePTR || q.Qtype == dns.TypeANY) {
		to := domain
		if host != "" {
			to = host + "." + domain
		}
		m.Answer = append(m.Answer, &dns.PTR{Hdr: header(q.Name, dns.TypePTR, ttl), Ptr: to})
	}
	return negative(m, reverse, domain)
}

// reverseZone returns the zone of the addresses of a prefix, which begins at an octet (RFC 1035 3.5), or at four bits of an IPv6
// address (RFC 3596 2.5).
func reverseZone(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	if p.Addr().Is6() {
		name, err := dns.ReverseAddr(p.Addr().String())
		labels := dns.SplitDomainName(name)
		if err != nil {
			return ""
		}
		return dns.Fqdn(strings.Join(labels[(p.Addr().BitLen()-p.Bits())/4:], "."))
	}
	zone, octets := "in-addr.arpa.", p.Addr().As4()
	for i := range p.Bits() / 8 {
		zone = netip.AddrFrom4([4]byte{3: octets[i]}).String()[len("0.0.0."):] + "." + zone
	}
	return zone
}

// addrOf returns the address of a name such as 4.3.2.1.in-addr.arpa, or of one of 32 hexadecimal digits in ip6.arpa.
func addrOf(name string) (netip.Addr, bool) {
	labels := dns.SplitDomainName(name)
	if len(labels) == 34 {
		slices.Reverse(labels)
		text := strings.Join(labels[2:], "")
		if len(text) != 32 {
			return netip.Addr{}, false
		}
		b, err := hex.DecodeString(text)
		a, _ := netip.AddrFromSlice(b)
		return a, err == nil
	}
	if len(labels) != 6 {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(labels[3] + "." + labels[2] + "." + labels[1] + "." + labels[0])
	return a, err == nil && a.Is4()
}

// replyTo returns an empty reply to a query.
func replyTo(req *dns.Msg, rcode int) *dns.Msg {
	m := new(dns.Msg).SetRcode(req, rcode)
	m.RecursionAvailable = true
	if req.IsEdns0() != nil {
		m.SetEdns0(maxUDP, false)
	}
	return m
}

func authoritative(req *dns.Msg, exists bool) *dns.Msg {
	rcode := dns.RcodeSuccess
	if !exists {
		rcode = dns.RcodeNameError
	}
	m := replyTo(req, rcode)
	m.Authoritative = true
	return m
}

// negative adds to a reply without an answer how long that is so (RFC 2308).
func negative(m *dns.Msg, zone, domain string) *dns.Msg {
	if len(m.Answer) == 0 {
		m.Ns = append(m.Ns, soa(zone, domain, negativeTTL))
	}
	return m
}

// soa returns the start of a zone. There are no secondaries for which its times would matter.
func soa(zone, domain string, ttl uint32) dns.RR {
	return &dns.SOA{Hdr: header(zone, dns.TypeSOA, ttl), Ns: domain, Mbox: "hostmaster." + domain, Serial: 1,
		Refresh: 3600, Retry: 600, Expire: 86400, Minttl: negativeTTL}
}

func header(name string, typ uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: typ, Class: dns.ClassINET, Ttl: ttl}
}
