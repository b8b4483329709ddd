//go:build integration

package probe

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
	"seedbed/netcfg"
	"seedbed/netcfg/netnstest"
)

func TestMain(m *testing.M) { os.Exit(netnstest.Main(m)) }

// TestUsed asks a host on the wire for its addresses and for others, by both kinds of uplink, without the node and with it
// as a bridge that filters.
func TestUsed(t *testing.T) {
	const hostMAC = "52:54:00:ee:00:02"
	for _, shared := range []bool{false, true} {
		t.Run("uplink is a bridge: "+map[bool]string{true: "yes", false: "no"}[shared], func(t *testing.T) {
			host, uplink := netnstest.New(t), "wire"
			netnstest.Veth(t, "wire", host, hostMAC)
			if shared {
				uplink = "br0"
				netnstest.Run(t, "ip", "link", "add", "br0", "type", "bridge")
				t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "br0") })
				netnstest.Run(t, "ip", "link", "set", "wire", "master", "br0")
				netnstest.Run(t, "ip", "link", "set", "br0", "up")
			}
			host.Run(t, "ip", "addr", "add", "10.79.0.7/24", "dev", "eth0")
			host.Run(t, "ip", "addr", "add", "fd12:3456:789a:1::7/64", "dev", "eth0", "nodad")
			m, err := netcfg.Open(slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := m.Cleanup(context.WithoutCancel(t.Context()), true); err != nil {
					t.Error(err)
				}
				m.Close()
			})
			lan := seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Bridge: "sb-lan", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 3},
				Uplink: uplink, Prefix: netip.MustParsePrefix("10.79.0.0/24")}
			lan.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
			own := seedbed.Network{Name: "own", Kind: seedbed.NetworkIsolated, Bridge: "sb-own", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 4},
				Prefix: netip.MustParsePrefix("10.80.0.0/24"), Gateway: netip.MustParseAddr("10.80.0.1")}
			if err := m.Apply(t.Context(), netcfg.State{Networks: []seedbed.Network{lan, own}}, netcfg.Options{}); err != nil {
				t.Fatal(err)
			}
			mac, addr := seedbed.MAC{2, 0, 0, 0, 0, 3}, netip.MustParseAddr
			got, err := Used(t.Context(), []seedbed.AddressProbe{
				{Bridge: "sb-lan", MAC: mac, Addrs: []netip.Addr{addr("10.79.0.3"), addr("10.79.0.7"), lan.Addr6(mac), addr("fd12:3456:789a:1::7")}},
				{Bridge: "sb-lan", MAC: seedbed.MAC{2, 0, 0, 0, 0, 4}, Addrs: []netip.Addr{addr("10.79.0.4")}},
				{Bridge: "sb-own", MAC: mac, Addrs: []netip.Addr{addr("10.80.0.1")}},
				{Bridge: "absent", MAC: mac, Addrs: []netip.Addr{addr("10.79.0.7")}},
			})
			if err != nil {
				t.Fatal(err)
			}
			by, _ := seedbed.ParseMAC(hostMAC)
			if len(got.Unasked) != 2 || got.Unasked["sb-own"] == "" || got.Unasked["absent"] == "" {
				t.Errorf("unasked: %v; want the bridges without an uplink", got.Unasked)
			}
			want := []seedbed.AddressUse{{Bridge: "sb-lan", Addr: addr("10.79.0.7"), MAC: by},
				{Bridge: "sb-lan", Addr: addr("fd12:3456:789a:1::7"), MAC: by}}
			if diff := cmp.Diff(want, got.Used, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Error(diff)
			}
			netnstest.Run(t, "ip", "link", "set", map[bool]string{false: "wire", true: "sb-lan"}[shared], "down")
			got, err = Used(t.Context(), []seedbed.AddressProbe{{Bridge: "sb-lan", MAC: mac, Addrs: []netip.Addr{addr("10.79.0.7")}}})
			if err != nil || shared == (len(got.Used) == 0) || shared != (len(got.Unasked) == 0) {
				t.Errorf("with a link that is down: %+v, %v", got, err)
			}
			if known := host.Run(t, "ip", "neigh"); strings.Contains(known, "02:00:00:00:00:03") {
				t.Errorf("the host takes the probe for a use of the address:\n%s", known)
			}
		})
	}
}
