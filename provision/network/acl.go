package network

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"seedbed"
)

// ACL returns the ACL of a network that a rule of nftables is, as PVC's client sends it. It returns ErrInvalid, which says what would
// be right, for one that is not well formed, or that rules of security groups cannot express.
func ACL(n seedbed.Network, d seedbed.Direction, description, text string) (seedbed.NetworkACL, error) {
	a := seedbed.NetworkACL{Direction: d, Description: description, Rule: strings.TrimSpace(text)}
	if len(a.Rule) > seedbed.MaxACLRule { // before what it means is built
		return a, seedbed.Errorf(seedbed.ErrInvalid, "rule %q has %d bytes: expected at most %d",
			seedbed.Clip(a.Rule), len(a.Rule), seedbed.MaxACLRule)
	}
	p := aclParser{network: n, direction: d, words: wordsOf(text)}
	for len(p.words) > 0 && p.err == nil {
		p.statement(p.next())
	}
	p.finish()
	if p.err != nil {
		return a, seedbed.Errorf(seedbed.ErrInvalid, "rule %q: %v", seedbed.Clip(a.Rule), p.err)
	}
	if a.Drop = p.verdict == "drop"; a.Drop || p.answers {
		return a, nil
	}
	for _, r := range p.rules() {
		r.Description = description
		a.Accepts = append(a.Accepts, r)
	}
	return a, nil
}

// keepsACLs returns ErrInvalid unless the ACLs that a network has mean with its present prefixes what they did before.
func keepsACLs(n seedbed.Network) error {
	for _, a := range n.ACLs {
		now, err := ACL(n, a.Direction, a.Description, a.Rule)
		if err == nil && now.Equal(a) {
			continue
		}
		return seedbed.Errorf(seedbed.ErrInvalid, "ACL %q of network %q does not fit the IPv6 prefix %s, rule %q: "+
			"remove it with \"pvc network acl remove\", and add one for that prefix after the change",
			a.Description, n.Name, prefixText(n.Prefix6), seedbed.Clip(a.Rule))
	}
	return nil
}

func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return "none"
	}
	return p.String()
}

// wordsOf returns the words of a rule, in which a quoted text, a brace and a comma are each one word.
func wordsOf(text string) (words []string) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		end := strings.IndexAny(text, " \t\r\n{},;\"")
		switch {
		case text[0] == '"':
			if end = strings.IndexByte(text[1:], '"') + 2; end == 1 {
				end = len(text)
			}
		case end < 0:
			end = len(text)
		case end == 0:
			end = 1
		}
		words, text = append(words, text[:end]), text[end:]
	}
	return words
}

// aclParser reads one rule.
type aclParser struct {
	network   seedbed.Network
	direction seedbed.Direction
	words     []string // that are left
	err       error

	family    int      // 4, 6, or 0 for both
	protocols []string // as rules of security groups name them; none for all
	ports     []string
	icmp      []string
	remote    []netip.Prefix
	matched   bool // there is a condition
	answers   bool // it is about answers to what was allowed alone
	verdict   string
}

// fail notes an error, unless there is one already.
func (p *aclParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = seedbed.Errorf(seedbed.ErrInvalid, format, args...)
	}
}

func (p *aclParser) next() (word string) {
	if len(p.words) > 0 {
		word, p.words = p.words[0], p.words[1:]
	}
	return word
}

// skip reads the word if it is the next one.
func (p *aclParser) skip(word string) bool {
	found := len(p.words) > 0 && p.words[0] == word
	if found {
		p.words = p.words[1:]
	}
	return found
}

// values reads what a part of the packet is compared with: a word, or a set in braces. Of a list without braces, as ct state has it, it
// reads all.
func (p *aclParser) values(of string) (all []string) {
	if p.skip("!=") {
		p.fail("%s != ...: security groups have rules about what is allowed alone: expected what it is", of)
		return nil
	}
	p.skip("==")
	set := p.skip("{")
	for {
		word := p.next()
		switch {
		case word == "" || word == "{" || word == "}" || word == ",":
			p.fail("%s: expected a value, or a set such as { 22, 80 }", of)
			return nil
		case word[0] == '@' || word[0] == '$':
			p.fail("%s %s: there are no named sets and variables: expected the values themselves", of, seedbed.Clip(word))
			return nil
		}
		all = append(all, word)
		if p.skip(",") {
			continue
		}
		if set && !p.skip("}") {
			p.fail("%s: a brace is not closed", of)
		}
		return all
	}
}

