package seedbed_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"seedbed"
)

func lan(change func(*seedbed.Network)) seedbed.Network {
	n := seedbed.Network{
		Name: "lan", Kind: seedbed.NetworkRouted, Bridge: "br0", MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 1},
		Prefix: netip.MustParsePrefix("10.9.0.0/24"), Gateway: netip.MustParseAddr("10.9.0.1"),
	}
	change(&n)
	return n
}

func TestNetworkCheck(t *testing.T) {
	t.Parallel()
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	direct := func(with func(*seedbed.Network)) func(*seedbed.Network) {
		return func(n *seedbed.Network) {
			n.Kind, n.Uplink, n.Mode = seedbed.NetworkDirect, "eno1", seedbed.DirectBridge
			with(n)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*seedbed.Network)
		want   string // empty if it is usable
	}{
		{"as it is", func(*seedbed.Network) {}, ""},
		{"of a project", func(n *seedbed.Network) { n.Name = "acme/lan" }, ""},
		{"everything", func(n *seedbed.Network) {
			n.Range, n.MTU = seedbed.AddrRange{First: addr("10.9.0.10"), Last: addr("10.9.0.99")}, 9000
			n.Kept = []seedbed.AddrRange{{First: addr("10.9.0.20"), Last: addr("10.9.0.20")}}
			n.Domain, n.Search, n.NTP = "lan.example.org", []string{"example.org"}, []netip.Addr{addr("10.9.0.5")}
			n.Routes = []seedbed.NetworkRoute{{Prefix: prefix("10.10.0.0/16"), Via: addr("10.9.0.2")}}
			n.BootServer, n.BootFile = addr("10.9.0.5"), "pxelinux.0"
		}, ""},
		{"kind", func(n *seedbed.Network) { n.Kind = "open" }, `kind "open" is unknown`},
		{"no NAT of that kind", func(n *seedbed.Network) { n.Kind = seedbed.NetworkNAT }, "NAT is false"},
		{"loopback", func(n *seedbed.Network) { n.Prefix, n.Gateway = prefix("127.1.0.0/16"), addr("127.1.0.1") }, "without loopback"},
		{"range elsewhere", func(n *seedbed.Network) { n.Range = seedbed.AddrRange{First: addr("10.9.0.9"), Last: addr("10.9.1.9")} },
			"range 10.9.0.9-10.9.1.9 is not one of hosts in 10.9.0.0/24"},
		{"kept elsewhere", func(n *seedbed.Network) {
			n.Kept = []seedbed.AddrRange{{First: addr("10.8.0.9"), Last: addr("10.8.0.9")}}
		},
			`"10.8.0.9" is kept out`},
		{"bridged", func(n *seedbed.Network) { n.Kind, n.Uplink, n.VLAN = seedbed.NetworkBridged, "eno1", 4094 }, ""},
		{"bridged without a router", func(n *seedbed.Network) {
			n.Kind, n.Uplink, n.Gateway = seedbed.NetworkBridged, "eno1", netip.Addr{}
		}, ""},
		{"bridged without addresses", func(n *seedbed.Network) {
			n.Kind, n.Uplink, n.Prefix, n.Gateway = seedbed.NetworkBridged, "eno1", netip.Prefix{}, netip.Addr{}
		}, ""},
		{"bridged, time", func(n *seedbed.Network) {
			n.Kind, n.Uplink, n.Prefix, n.Gateway = seedbed.NetworkBridged, "eno1", netip.Prefix{}, netip.Addr{}
			n.NTP = []netip.Addr{seedbed.TimeAddr}
		}, ""},
		{"direct", func(n *seedbed.Network) { n.Kind, n.Uplink, n.Mode = seedbed.NetworkDirect, "eno1", seedbed.DirectVEPA }, ""},
		{"direct, a virtual function", func(n *seedbed.Network) {
			n.Kind, n.Uplink, n.Mode, n.VLAN, n.Gateway = seedbed.NetworkDirect, "eno1", seedbed.DirectSRIOV, 12, netip.Addr{}
		}, ""},
		{"direct without an uplink", direct(func(n *seedbed.Network) { n.Uplink = "" }), "uplink is missing"},
		{"a mode that is none", direct(func(n *seedbed.Network) { n.Mode = "tap" }), "expected bridge, vepa, private, passthrough, sriov"},
		{"a mode of another kind", func(n *seedbed.Network) { n.Mode = seedbed.DirectBridge }, "mode is for direct networks"},
		{"a VLAN of macvtap", direct(func(n *seedbed.Network) { n.VLAN = 5 }), "only mode sriov tags frames"},
		{"direct, DHCP", direct(func(n *seedbed.Network) { n.DHCP = true }), "no node answers it"},
		{"direct, resolver", direct(func(n *seedbed.Network) { n.DNS = []netip.Addr{seedbed.ResolverAddr} }), "no node is a resolver"},
		{"direct, MTU", direct(func(n *seedbed.Network) { n.MTU = 1400 }), "a direct network has no MTU"},
		{"direct, rate", direct(func(n *seedbed.Network) { n.BandwidthIn = 1_000_000 }), "a direct network has no bandwidth"},
		{"direct, permissions", direct(func(n *seedbed.Network) { n.Allow.Addresses = true }), "has no protection"},
		{"direct, domain", direct(func(n *seedbed.Network) { n.Domain = "lab" }), "has no domain"},
		{"direct, time", direct(func(n *seedbed.Network) { n.NTP = []netip.Addr{seedbed.TimeAddr} }), "has no time server"},
		{"direct, overlay", direct(func(n *seedbed.Network) { n.VNI = 7 }), "has no VNI"},
		{"direct, probe", direct(func(n *seedbed.Network) { n.NoProbe = true }), "no_probe is for bridged networks"},
		{"direct, peer", direct(func(n *seedbed.Network) { n.Peers = []string{"other"} }), "a direct network has no peers"},
		{"direct, floating", direct(func(n *seedbed.Network) {
			n.Floating, n.FloatingUplink = []seedbed.AddrRange{{}}, "eth0"
		}), "floating addresses need"},
		{"bridged without an uplink", func(n *seedbed.Network) { n.Kind = seedbed.NetworkBridged }, "uplink is missing"},
		{"an uplink that is its bridge", func(n *seedbed.Network) { n.Kind, n.Uplink = seedbed.NetworkBridged, "br0" },
			"is not another interface"},
		{"an uplink of another kind", func(n *seedbed.Network) { n.Uplink = "eno1" }, "a routed network has no uplink and no VLAN"},
		{"a VLAN of another kind", func(n *seedbed.Network) { n.VLAN = 5 }, "a routed network has no uplink and no VLAN"},
		{"VLAN", func(n *seedbed.Network) { n.Kind, n.Uplink, n.VLAN = seedbed.NetworkBridged, "eno1", 4095 }, "expected 1 to 4094"},
		{"bridged, by the MAC", func(n *seedbed.Network) {
			n.Kind, n.Uplink, n.Identity = seedbed.NetworkBridged, "eno1", seedbed.IdentityMAC
		}, "any host can forge"},
		{"DHCP without a prefix", func(n *seedbed.Network) {
			n.Kind, n.Uplink, n.Prefix, n.Gateway, n.DHCP = seedbed.NetworkBridged, "eno1", netip.Prefix{}, netip.Addr{}, true
		}, "without a prefix, its addresses come from elsewhere"},
		{"small MTU", func(n *seedbed.Network) { n.MTU = 576 }, "expected 1280 to 9216"},
		{"large MTU", func(n *seedbed.Network) { n.MTU = 65536 }, "expected 1280 to 9216"},
		{"domain", func(n *seedbed.Network) { n.Domain = "a..b" }, "is not a DNS name"},
		{"search", func(n *seedbed.Network) { n.Search = []string{"ok", "-"} }, `search domain "-"`},
		{"long search", func(n *seedbed.Network) { n.Search = []string{strings.Repeat("a.", 200) + "a"} }, "at most 6 of 255"},
		{"time server", func(n *seedbed.Network) { n.NTP = []netip.Addr{addr("fd00::1")} }, "time server fd00::1"},
		{"many resolvers", func(n *seedbed.Network) { n.DNS = make([]netip.Addr, 9) }, "9 DNS servers"},
		{"route by another network", func(n *seedbed.Network) {
			n.Routes = []seedbed.NetworkRoute{{Prefix: prefix("10.10.0.0/16"), Via: addr("10.8.0.2")}}
		}, "via 10.8.0.2"},
		{"IPv6", func(n *seedbed.Network) {
			n.Prefix6, n.SLAAC, n.DNS = prefix("fd12:3456:789a:1::/64"), true, []netip.Addr{addr("9.9.9.9"), addr("2620:fe::fe")}
		}, ""},
		{"IPv6 resolver without a prefix", func(n *seedbed.Network) { n.DNS = []netip.Addr{addr("2620:fe::fe")} }, "IPv4 address of a host"},
		{"link-local resolver", func(n *seedbed.Network) {
			n.Prefix6, n.DNS = prefix("fd12:3456:789a:1::/64"), []netip.Addr{addr("fe80::1")}
		}, "DNS server fe80::1 is not the address of a host"},
		{"long IPv6 prefix", func(n *seedbed.Network) { n.Prefix6 = prefix("fd12:3456:789a:1::/80") }, "expected a /64"},
		{"IPv6 prefix with a host", func(n *seedbed.Network) { n.Prefix6 = prefix("fd12:3456:789a:1::1/64") }, "expected a /64"},
		{"IPv4 as an IPv6 prefix", func(n *seedbed.Network) { n.Prefix6 = prefix("10.9.0.0/24") }, "expected a /64"},
		{"link-local IPv6 prefix", func(n *seedbed.Network) { n.Prefix6 = prefix("fe80::/64") }, "expected none in fe80::/10"},
		{"the IPv6 prefix of metadata", func(n *seedbed.Network) { n.Prefix6 = prefix("fd00:ec2::/64") }, "expected none in fd00:ec2::/64"},
		{"SLAAC without a prefix", func(n *seedbed.Network) { n.SLAAC = true }, "without an IPv6 prefix"},
		{"IPv6 alone", alone6, ""},
		{"IPv6 alone, bridged", func(n *seedbed.Network) {
			alone6(n)
			n.Kind, n.Uplink, n.DNS, n.DHCP = seedbed.NetworkBridged, "eno1", []netip.Addr{seedbed.ResolverAddr}, true
		}, ""},
		{"IPv6 alone, bridged, with an IPv4 router", func(n *seedbed.Network) {
			alone6(n)
			n.Kind, n.Uplink, n.Gateway = seedbed.NetworkBridged, "eno1", addr("10.9.0.1")
		}, "without an IPv4 prefix, it cannot have gateway 10.9.0.1"},
		{"IPv6 alone, direct", func(n *seedbed.Network) {
			alone6(n)
			n.Kind, n.Uplink, n.Mode, n.DNS = seedbed.NetworkDirect, "eno1", seedbed.DirectBridge, nil
		}, ""},
		{"NAT of IPv6 alone", func(n *seedbed.Network) { alone6(n); n.Kind, n.NAT = seedbed.NetworkNAT, true }, ""},
		{"no prefix", func(n *seedbed.Network) { n.Prefix, n.Gateway = netip.Prefix{}, netip.Addr{} }, "it has no prefix"},
		{"isolated, no prefix", bare, ""},
		{"an overlay, no prefix", func(n *seedbed.Network) { bare(n); n.VNI, n.MTU = 7, 1450 }, ""},
		{"DHCP, no prefix", func(n *seedbed.Network) { bare(n); n.DHCP = true }, "expected no gateway, DHCP, range"},
		{"a resolver, no prefix", func(n *seedbed.Network) { bare(n); n.DNS = []netip.Addr{seedbed.ResolverAddr} }, "it has no resolver at"},
		{"by the MAC, no prefix", func(n *seedbed.Network) { bare(n); n.Identity = seedbed.IdentityMAC }, "the address of another: expected tap"},
		{"floating, no prefix", func(n *seedbed.Network) {
			bare(n)
			n.Floating, n.FloatingUplink = []seedbed.AddrRange{{First: addr("192.0.2.1"), Last: addr("192.0.2.1")}}, "eth0"
		}, "floating addresses need"},
		{"an unusable prefix", func(n *seedbed.Network) { bare(n); n.Prefix = netip.PrefixFrom(addr("10.9.0.0"), 64) }, "is not usable"},
		{"gateway of IPv6 alone", func(n *seedbed.Network) { alone6(n); n.Gateway = addr("10.9.0.1") }, "it cannot have gateway 10.9.0.1"},
		{"range of IPv6 alone", func(n *seedbed.Network) {
			alone6(n)
			n.Kept = []seedbed.AddrRange{{First: addr("10.9.0.2"), Last: addr("10.9.0.3")}}
		}, "it cannot have range, kept addresses or reservations"},
		{"time server of IPv6 alone", func(n *seedbed.Network) {
			alone6(n)
			n.NTP = []netip.Addr{seedbed.TimeAddr, addr("2001:db8::123")}
		}, ""},
		{"IPv4 time server of IPv6 alone", func(n *seedbed.Network) {
			alone6(n)
			n.NTP = []netip.Addr{addr("192.0.2.123")}
		}, "it cannot have time servers with IPv4 addresses"},
		{"the time server's other address", func(n *seedbed.Network) {
			n.Prefix6, n.NTP = prefix("fd12:3456:789a:1::/64"), []netip.Addr{seedbed.TimeAddr6}
		}, "expected 169.254.169.123, with which guests learn of both"},
		{"resolver of IPv6 alone", func(n *seedbed.Network) {
			alone6(n)
			n.DNS = []netip.Addr{addr("9.9.9.9")}
		}, "DNS servers with IPv4 addresses"},
		{"boot without a server", func(n *seedbed.Network) { n.BootFile = "pxelinux.0" }, "expected an http or https URL"},
		{"boot server alone", func(n *seedbed.Network) { n.BootServer = addr("10.9.0.5") }, "boot file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := lan(tt.change).Check()
			if tt.want == "" && err != nil ||
				tt.want != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Check = %v, want %q", err, tt.want)
			}
		})
	}
}

