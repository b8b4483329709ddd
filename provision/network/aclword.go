package network

// What is refused, by the word with which it begins.
var inexpressible = map[string]string{
	"reject":   "what no security group allows is dropped without an answer: expected drop",
	"jump":     "there are no other chains: expected accept or drop",
	"goto":     "there are no other chains: expected accept or drop",
	"queue":    "expected accept or drop",
	"log":      "what a security group allows or drops is not logged: leave it out",
	"limit":    "security groups have no rates: expected a rule without it, or \"seedbed network set --bandwidth-in\"",
	"iifname":  "security groups do not know interfaces: expected ip saddr or ip daddr",
	"iif":      "security groups do not know interfaces: expected ip saddr or ip daddr",
	"oifname":  "security groups do not know interfaces: expected ip saddr or ip daddr",
	"oif":      "security groups do not know interfaces: expected ip saddr or ip daddr",
	"sctp":     "of sctp, ports are not told apart: expected meta l4proto sctp",
	"dccp":     "of dccp, ports are not told apart: expected meta l4proto dccp",
	"udplite":  "of udplite, ports are not told apart: expected meta l4proto udplite",
	"dnat":     "expected accept or drop; see \"seedbed network forward\" and \"seedbed address\"",
	"snat":     "expected accept or drop; see \"seedbed network forward\" and \"seedbed address\"",
	"redirect": "expected accept or drop; see \"seedbed network forward\" and \"seedbed address\"",
}

// The protocols that nftables knows by name, as rules of security groups have them.
var aclProtocols = map[string]string{
	"tcp": "tcp", "udp": "udp", "icmp": "icmp", "icmpv6": "icmp6", "ipv6-icmp": "icmp6",
	"6": "tcp", "17": "udp", "1": "icmp", "58": "icmp6",
	"gre": "47", "esp": "50", "ah": "51", "comp": "108", "sctp": "132", "dccp": "33", "udplite": "136", "igmp": "2",
	"ospf": "89", "vrrp": "112",
}

// The types of ICMP by name.
var icmpTypes = map[string]map[string]string{
	"icmp": {"echo-reply": "0", "destination-unreachable": "3", "source-quench": "4", "redirect": "5", "echo-request": "8",
		"router-advertisement": "9", "router-solicitation": "10", "time-exceeded": "11", "parameter-problem": "12",
		"timestamp-request": "13", "timestamp-reply": "14", "address-mask-request": "17", "address-mask-reply": "18"},
	"icmpv6": {"destination-unreachable": "1", "packet-too-big": "2", "time-exceeded": "3", "parameter-problem": "4",
		"echo-request": "128", "echo-reply": "129", "mld-listener-query": "130", "mld-listener-report": "131", "mld-listener-done": "132",
		"nd-router-solicit": "133", "nd-router-advert": "134", "nd-neighbor-solicit": "135", "nd-neighbor-advert": "136", "nd-redirect": "137"},
}
