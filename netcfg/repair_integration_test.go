//go:build integration

package netcfg

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// TestRestoreSwitches: somebody changes what metadata rests on; it is told, with the fix, and set
// again.
func TestRestoreSwitches(t *testing.T) {
	var log lines
	m := openLog(t, &log)
	apply(t, m, state0(), Options{})
	if n := log.count("changed externally"); n != 0 {
		t.Errorf("%d changes were told of before there was one", n)
	}
	for key, bad := range map[string]struct {
		value, want, check, hint string
	}{
		"net.ipv4.tcp_fwmark_accept":              {"0", "1", "tcp_fwmark_accept", ""},
		"net.ipv4.ip_forward":                     {"0", "1", "ip_forward", "sysctl -w net.ipv4.ip_forward=1"},
		"net.ipv4.conf.seedbed0.rp_filter":        {"1", "0", "bridge seedbed0", "sysctl -w net.ipv4.conf.seedbed0.rp_filter=2"},
		"net.ipv4.conf.seedbed0.accept_local":     {"0", "1", "bridge seedbed0", "sysctl -w net.ipv4.conf.seedbed0.accept_local=1"},
		"net.ipv4.conf.seedbed0.arp_ignore":       {"8", "1", "bridge seedbed0", "sysctl -w net.ipv4.conf.seedbed0.arp_ignore=1"},
		"net.ipv6.conf.seedbed0.accept_ra":        {"2", "0", "", ""},
		"net.ipv4.conf.seedbed0.arp_announce":     {"0", "2", "", ""},
		"net.ipv6.conf.seedbed0.addr_gen_mode":    {"0", "1", "", ""},
		"net.ipv6.conf.seedbed0.accept_dad":       {"1", "0", "", ""},
		"net.ipv6.conf.seedbed0.autoconf":         {"1", "0", "", ""},
		"net.ipv6.conf.seedbed0.accept_redirects": {"1", "0", "", ""},
	} {
		netnstest.Run(t, "sysctl", "-w", key+"="+bad.value)
		told := 0
		for _, c := range m.Check(t.Context()) {
			if !c.OK {
				told++
				if c.Name != bad.check || !strings.Contains(c.Hint, bad.hint) {
					t.Errorf("%s=%s: check %+v, want %s with %q", key, bad.value, c, bad.check, bad.hint)
				}
			}
		}
		if (told > 0) != (bad.check != "") {
			t.Errorf("%s=%s: %d checks fail", key, bad.value, told)
		}
		before := log.count("changed externally")
		if err := m.Restore(t.Context()); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if got := strings.TrimSpace(netnstest.Run(t, "sysctl", "-n", key)); got != bad.want {
			t.Errorf("%s is %s after Restore, want %s", key, got, bad.want)
		}
		if log.count("changed externally") != before+1 {
			t.Errorf("%s was not told of", key)
		}
	}
	netnstest.Run(t, "sysctl", "-w", "net.ipv4.conf.all.arp_ignore=8")
	t.Cleanup(func() { netnstest.Run(t, "sysctl", "-w", "net.ipv4.conf.all.arp_ignore=0") })
	for _, c := range m.Check(t.Context()) {
		if c.Name == "bridge seedbed0" && (c.OK || c.Hint != "sysctl -w net.ipv4.conf.all.arp_ignore=1") {
			t.Errorf("arp_ignore of all: %+v", c)
		}
	}
}