// statement reads the statement that begins with a word.
func (p *aclParser) statement(word string) {
	if p.verdict != "" && word != "comment" {
		p.fail("%s follows %s: expected nothing behind it", seedbed.Clip(word), p.verdict)
		return
	}
	switch word {
	case "accept", "drop":
		p.verdict = word
	case "counter":
		if p.skip("packets") {
			p.next()
			p.skip("bytes")
			p.next()
		}
	case "comment":
		p.next()
	case "ip", "ip6":
		p.address(word)
	case "tcp", "udp":
		p.only(word)
		p.port(word)
	case "th":
		p.port(word)
	case "icmp", "icmpv6":
		p.icmpType(word)
	case "meta":
		p.meta()
	case "ct":
		p.state()
	default:
		why := inexpressible[word]
		if why == "" {
			why = "security groups cannot express it: expected ip or ip6 with saddr, daddr or protocol, tcp or udp dport, icmp or icmpv6 type, " +
				"meta l4proto, ct state, counter, comment, accept or drop"
		}
		p.fail("%s: %s", seedbed.Clip(word), why)
	}
}

// of sets the family of the addresses.
func (p *aclParser) of(family int) {
	if p.family != 0 && p.family != family {
		p.fail("no packet is of IPv4 and IPv6: expected a rule for each")
	}
	p.family, p.matched = family, true
}

