package metadata

import (
	"net/netip"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestNoCloudNetwork checks what network-config says of NICs with DHCP and without, as YAML.
func TestNoCloudNetwork(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	lan := seedbed.Network{Name: "lan", Prefix: netip.MustParsePrefix("10.9.0.0/16"), Gateway: addr("10.9.0.1"), DHCP: true}
	fixed := seedbed.Network{Name: "fixed", Prefix: netip.MustParsePrefix("10.8.0.0/24"), Gateway: addr("10.8.0.1"),
		DNS: []netip.Addr{addr("10.8.0.53"), addr("10.8.0.54")}}
	lan6, slaac, fixed6 := lan, lan, fixed
	lan6.Name, slaac.Name, slaac.SLAAC, fixed6.Name = "lan6", "slaac", true, "fixed6"
	for _, n := range []*seedbed.Network{&lan6, &slaac, &fixed6} {
		n.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
	}
	peered := fixed
	peered.Name, peered.Peers, peered.PeerPrefixes = "peered", []string{"db"}, []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24"),
		netip.MustParsePrefix("fd12:3456:789a:2::/64")}
	only6, onlyFixed6 := lan6, fixed6
	only6.Name, onlyFixed6.Name = "only6", "onlyFixed6"
	for _, n := range []*seedbed.Network{&only6, &onlyFixed6} {
		n.Kind, n.Prefix, n.Gateway, n.DNS = seedbed.NetworkRouted, netip.Prefix{}, netip.Addr{}, []netip.Addr{seedbed.ResolverAddr}
	}
	wire := seedbed.Network{Name: "wire", Kind: seedbed.NetworkBridged, Uplink: "br0"}
	bare := seedbed.Network{Name: "bare", Kind: seedbed.NetworkIsolated}
	wire6, plant6 := only6, onlyFixed6 // on a wire
	wire6.Name, wire6.Kind, wire6.Uplink = "wire6", seedbed.NetworkBridged, "br0"
	plant6.Name, plant6.Kind, plant6.Uplink, plant6.DNS = "plant6", seedbed.NetworkDirect, "br0", nil
	onlyFixed6.Reservations = []seedbed.Reservation{{MAC: seedbed.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x13}, Addr: addr("fd12:3456:789a:1::50")}}
	nic := func(n byte, network, a string) seedbed.GuestNIC {
		g := seedbed.GuestNIC{MAC: seedbed.MAC{0x52, 0x54, 0, 0x12, 0x34, n}, Network: network}
		if a != "" {
			g.Addr = addr(a)
		}
		return g
	}
	match := func(last string) map[string]any { return map[string]any{"macaddress": "52:54:00:12:34:" + last} }
	for _, tt := range []struct {
		name string
		nics []seedbed.GuestNIC
		want map[string]any // the ethernets; nil for an empty document
	}{
		{"no NIC", nil, nil},
		{"unknown network", []seedbed.GuestNIC{nic(1, "gone", "10.9.0.7")}, nil},
		{"one with DHCP", []seedbed.GuestNIC{nic(0x10, "lan", "10.9.0.7")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": true},
		}},
		{"one with the DHCP of another", []seedbed.GuestNIC{nic(0x10, "wire", "")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": true},
		}},
		{"one without addresses", []seedbed.GuestNIC{nic(0x10, "lan", "10.9.0.7"), nic(0x11, "bare", "")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": true, "dhcp4-overrides": map[string]any{"route-metric": uint64(100)}},
			"nic1": map[string]any{"match": match("11"), "dhcp4": false},
		}},
		{"one without DHCP", []seedbed.GuestNIC{nic(0x10, "fixed", "10.8.0.7")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": false, "addresses": []any{"10.8.0.7/24"},
				"gateway4":    "10.8.0.1",
				"nameservers": map[string]any{"addresses": []any{"10.8.0.53", "10.8.0.54"}}},
		}},
		{"a peer", []seedbed.GuestNIC{nic(0x10, "peered", "10.8.0.7")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": false, "addresses": []any{"10.8.0.7/24"},
				"gateway4": "10.8.0.1", "routes": []any{map[string]any{"to": "10.7.0.0/24", "via": "10.8.0.1"}},
				"nameservers": map[string]any{"addresses": []any{"10.8.0.53", "10.8.0.54"}}},
		}},
		{"IPv6 by DHCP", []seedbed.GuestNIC{nic(0x10, "lan6", "10.9.0.7")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": true, "dhcp6": true},
		}},
		{"IPv6 by SLAAC", []seedbed.GuestNIC{nic(0x10, "slaac", "10.9.0.7")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": true},
		}},
		{"IPv6 without DHCP", []seedbed.GuestNIC{nic(0x10, "fixed6", "10.8.0.7")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": false,
				"addresses":   []any{"10.8.0.7/24", "fd12:3456:789a:1:5054:ff:fe12:3410/64"},
				"gateway4":    "10.8.0.1",
				"nameservers": map[string]any{"addresses": []any{"10.8.0.53", "10.8.0.54"}}},
		}},
		{"IPv6 alone, by DHCP", []seedbed.GuestNIC{nic(0x10, "only6", ""), nic(0x11, "lan", "10.9.0.7")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": false, "dhcp6": true},
			"nic1": map[string]any{"match": match("11"), "dhcp4": true, "dhcp4-overrides": map[string]any{"route-metric": uint64(200)}},
		}},
		{"IPv6 alone, without DHCP", []seedbed.GuestNIC{nic(0x10, "onlyFixed6", "")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": false, "addresses": []any{"fd12:3456:789a:1:5054:ff:fe12:3410/64"},
				"nameservers": map[string]any{"addresses": []any{"fd00:ec2::253"}}},
		}},
		{"a reserved IPv6 address", []seedbed.GuestNIC{nic(0x13, "onlyFixed6", "")}, map[string]any{
			"nic0": map[string]any{"match": match("13"), "dhcp4": false, "addresses": []any{"fd12:3456:789a:1::50/64"},
				"nameservers": map[string]any{"addresses": []any{"fd00:ec2::253"}}},
		}},
		{"IPv6 alone, on a wire", []seedbed.GuestNIC{nic(0x10, "wire6", ""), nic(0x11, "plant6", "")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": false, "dhcp6": true},
			"nic1": map[string]any{"match": match("11"), "dhcp4": false, "addresses": []any{"fd12:3456:789a:1:5054:ff:fe12:3411/64"}},
		}},
		{"three", []seedbed.GuestNIC{nic(0x10, "lan", "10.9.0.7"), nic(0x11, "fixed", "10.8.0.7"), nic(0x12, "lan", "10.9.0.8")}, map[string]any{
			"nic0": map[string]any{"match": match("10"), "dhcp4": true, "dhcp4-overrides": map[string]any{"route-metric": uint64(100)}},
			"nic1": map[string]any{"match": match("11"), "dhcp4": false, "addresses": []any{"10.8.0.7/24"},
				"nameservers": map[string]any{"addresses": []any{"10.8.0.53", "10.8.0.54"}}},
			"nic2": map[string]any{"match": match("12"), "dhcp4": true, "dhcp4-overrides": map[string]any{"route-metric": uint64(300)}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			view := View{Guest: seedbed.Guest{NICs: tt.nics},
				Networks: []seedbed.Network{lan, fixed, wire, bare, lan6, slaac, fixed6, peered, only6, onlyFixed6, wire6, plant6}}
			body, _, ok := Render(view, "/nocloud/network-config")
			if !ok || tt.want == nil {
				if !ok || len(body) > 0 {
					t.Errorf("%t, %q: want an empty document", ok, body)
				}
				return
			}
			var got map[string]any
			if err := yaml.Unmarshal(body, &got); err != nil {
				t.Fatalf("%v:\n%s", err, body)
			}
			if d := cmp.Diff(map[string]any{"version": uint64(2), "ethernets": tt.want}, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