// bare makes a network one without addresses.
func bare(n *seedbed.Network) {
	n.Kind, n.NAT, n.Prefix, n.Gateway, n.DHCP, n.DNS = seedbed.NetworkIsolated, false, netip.Prefix{}, netip.Addr{}, false, nil
}

// alone6 makes a network one of IPv6 alone.
func alone6(n *seedbed.Network) {
	n.Kind, n.NAT, n.Prefix, n.Gateway = seedbed.NetworkRouted, false, netip.Prefix{}, netip.Addr{}
	n.Prefix6, n.DNS = netip.MustParsePrefix("fd12:3456:789a:1::/64"), []netip.Addr{seedbed.ResolverAddr}
}

// TestFloatingCheck: a network lends addresses of the versions of IP that its guests have, and none of another meaning.
func TestFloatingCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"203.0.113.16/28": "", "2001:db8:1::/64": "", "2001:db8:1::5-2001:db8:1::9": "", "2001:db8:1::/48 203.0.113.1": "",
		"10.0.0.0/15": "are 131072: expected at most 65536", "169.254.0.0/24": "loopback, link-local",
		"fe80::/64":     "expected none in ::/8, fe80::/10",
		"fd00:ec2::/32": "expected none in", "::1": "expected none in", "10.9.0.0/28": "are in its prefix 10.9.0.0/24",
		"fd12:3456:789a:1::/80": "are in its prefix fd12:3456:789a:1::/64", "2001:db8:1::/64 2001:db8:1::7": "2001:db8:1::7 are there twice",
	} {
		n := lan(func(n *seedbed.Network) {
			n.Prefix6, n.FloatingUplink = netip.MustParsePrefix("fd12:3456:789a:1::/64"), "eth0"
			for one := range strings.FieldsSeq(text) {
				r, err := seedbed.ParseAddrRange(one)
				if err != nil {
					t.Fatal(err)
				}
				n.Floating = append(n.Floating, r)
			}
		})
		if err := n.Check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if strings.HasPrefix(text, "2001:db8:1::/64 ") || want != "" {
			continue
		}
		has4 := strings.Contains(text, ".")
		if n.LendsOnly6() == has4 {
			t.Errorf("%s: LendsOnly6 = %t", text, !has4)
		}
		n.Prefix, n.Gateway, n.DHCP, n.DNS = netip.Prefix{}, netip.Addr{}, false, nil
		const no4 = "without an IPv4 prefix, it cannot have floating addresses of IPv4"
		if err := n.Check(); has4 != (err != nil && strings.Contains(err.Error(), no4)) {
			t.Errorf("%s with IPv6 alone: %v", text, err)
		}
	}
	n := lan(func(n *seedbed.Network) {
		r, _ := seedbed.ParseAddrRange("2001:db8:1::/64")
		n.Floating, n.FloatingUplink = []seedbed.AddrRange{r}, "eth0"
	})
	if err := n.Check(); err == nil || !strings.Contains(err.Error(), "are of IPv6, which its guests do not have") {
		t.Errorf("without an IPv6 prefix: %v", err)
	}
}