func (p *aclParser) address(word string) {
	family, bits := 4, 32
	if word == "ip6" {
		family, bits = 6, 128
	}
	p.of(family)
	field := p.next()
	what := word + " " + field
	switch field {
	case "protocol", "nexthdr":
		p.protocol(what)
		return
	case "saddr", "daddr":
	default:
		p.fail("%s: expected saddr, daddr or protocol", seedbed.Clip(what))
		return
	}
	var all []netip.Prefix
	for _, value := range p.values(what) {
		prefix, err := netip.ParsePrefix(value)
		if a, wrong := netip.ParseAddr(value); wrong == nil {
			prefix, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || prefix.Addr().BitLen() != bits || prefix.Addr().Zone() != "" {
			p.fail("%s %s: expected an address, or a prefix such as 10.0.0.0/8 or 2001:db8::/32", what, seedbed.Clip(value))
			return
		}
		all = append(all, prefix.Masked())
	}
	if (field == "saddr") == (p.direction == seedbed.DirectionIn) {
		if p.remote != nil {
			p.fail("%s is there twice: expected one set", what)
		}
		p.remote = all
		return
	}
	own := p.network.Prefix
	if family == 6 {
		own = p.network.Prefix6
	}
	whole := func(q netip.Prefix) bool {
		return q.Bits() == 0 || own.IsValid() && q.Bits() <= own.Bits() && q.Contains(own.Addr())
	}
	if !slices.ContainsFunc(all, whole) {
		p.fail("%s is about some VMs of the network, and its security group is about all of them: leave it out, or give these VMs "+
			"a group of their own, with \"seedbed security-group add\" and \"seedbed vm security-groups\"", what)
	}
}

// only allows no other protocols than some.
func (p *aclParser) only(protocols ...string) {
	if p.protocols != nil {
		protocols = slices.DeleteFunc(protocols, func(name string) bool { return !slices.Contains(p.protocols, name) })
	}
	if len(protocols) == 0 {
		p.fail("no packet is of two protocols: expected a rule for each, or meta l4proto { tcp, udp }")
	}
	p.protocols, p.matched = protocols, true
}

func (p *aclParser) protocol(what string) {
	var names []string
	for _, value := range p.values(what) {
		name, known := aclProtocols[value]
		if number, err := strconv.ParseUint(value, 10, 8); !known && err == nil {
			name, known = strconv.FormatUint(number, 10), true
		}
		if !known {
			p.fail("%s %s: expected tcp, udp, icmp, icmpv6, another protocol's name, or its number", what, seedbed.Clip(value))
			return
		}
		names = append(names, name)
	}
	p.only(names...)
}

func (p *aclParser) port(word string) {
	field := p.next()
	what := word + " " + field
	switch {
	case field == "sport":
		p.fail("%s: security groups do not compare the sender's port: expected dport", what)
		return
	case field != "dport":
		p.fail("%s: expected dport", seedbed.Clip(what))
		return
	case p.ports != nil:
		p.fail("dport is there twice: expected one set")
		return
	}
	for _, value := range p.values(what) {
		if port, err := net.LookupPort(word, value); err == nil && word != "th" {
			value = strconv.Itoa(port)
		}
		p.ports = append(p.ports, value)
	}
}

func (p *aclParser) icmpType(word string) {
	p.only(aclProtocols[word])
	if p.icmp != nil {
		p.fail("%s type is there twice: expected one set", word)
	}
	if field := p.next(); field != "type" {
		p.fail("%s %s: expected type", word, seedbed.Clip(field))
		return
	}
	for _, value := range p.values(word + " type") {
		number, named := icmpTypes[word][value]
		if !named {
			if number = value; !digits(value) {
				p.fail("%s type %s is not known: expected a name such as echo-request, or a number", word, seedbed.Clip(value))
			}
		}
		p.icmp = append(p.icmp, number)
	}
}

func digits(s string) bool { _, err := strconv.ParseUint(s, 10, 8); return err == nil }

func (p *aclParser) meta() {
	switch field := p.next(); field {
	case "l4proto":
		p.protocol("meta l4proto")
	case "nfproto":
		families := p.values("meta nfproto")
		switch strings.Join(families, " ") {
		case "ipv4":
			p.of(4)
		case "ipv6":
			p.of(6)
		default:
			p.fail("meta nfproto: expected ipv4 or ipv6")
		}
	default:
		p.fail("meta %s: security groups cannot express it: expected l4proto or nfproto", seedbed.Clip(field))
	}
}

// state reads which packets of a connection are meant. Answers to what was allowed pass anyway, so that only new ones matter.
func (p *aclParser) state() {
	if field := p.next(); field != "state" {
		p.fail("ct %s: security groups cannot express it: expected state", seedbed.Clip(field))
		return
	}
	fresh := false
	for _, state := range p.values("ct state") {
		switch state {
		case "new":
			fresh = true
		case "established", "related":
		default:
			p.fail("ct state %s: security groups cannot express it: expected new, established and related", seedbed.Clip(state))
		}
	}
	p.answers, p.matched = !fresh, true
}

// finish checks what the statements are together.
func (p *aclParser) finish() {
	hasPorts := func(name string) bool { return name == "tcp" || name == "udp" }
	switch {
	case p.verdict == "":
		p.fail("there is neither accept nor drop: expected one of them, at the end")
	case p.verdict == "drop" && p.matched:
		p.fail("only some packets are dropped, and security groups have rules about what is allowed alone: " +
			"expected rules that accept the others, and behind them one that drops all: counter drop")
	case p.ports != nil && (p.protocols == nil || slices.ContainsFunc(p.protocols, func(s string) bool { return !hasPorts(s) })):
		p.fail("th dport without a protocol: expected tcp dport, udp dport, or meta l4proto { tcp, udp } before it")
	case p.family == 6 && slices.Contains(p.protocols, "icmp") || p.family == 4 && slices.Contains(p.protocols, "icmp6"):
		p.fail("icmp is of IPv4, and icmpv6 of IPv6: expected them together")
	}
}

// rules returns what the rule accepts.
func (p *aclParser) rules() (rules []seedbed.SecurityRule) {
	prefixes := p.remote
	if prefixes == nil {
		prefixes = []netip.Prefix{map[int]netip.Prefix{4: netip.MustParsePrefix("0.0.0.0/0"), 6: netip.MustParsePrefix("::/0")}[p.family]}
	}
	for _, protocol := range orAny(p.protocols, "any") {
		for _, port := range orAny(p.ports, "") {
			for _, typ := range orAny(p.icmp, "") {
				for _, prefix := range prefixes {
					rules = append(rules, seedbed.SecurityRule{Direction: p.direction, Protocol: protocol, Ports: port, ICMP: typ, Prefix: prefix})
				}
			}
		}
	}
	return rules
}

// orAny returns values, or one that stands for any if there are none.
func orAny(values []string, any string) []string {
	if values == nil {
		return []string{any}
	}
	return values
}
