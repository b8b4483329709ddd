//go:build integration

package guestplane

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
)

// TestTime: chrony of the node tells guests the time at Amazon's address, whatever their security groups are, on networks
// that have it among their time servers.
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
	web, db, lone := record(1, "default", "10.77.0.11"), record(2, "default", "10.77.0.12"), record(3, "other", "10.78.0.13")
	web.NICs[0].Groups = []string{"closed"}
	state := stateWith([]seedbed.Network{kept, other}, web, db, lone)
	state.Groups = []seedbed.SecurityGroup{{Name: "closed"}}
	serveState(t, p, state)
	web1, db1, lone1 := attach(t, web, "seedbed0", web.NICs[0].ID.Tap()), attach(t, db, "seedbed0", db.NICs[0].ID.Tap()),
		attach(t, lone, "seedbed1", lone.NICs[0].ID.Tap())

	// It comes to a network that is there.
	apply := func(revision int64, ntp ...netip.Addr) {
		t.Helper()
		kept.NTP, state.Revision = ntp, revision
		state.Networks = []seedbed.Network{kept, other}
		if err := p.Apply(t.Context(), state); err != nil {
			t.Fatal(err)
		}
	}
	apply(2, seedbed.TimeAddr)
	clock := func() seedbed.Check {
		checks := p.portChecks()
		return checks[len(checks)-1]
	}
	if c := clock(); c.OK || c.Name != "time server 169.254.169.123 of default" || !strings.Contains(c.Hint, "chrony") {
		t.Errorf("without a time server: %+v", c)
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "chrony.conf")
	text := "local stratum 3\nallow 10.77.0.0/24\nallow 10.78.0.0/24\ncmdport 0\nbindcmdaddress " + dir + "/socket\npidfile " + dir + "/pid\n"
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

	asks := func(who person) bool {
		var out []byte
		who.ns.Do(func() { // it fails if it was not answered
			out, _ = exec.Command(chronyd, "-Q", "-t", "4", "-u", "root", "-F", "0", "server 169.254.169.123 iburst maxsamples 1",
				"pidfile "+filepath.Join(dir, who.Name), "cmdport 0", "bindcmdaddress /").CombinedOutput()
		})
		return strings.Contains(string(out), "System clock wrong by")
	}
	for _, who := range []person{web1, db1} {
		eventually(t, func() string { // the first answers may be lost while neighbours are found
			if !asks(who) {
				return who.Name + " is not told the time"
			}
			return ""
		})
	}
	if asks(lone1) {
		t.Error("a guest of a network without it is told the time")
	}
	if db1.passesFor(t, seedbed.TimeAddr.String(), 123, web1) {
		t.Error("a guest passes for the time server to one whose security group lets nothing in")
	}
	const want = "169.254.169.123, 169.254.169.254/32 10.77.0.1 169.254.169.123/32 10.77.0.1 0.0.0.0/0 10.77.0.1\n"
	if out := db1.offered(t, "$ntpsrv, $staticroutes", "ntpsrv", "staticroutes"); !strings.Contains(out, want) {
		t.Errorf("the guest was offered\n%s\nwant %s", out, want)
	}

	apply(3)
	if asks(db1) {
		t.Error("a guest is told the time after the network has no time server any more")
	}
}
