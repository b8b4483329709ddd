package network

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"seedbed"
)

// TestACL reads rules of nftables, in as PVC's manual and its users write them, as what security groups have of them.
func TestACL(t *testing.T) {
	t.Parallel()
	n := seedbed.Network{Name: "100", Prefix: netip.MustParsePrefix("10.100.0.0/24"), Gateway: netip.MustParseAddr("10.100.0.1")}
	n.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
	for text, want := range map[string]string{
		"in tcp dport 22 accept":                                 "in tcp 22 from any",
		"in ip saddr 10.0.0.0/8 tcp dport 22 counter accept":     "in tcp 22 from 10.0.0.0/8",
		"in ip saddr 10.1.2.3/8 tcp dport == ssh counter accept": "in tcp 22 from 10.0.0.0/8",
		"in ip saddr {192.0.2.1,198.51.100.0/24} tcp dport {80, 443} accept": "in tcp 80 from 192.0.2.1/32, in tcp 80 from 198.51.100.0/24, " +
			"in tcp 443 from 192.0.2.1/32, in tcp 443 from 198.51.100.0/24",
		"out udp dport { 53, 8000-8100 } counter packets 0 bytes 0 accept comment \"names; more\"": "out udp 53 to any, out udp 8000-8100 to any",
		"out ip6 daddr 2001:db8::/32 accept":                  "out any to 2001:db8::/32",
		"out ip daddr 192.0.2.0/24 ip protocol tcp accept":    "out tcp to 192.0.2.0/24",
		"out meta nfproto ipv6 accept":                        "out any to ::/0",
		"in meta l4proto { tcp, udp } th dport 53 accept":     "in tcp 53 from any, in udp 53 from any",
		"in meta l4proto sctp accept":                         "in 132 from any",
		"in ip protocol 47 accept":                            "in 47 from 0.0.0.0/0",
		"in icmp type echo-request accept":                    "in icmp 8 from any",
		"in icmpv6 type { echo-request, 1 } accept":           "in icmp6 128 from any, in icmp6 1 from any",
		"in ip6 nexthdr ipv6-icmp accept":                     "in icmp6 from ::/0",
		"in ct state new,established tcp dport 80 accept":     "in tcp 80 from any",
		"in ct state established,related counter accept":      "",
		"in counter accept":                                   "in any from any",
		"in counter drop":                                     "drop",
		"out drop":                                            "drop",
		"in ip daddr 10.100.0.0/24 tcp dport 80 accept":       "in tcp 80 from 0.0.0.0/0",
		"out ip6 saddr fd12:3456:789a::/48 accept":            "out any to ::/0",
		"in ip daddr 10.100.0.5 tcp dport 80 accept":          "about some VMs of the network",
		"in ip6 daddr fd12:3456:789a:2::/64 accept":           "about some VMs of the network",
		"in ip saddr 192.0.2.0/24 drop":                       "expected rules that accept the others, and behind them one that drops all",
		"in ct state invalid drop":                            "ct state invalid: security groups cannot express it",
		"in reject":                                           "dropped without an answer: expected drop",
		"in jump other":                                       "there are no other chains",
		"in iifname eth0 accept":                              "do not know interfaces",
		"in limit rate 10/second accept":                      "have no rates",
		"in log prefix \"x\" accept":                          "log: what a security group allows or drops is not logged",
		"in tcp sport 53 accept":                              "do not compare the sender's port: expected dport",
		"in tcp flags syn accept":                             "tcp flags: expected dport",
		"in sctp dport 5060 accept":                           "ports are not told apart: expected meta l4proto sctp",
		"in th dport 53 accept":                               "th dport without a protocol",
		"in ip saddr != 10.0.0.0/8 accept":                    "what is allowed alone: expected what it is",
		"in ip saddr @office accept":                          "no named sets and variables",
		"in ip saddr 10.0.0.0-10.0.0.9 accept":                "expected an address, or a prefix",
		"in ip saddr example.org accept":                      "expected an address, or a prefix",
		"in ip saddr 2001:db8::1 accept":                      "expected an address, or a prefix",
		"in ip saddr { 10.0.0.1 accept":                       "a brace is not closed",
		"in ip ttl 1 accept":                                  "ip ttl: expected saddr, daddr or protocol",
		"in ip saddr":                                         "expected a value",
		"in ip saddr 10.0.0.0/8 ip6 saddr 2001:db8::1 accept": "no packet is of IPv4 and IPv6",
		"in ip saddr 10.0.0.0/8 ip saddr 10.0.0.1 accept":     "ip saddr is there twice",
		"in ip saddr 10.0.0.0/8 icmpv6 type 1 accept":         "icmp is of IPv4",
		"in tcp dport 22 udp dport 22 accept":                 "no packet is of two protocols",
		"in tcp dport 22 tcp dport 23 accept":                 "dport is there twice",
		"in icmp type 8 icmp type 0 accept":                   "icmp type is there twice",
		"in tcp dport {" + strings.Repeat("1,", 1<<20) + "1} ip saddr {" + strings.Repeat("1.1.1.1,", 1<<20) + "1.1.1.1} accept": "at most 256",
		"in icmp code 1 accept":         "icmp code: expected type",
		"in icmp type nothing accept":   "icmp type nothing is not known",
		"in ip protocol nothing accept": "ip protocol nothing: expected tcp",
		"in meta mark 1 accept":         "meta mark: security groups cannot express it",
		"in meta nfproto arp accept":    "expected ipv4 or ipv6",
		"in ct mark 1 accept":           "ct mark: security groups cannot express it",
		"in ether type ip accept":       "ether: security groups cannot express it: expected ip or ip6",
		"in tcp dport 22":               "there is neither accept nor drop",
		"in ":                           "there is neither accept nor drop",
		"in accept tcp dport 22":        "tcp follows accept: expected nothing behind it",
		"in tcp dport \"22":             "there is neither accept nor drop",
	} {
		direction, rule, _ := strings.Cut(text, " ")
		a, err := ACL(n, seedbed.Direction(direction), "x", rule)
		var all []string
		for _, r := range a.Accepts {
			all = append(all, r.String())
			if r.Description != "x" {
				t.Errorf("%s: the rule has the description %q", text, r.Description)
			}
		}
		got := strings.Join(all, ", ")
		if a.Drop {
			got += "drop"
		}
		if err != nil {
			got = err.Error()
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(got, want) || want == "" {
				t.Errorf("%s: %v\nwant %s", text, err, want)
			}
			continue
		}
		if got != want || a.Rule != strings.TrimSpace(rule) {
			t.Errorf("%s: %s\nwant %s", text, got, want)
		}
	}
}
