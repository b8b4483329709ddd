//go:build integration

package guestplane

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// TestTime: chrony of the node tells guests the time at Amazon's address, whatever their security groups are, on networks
// that have it among their time servers. Guests of bridged networks, and of an isolated one, are told as well while one of
// another network has the same address.
func TestTime(t *testing.T) {
	if chronydErr != nil {
		t.Fatal(chronydErr)
	}
	p := realPlane(t)
	kept, other := network0(), network0()
	kept.Kind = seedbed.NetworkNAT
	kept.Allow.Addresses = true // but for the time server's
	other.Name, other.Kind, other.Bridge, other.MAC[5], other.NAT = "other", seedbed.NetworkRouted, "seedbed1", 2, false
	other.Prefix, other.Gateway = netip.MustParsePrefix("10.78.0.0/24"), netip.MustParseAddr("10.78.0.1")
	alone := network0()
	alone.Name, alone.Kind, alone.Bridge, alone.MAC[5], alone.NAT = "alone", seedbed.NetworkIsolated, "seedbed2", 3, false
	alone.NTP = []netip.Addr{seedbed.TimeAddr}
	wires := make([]seedbed.Network, 2)
	for i := range wires {
		uplink := fmt.Sprintf("br%d", i)
		netnstest.Run(t, "ip", "link", "add", uplink, "type", "bridge")
		t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", uplink) })
		netnstest.Run(t, "ip", "link", "set", uplink, "up")
		wires[i] = seedbed.Network{Name: fmt.Sprintf("lan%d", i), Kind: seedbed.NetworkBridged, Bridge: fmt.Sprintf("sb-lan%d", i),
			MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, byte(3 + i)}, Uplink: uplink, NetworkOptions: alone.NetworkOptions}
	}
	wires[0].Prefix, wires[0].Gateway, wires[0].DHCP = netip.MustParsePrefix("10.79.0.0/24"), netip.MustParseAddr("10.79.0.1"), true
	six := network6(seedbed.NetworkBridged) // with IPv6 alone
	six.Name, six.Bridge, six.MAC[5], six.Uplink, six.NTP = "six", "sb-six", 9, "br2", []netip.Addr{seedbed.TimeAddr}
	six.Prefix, six.Gateway, six.NetworkOptions.Range = netip.Prefix{}, netip.Addr{}, seedbed.AddrRange{}
	netnstest.Run(t, "ip", "link", "add", "br2", "type", "bridge")
	t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "br2") })
	netnstest.Run(t, "ip", "link", "set", "br2", "up")
	modern := record(7, "six", "10.77.0.11")
	modern.NICs[0].Addr = netip.Addr{}
	web, db, lone := record(1, "default", "10.77.0.11"), record(2, "default", "10.77.0.12"), record(3, "other", "10.78.0.13")
	twin, wired, wired1 := record(4, "alone", "10.77.0.11"), record(5, "lan0", "10.79.0.7"), record(6, "lan1", "10.79.0.7")
	wired1.NICs[0].Addr = netip.Addr{} // it comes from elsewhere
	for _, g := range []seedbed.Guest{web, wired, modern} {
		g.NICs[0].Groups = []string{"closed"}
	}
	networks := func() []seedbed.Network { return append([]seedbed.Network{kept, other, alone, six}, wires...) }
	state := stateWith(networks(), web, db, lone, twin, wired, wired1, modern)
	state.Groups = []seedbed.SecurityGroup{{Name: "closed"}}
	serveState(t, p, state)
	web1, db1, lone1 := attach(t, web, "seedbed0", web.NICs[0].ID.Tap()), attach(t, db, "seedbed0", db.NICs[0].ID.Tap()),
		attach(t, lone, "seedbed1", lone.NICs[0].ID.Tap())
	has := record(6, "lan1", "10.79.0.7")
	twins := []person{attach(t, twin, "seedbed2", twin.NICs[0].ID.Tap()), attach(t, wired, "sb-lan0", wired.NICs[0].ID.Tap()),
		attach(t, has, "sb-lan1", has.NICs[0].ID.Tap())}
	twins[1].ns.Run(t, "ip", "neigh", "replace", "10.79.0.1", "lladdr", "52:54:00:ee:00:09", "dev", "eth0") // the router on the wire
	twins[2].ns.Run(t, "ip", "route", "replace", "169.254.169.123", "dev", "eth0")

	// It comes to a network that is there.
	apply := func(revision int64, ntp ...netip.Addr) {
		t.Helper()
		kept.NTP, state.Revision = ntp, revision
		state.Networks = networks()
		if err := p.Apply(t.Context(), state); err != nil {
			t.Fatal(err)
		}
	}
	apply(2, seedbed.TimeAddr)
	clock := func() seedbed.Check {
		checks := p.portChecks()
		return checks[len(checks)-1]
	}
	if c := clock(); c.OK || c.Name != "time server for 169.254.169.123" || !strings.Contains(c.Hint, "chrony") {
		t.Errorf("without a time server: %+v", c)
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "chrony.conf")
	text := "local stratum 3\nallow 127.0.0.1\ncmdport 0\nbindcmdaddress " + dir + "/socket\npidfile " + dir + "/pid\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// -x: the clock itself stays as it is.
	server := exec.Command(chronyd, "-d", "-x", "-u", "root", "-F", "0", "-f", conf)
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	eventually(t, func() string {
		if c := clock(); !c.OK || !strings.Contains(c.Detail, "stratum 3") {
			return c.Detail
		}
		return ""
	})

	asksAt := func(who person, server string) bool {
		var out []byte
		who.ns.Do(func() { // it fails if it was not answered
			out, _ = exec.Command(chronyd, "-Q", "-t", "4", "-u", "root", "-F", "0", "server "+server+" iburst maxsamples 1",
				"pidfile "+filepath.Join(dir, who.Name), "cmdport 0", "bindcmdaddress /").CombinedOutput()
		})
		return strings.Contains(string(out), "System clock wrong by")
	}
	asks := func(who person) bool { return asksAt(who, seedbed.TimeAddr.String()) }
	for _, who := range append(twins, web1, db1) {
		eventually(t, func() string { // the first answers may be lost while neighbours are found
			if !asks(who) {
				return who.Name + " is not told the time"
			}
			return ""
		})
	}
	modern1 := boot6(t, modern, six.Bridge)
	eventually(t, func() string {
		return cmp.Diff("fd00:ec2::123, fd00:ec2::253, fd00:ec2::254", modern1.routes6(t))
	})
	modern1.leased6(t)
	eventually(t, func() string {
		if !asksAt(modern1, "fd00:ec2::123") {
			return "a guest with IPv6 alone is not told the time"
		}
		return ""
	})
	if out := netnstest.Run(t, "ip", "-6", "-o", "addr", "show", "dev", "seedbed0"); strings.Contains(out, "fd00:ec2::123") ||
		!strings.Contains(out, "fd00:ec2::254") {
		t.Errorf("a bridge of a network without an IPv6 prefix has the time server's IPv6 address, or not that of metadata:\n%s", out)
	}
	if asks(lone1) {
		t.Error("a guest of a network without it is told the time")
	}
	if db1.passesFor(t, seedbed.TimeAddr.String(), 123, web1) {
		t.Error("a guest passes for the time server to one whose security group lets nothing in")
	}
	if out := twins[1].offered(t, "$ntpsrv, $staticroutes", "ntpsrv", "staticroutes"); !strings.Contains(out,
		"\n169.254.169.123, 169.254.169.254/32 10.79.0.1 169.254.169.123/32 10.79.0.1 ") {
		t.Errorf("the guest of a bridged network was offered\n%s", out)
	}
	const want = "169.254.169.123, 169.254.169.254/32 10.77.0.1 169.254.169.123/32 10.77.0.1 0.0.0.0/0 10.77.0.1\n"
	if out := db1.offered(t, "$ntpsrv, $staticroutes", "ntpsrv", "staticroutes"); !strings.Contains(out, want) {
		t.Errorf("the guest was offered\n%s\nwant %s", out, want)
	}

	apply(3)
	if asks(db1) {
		t.Error("a guest is told the time after the network has no time server any more")
	}
	if !asks(twins[1]) {
		t.Error("a guest of another network is no longer told the time")
	}
}