// TestFloatingOverlaps: a network without an IPv4 prefix has none of the addresses that another lends.
func TestFloatingOverlaps(t *testing.T) {
	t.Parallel()
	six := lan(alone6)
	lends := lan(func(n *seedbed.Network) {
		first := netip.MustParseAddr("192.0.2.10")
		n.Name, n.Floating, n.FloatingUplink = "lends", []seedbed.AddrRange{{First: first, Last: first}}, "eno1"
	})
	if six.FloatingOverlaps(lends) || lends.FloatingOverlaps(six) {
		t.Error("they overlap")
	}
	if a := seedbed.LastAddr(six.Prefix); a.IsValid() {
		t.Errorf("the last address of no prefix is %s", a)
	}
}

func TestAddr6(t *testing.T) {
	t.Parallel()
	mac := seedbed.MAC{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}
	n := lan(func(n *seedbed.Network) { n.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64") })
	if got, want := n.Addr6(mac), netip.MustParseAddr("fd12:3456:789a:1:5054:ff:fe12:3456"); got != want {
		t.Errorf("Addr6 = %s, want %s", got, want)
	}
	if got, want := n.Gateway6(), netip.MustParseAddr("fd12:3456:789a:1::1"); got != want {
		t.Errorf("Gateway6 = %s, want %s", got, want)
	}
	fixed, other := netip.MustParseAddr("fd12:3456:789a:1::50"), seedbed.MAC{0x52, 0x54, 0x00, 0x12, 0x34, 0x57}
	n.Reservations = []seedbed.Reservation{{MAC: other, Addr: netip.MustParseAddr("10.9.0.50")}, {MAC: mac, Addr: fixed}}
	if err := n.Check(); err != nil {
		t.Error(err)
	}
	for m, want := range map[seedbed.MAC]netip.Addr{mac: fixed, other: netip.MustParseAddr("fd12:3456:789a:1:5054:ff:fe12:3457")} {
		if got := n.Addr6(m); got != want {
			t.Errorf("with a reservation, Addr6(%s) = %s, want %s", m, got, want)
		}
		if owner, ok := n.FirstOf(want); owner != m || !ok {
			t.Errorf("FirstOf(%s) = %s, %t, want %s", want, owner, ok, m)
		}
	}
	if owner, ok := n.FirstOf(netip.MustParseAddr("fd12:3456:789a:1:5054:ff:fe12:3456")); ok {
		t.Errorf("what the NIC would have without its reservation is that of %s", owner)
	}
	for what, change := range map[string]func(){
		"of the node":     func() { n.Reservations[1].Addr = netip.MustParseAddr("fd12:3456:789a:1::1") },
		"of all routers":  func() { n.Reservations[1].Addr = n.Prefix6.Addr() },
		"of another NIC":  func() { n.Reservations[1].Addr = netip.MustParseAddr("fd12:3456:789a:1:5054:ff:fe12:3457") },
		"of elsewhere":    func() { n.Reservations[1].Addr = netip.MustParseAddr("fd12:3456:789a:2::50") },
		"in disguise":     func() { n.Reservations[1].Addr = netip.MustParseAddr("::ffff:10.9.0.50") },
		"with SLAAC":      func() { n.SLAAC = true },
		"without another": func() { n.SLAAC, n.Prefix6 = false, netip.Prefix{} },
	} {
		was := n
		n.Reservations = slices.Clone(n.Reservations)
		change()
		if err := n.Check(); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("an address %s is reserved: %v", what, err)
		}
		n = was
	}
	n.Reservations = nil
	n.Kind = seedbed.NetworkBridged
	if got := n.Gateway6(); got.IsValid() {
		t.Errorf("Gateway6 of a bridged network = %s, want none", got)
	}
	n.Prefix6 = netip.Prefix{}
	if got := n.Addr6(mac); got.IsValid() {
		t.Errorf("Addr6 without a prefix = %s, want none", got)
	}
}

func TestAddrRange(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"10.9.0.1-10.9.0.9": "10.9.0.1-10.9.0.9", " 10.9.0.1 - 10.9.0.9 ": "10.9.0.1-10.9.0.9", "10.9.0.1": "10.9.0.1",
		"10.9.0.1-10.9.0.1": "10.9.0.1", "10.9.0.9-10.9.0.1": "", "10.9.0.1-": "", "": "", "10.9.0.0/28": "10.9.0.0-10.9.0.15",
		"10.9.0.1/28": "", "10.9.0.0/33": "", "fd00::1": "fd00::1", "fd00::/64": "fd00::/64", "fd00::-fd00::f": "fd00::/124",
		"fd00::/128":      "fd00::",
		"fd00::1-fd00::f": "fd00::1-fd00::f", "fd00::1/64": "", "fe80::1%eth0": "", "10.9.0.1-fd00::1": "", "::ffff:10.9.0.1": "",
		"::ffff:10.9.0.0/120": "", "/": "",
	} {
		r, err := seedbed.ParseAddrRange(in)
		if got := r.String(); got != want || (want == "") != errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("ParseAddrRange(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestTakes(t *testing.T) {
	t.Parallel()
	n := lan(func(n *seedbed.Network) {
		r, _ := seedbed.ParseAddrRange("10.9.0.20-10.9.0.29")
		n.Kept = []seedbed.AddrRange{r}
		n.Range = seedbed.AddrRange{First: netip.MustParseAddr("10.9.0.100"), Last: netip.MustParseAddr("10.9.0.200")}
	})
	for text, want := range map[string]bool{
		"10.9.0.0": false, "10.9.0.1": false, "10.9.0.2": true, "10.9.0.19": true, "10.9.0.20": false, "10.9.0.29": false, "10.9.0.30": true,
		"10.9.0.254": true, "10.9.0.255": false, "10.9.1.1": false, "fd00::1": false, "::ffff:10.9.0.5": false,
	} {
		if err := n.Takes(netip.MustParseAddr(text)); (err == nil) != want {
			t.Errorf("Takes(%s) = %v", text, err)
		}
	}
}

// The addresses that NICs get are those, in order, that one may ask for and that are in the range.
func TestNextAddr(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := lan(func(*seedbed.Network) {})
		host := func(name string) netip.Addr {
			return netip.AddrFrom4([4]byte{10, 9, 0, byte(rapid.IntRange(1, 254).Draw(t, name))})
		}
		some := func(name string) seedbed.AddrRange {
			a, b := host(name+" from"), host(name+" to")
			if b.Less(a) {
				a, b = b, a
			}
			return seedbed.AddrRange{First: a, Last: b}
		}
		n.Gateway = host("gateway")
		if rapid.Bool().Draw(t, "ranged") {
			n.Range = some("range")
		}
		for range rapid.IntRange(0, 4).Draw(t, "kept") {
			n.Kept = append(n.Kept, some("kept"))
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "reserved") {
			n.Reservations = append(n.Reservations, seedbed.Reservation{MAC: seedbed.MAC{2, 5: byte(i)}, Addr: host("reservation")})
		}
		free, next := int64(0), n.NextAddr(netip.Addr{})
		for a := n.Prefix.Addr(); n.Prefix.Contains(a); a = a.Next() {
			if _, err := n.Asks(seedbed.MAC{}, a); err != nil || n.Range.First.IsValid() && !n.Range.Contains(a) {
				continue
			}
			if next != a {
				t.Fatalf("the next address is %s, want %s", next, a)
			}
			next = n.NextAddr(a.Next())
			free++
		}
		if next.IsValid() {
			t.Fatalf("%s is one too many", next)
		}
		if use := n.CountAddresses(nil); use.Free != free {
			t.Fatalf("%d addresses are free, want %d", use.Free, free)
		}
		a := host("taken")
		want := seedbed.AddressCount{Used: 1, Free: free}
		if n.NextAddr(a) == a {
			want.Free--
		}
		if use := n.CountAddresses(map[netip.Addr]bool{a: true}); *use != want {
			t.Fatalf("with %s taken, the use is %+v, want %+v", a, *use, want)
		}
	})
}