// TestRestoreRules: rules that somebody removes come back with the next look.
func TestRestoreRules(t *testing.T) {
	var log lines
	m := openLog(t, &log)
	if err := m.Restore(t.Context()); err != nil {
		t.Errorf("before the first Apply: %v", err)
	}
	apply(t, m, state0(), Options{})
	good := stripHandles(ruleset(t))
	for name, damage := range map[string][]string{
		"a chain empty":  {"nft", "flush", "chain", "bridge", "seedbed", "pre"},
		"a set empty":    {"nft", "flush", "set", "bridge", "seedbed", "addrs"},
		"an element":     {"nft", "add element bridge seedbed addrs { sb1 . 10.77.0.99 }"},
		"all gone":       {"nft", "flush", "ruleset"},
		"the digest":     {"nft", "flush", "chain", "bridge", "seedbed", "digest"},
		"a foreign rule": {"nft", "insert", "rule", "bridge", "seedbed", "pre", "accept"},
	} {
		netnstest.Run(t, damage[0], damage[1:]...)
		if err := m.Restore(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := stripHandles(ruleset(t)); got != good {
			t.Errorf("%s: not put right:\n%s", name, got)
		}
	}
	if log.count("the filters were changed externally") == 0 {
		t.Error("nobody was told")
	}
}

// TestNeighbourTables: they belong to the machine's first namespace, so that only the comparison is
// tried here.
func TestNeighbourTables(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []struct{ name, value string }{{"gc_thresh2", "512"}, {"gc_thresh3", "1024"}} {
		if err := os.MkdirAll(dir+"/net/ipv4/neigh/default", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/net/ipv4/neigh/default/"+f.name, []byte(f.value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	netnstest.Run(t, "mount", "--bind", dir+"/net/ipv4", "/proc/sys/net/ipv4")
	t.Cleanup(func() { netnstest.Run(t, "umount", "/proc/sys/net/ipv4") })
	for ports, want := range map[int]string{512: "",
		513: "sysctl -w net.ipv4.neigh.default.gc_thresh1=1024 net.ipv4.neigh.default.gc_thresh2=2048 net.ipv4.neigh.default.gc_thresh3=4096",
		100_000: "sysctl -w net.ipv4.neigh.default.gc_thresh1=100000 " +
			"net.ipv4.neigh.default.gc_thresh2=200000 net.ipv4.neigh.default.gc_thresh3=400000"} {
		if c := checkNeighbours("net/ipv4", ports); c.OK != (want == "") || !strings.Contains(c.Hint, want) {
			t.Errorf("%d ports: %+v, want the hint %q", ports, c, want)
		}
	}
}

// TestInstallations: a bridge that has no network any more goes if this installation made it, and
// stays if another did, or nobody says who.
func TestInstallations(t *testing.T) {
	m := open(t)
	ours, theirs := state0(), lists{}
	theirs.Networks = append(theirs.Networks, lab())
	apply(t, m, theirs, Options{Installation: "b2"})
	netnstest.Run(t, "sh", "-c", "ip link add seedbed7 type bridge && ip link set seedbed7 alias seedbed:old")
	t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "seedbed7") })
	apply(t, m, ours, Options{Installation: "a1"})
	links := netnstest.Run(t, "ip", "link")
	for _, want := range []string{"alias seedbed:default@a1", "alias seedbed:lab@b2", "alias seedbed:old"} {
		if !strings.Contains(links, want) {
			t.Errorf("no %q in\n%s", want, links)
		}
	}
	// One that is in use is closed, whoever made it.
	netnstest.Run(t, "ip", "link", "add", "old0", "type", "ifb")
	t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "old0") })
	netnstest.Run(t, "ip", "link", "set", "old0", "master", "seedbed7")
	apply(t, m, ours, Options{Installation: "a1"})
	if out := netnstest.Run(t, "nft", "list", "set", "inet", "seedbed", "bridges"); !strings.Contains(out, `"seedbed7"`) ||
		strings.Contains(out, `"seedbed1"`) {
		t.Errorf("seedbed7 should be closed, and seedbed1 not:\n%s", out)
	}
	told := map[string]bool{}
	for _, c := range m.Check(t.Context()) {
		told[c.Name] = c.OK
	}
	for name, ok := range map[string]bool{"bridge seedbed0": true, "bridge seedbed1": false, "bridge seedbed7": false} {
		if got, there := told[name]; !there || got != ok {
			t.Errorf("check %s: there %v, OK %v, want %v", name, there, got, ok)
		}
	}
	// A new key of the same installation, or a release without marks: the MAC is the network's, so
	// it is adopted.
	apply(t, m, ours, Options{Installation: "c3"})
	apply(t, m, lists{}, Options{Installation: "c3"})
	if out := netnstest.Run(t, "ip", "link"); strings.Contains(out, "seedbed0") || !strings.Contains(out, "seedbed1") {
		t.Errorf("seedbed0 should be gone, and seedbed1 there:\n%s", out)
	}
}

// TestRestoreAfterConflict: a state that is in force but for one network is not undone by the next
// look: a port that it took away stays closed.
func TestRestoreAfterConflict(t *testing.T) {
	m := open(t)
	s := state0()
	apply(t, m, s, Options{})
	netnstest.Run(t, "ip", "link", "add", "seedbed1", "type", "bridge")
	t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "seedbed1") })
	lab := network0()
	lab.Name, lab.Bridge, lab.MAC[5] = "lab", "seedbed1", 9
	lab.Prefix, lab.Gateway, lab.NAT = netip.MustParsePrefix("10.78.0.0/24"), netip.MustParseAddr("10.78.0.1"), false
	next := lists{Networks: append(s.Networks, lab), Ports: s.Ports[1:]}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"Apply", func() error { return m.Apply(t.Context(), next.state(), Options{}) }},
		{"Restore", func() error { return m.Restore(t.Context()) }},
	} {
		if err := step.do(); !errors.Is(err, seedbed.ErrConflict) {
			t.Errorf("%s gave %v, want ErrConflict", step.name, err)
		}
		if listed(t, s.Ports[0]) || !listed(t, s.Ports[1]) {
			t.Errorf("the ports are not those of the new state after %s", step.name)
		}
	}
}
