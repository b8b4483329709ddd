package seedbed_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"seedbed"
)

// v6 gives a network an IPv6 prefix.
func v6(n *seedbed.Network) { n.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64") }

// TestRange6: the addresses of an IPv6 range end in the MAC address, and tell it.
func TestRange6(t *testing.T) {
	t.Parallel()
	mac, addr := seedbed.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}, netip.MustParseAddr
	n := lan(func(n *seedbed.Network) {
		v6(n)
		n.Range6 = netip.MustParsePrefix("fd12:3456:789a:1:d0::/76")
		n.Kept = []seedbed.AddrRange{{First: addr("fd12:3456:789a:1::10"), Last: addr("fd12:3456:789a:1::1f")}}
	})
	first := addr("fd12:3456:789a:1:d0:5254:12:3456")
	if got := n.Addr6(mac); got != first {
		t.Errorf("Addr6 = %s, want %s", got, first)
	}
	if m, ok := n.FirstOf(first); !ok || m != mac {
		t.Errorf("FirstOf = %s %t", m, ok)
	}
	for text, want := range map[string]string{
		"fd12:3456:789a:1:d0:5254:12:9999":   "the first one of the NIC with the MAC address 52:54:00:12:99:99",
		"fd12:3456:789a:1:d5:5254:12:9999":   "",
		"fd12:3456:789a:1:5054:ff:fe12:3456": "", // no NIC makes it of its MAC address here
		"fd12:3456:789a:1::15":               "it is kept out",
		"fd12:3456:789a:1::1":                "it is the node's",
	} {
		if err := n.Adds(mac, addr(text)); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Adds %s: %v, want %q", text, err, want)
		}
	}
	if got := n.FreeAddr6(mac, 15); got != addr("fd12:3456:789a:1:df:5254:12:3456") || n.FreeAddr6(mac, 16).IsValid() {
		t.Errorf("FreeAddr6 = %s, and then %s", got, n.FreeAddr6(mac, 16))
	}
	n.Kept[0] = seedbed.AddrRange{First: first, Last: first}
	if err := n.Admits(mac); err == nil || !strings.Contains(err.Error(), "which is kept out: give it another MAC address") {
		t.Errorf("Admits = %v", err)
	}
}

// TestRange6Check: what says which IPv6 addresses there are fits the prefix.
func TestRange6Check(t *testing.T) {
	t.Parallel()
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	for _, tt := range []struct {
		name   string
		change func(*seedbed.Network)
		want   string
	}{
		{"IPv6 range, gateway, kept and route", func(n *seedbed.Network) {
			v6(n)
			n.Range6, n.Router6 = prefix("fd12:3456:789a:1:d::/80"), addr("fd12:3456:789a:1::ff")
			n.Kept = []seedbed.AddrRange{{First: addr("fd12:3456:789a:1::10"), Last: addr("fd12:3456:789a:1::1f")}}
			n.Routes = []seedbed.NetworkRoute{{Prefix: prefix("2001:db8:5::/48"), Via: n.Router6}}
		}, ""},
		{"IPv6 range elsewhere", func(n *seedbed.Network) { v6(n); n.Range6 = prefix("fd12:3456:789a:2:d::/80") }, "/65 to /80 within"},
		{"small IPv6 range", func(n *seedbed.Network) { v6(n); n.Range6 = prefix("fd12:3456:789a:1::100/120") }, "/65 to /80 within"},
		{"IPv6 range without a prefix", func(n *seedbed.Network) { n.Range6 = prefix("fd12:3456:789a:1:d::/80") }, "/65 to /80 within"},
		{"IPv6 range and SLAAC", func(n *seedbed.Network) { v6(n); n.SLAAC, n.Range6 = true, prefix("fd12:3456:789a:1:d::/80") }, "(slaac)"},
		{"IPv6 range of the node", func(n *seedbed.Network) { v6(n); n.Range6 = prefix("fd12:3456:789a:1::/80") },
			"has the address fd12:3456:789a:1::1 of the nodes"},
		{"IPv6 gateway elsewhere", func(n *seedbed.Network) { v6(n); n.Router6 = addr("fd12:3456:789a:2::1") },
			"expected one of fd12:3456:789a:1::/64"},
		{"IPv6 gateway of a NIC", func(n *seedbed.Network) { v6(n); n.Router6 = addr("fd12:3456:789a:1:5054:ff:fe12:3456") },
			"is the first one of the NIC with the MAC address 52:54:00:12:34:56"},
		{"IPv6 gateway of all routers", func(n *seedbed.Network) { v6(n); n.Router6 = addr("fd12:3456:789a:1::") }, "that of all routers"},
		{"IPv6 gateway, bridged", func(n *seedbed.Network) {
			v6(n)
			n.Kind, n.Uplink, n.Router6 = seedbed.NetworkBridged, "eno1", addr("fd12:3456:789a:1::5")
		}, "whose routers advertise themselves"},
		{"kept of another IPv6 prefix", func(n *seedbed.Network) {
			v6(n)
			n.Kept = []seedbed.AddrRange{{First: addr("fd12:3456:789a:2::1"), Last: addr("fd12:3456:789a:2::1")}}
		}, `"fd12:3456:789a:2::1" is kept out`},
		{"IPv6 route by a guest", func(n *seedbed.Network) {
			v6(n)
			n.Routes = []seedbed.NetworkRoute{{Prefix: prefix("2001:db8:5::/48"), Via: addr("fd12:3456:789a:1::7")}}
		}, "via the IPv6 gateway of a network of the kind nat or routed (fd12:3456:789a:1::1)"},
		{"IPv6 route, isolated", func(n *seedbed.Network) {
			v6(n)
			n.Kind, n.Routes = seedbed.NetworkIsolated, []seedbed.NetworkRoute{{Prefix: prefix("2001:db8:5::/48"), Via: n.Gateway6()}}
		}, "of the kind nat or routed"},
	} {
		err := lan(tt.change).Check()
		if tt.want == "" && err != nil ||
			tt.want != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: Check = %v, want %q", tt.name, err, tt.want)
		}
	}
}
