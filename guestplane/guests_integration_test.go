//go:build integration

package guestplane

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// TestForgers: whatever a guest says that it is, it gets its own or nothing.
func TestForgers(t *testing.T) {
	p := realPlane(t)
	a, b := record(1, "default", "10.77.0.11"), record(2, "default", "10.77.0.12")
	serveState(t, p, stateWith([]seedbed.Network{network0()}, a, b))
	thief, owner := attach(t, a, "seedbed0", a.NICs[0].ID.Tap()), attach(t, b, "seedbed0", b.NICs[0].ID.Tap())
	thief.served(t, "at first", everywhere...)
	owner.served(t, "at first", everywhere...)

	for _, addr := range everywhere {
		for _, header := range []string{"X-Forwarded-For: 10.77.0.12", "Forwarded: for=10.77.0.12", "X-Real-IP: 10.77.0.12",
			"X-Forwarded-For: " + linkLocal(b.NICs[0].MAC), "Host: 10.77.0.12"} {
			if got := thief.get(t, addr, header); got.status == 200 && got.body != a.ServedID() {
				t.Errorf("%s at %s: %+v", header, addr, got)
			}
		}
		if got := request(t, thief.ns, patience, "PUT", addr, "/latest/api/token", tokenTTL, "X-Forwarded-For: 10.77.0.12"); got.status != 403 {
			t.Errorf("a token for a forwarded request at %s: %+v, want 403", addr, got)
		}
	}
	token := request(t, owner.ns, patience, "PUT", ask4, "/latest/api/token", tokenTTL)
	if token.status != 200 {
		t.Fatalf("token: %+v", token)
	}
	for _, addr := range everywhere {
		if got := thief.get(t, addr, "X-aws-ec2-metadata-token: "+token.body); got.status != 401 {
			t.Errorf("another's token at %s: %+v, want 401", addr, got)
		}
		if got := owner.get(t, addr, "X-aws-ec2-metadata-token: "+token.body); got != (answer{200, b.ServedID()}) {
			t.Errorf("its own token at %s: %+v", addr, got)
		}
	}

	mac := func(m seedbed.MAC) { thief.ns.Run(t, "ip", "link", "set", "eth0", "address", m.String()) }
	theirs, own := b.NICs[0], a.NICs[0]
	thief.address(t, theirs.Addr.String(), linkLocal(theirs.MAC))
	thief.robs(t, "with another's addresses", owner, everywhere...)
	mac(theirs.MAC)
	thief.address(t, own.Addr.String(), linkLocal(own.MAC))
	thief.robs(t, "with another's MAC", owner, everywhere...)
	thief.address(t, theirs.Addr.String(), linkLocal(theirs.MAC))
	thief.robs(t, "with another's MAC and addresses", owner, everywhere...)
	// The owner is away, so that nobody defends what is taken.
	owner.ns.Run(t, "ip", "link", "set", "eth0", "down")
	netnstest.Run(t, "ip", "neigh", "flush", "dev", "seedbed0")
	netnstest.Run(t, "ip", "-6", "neigh", "flush", "dev", "seedbed0")
	thief.robs(t, "with everything of another who is away", owner, everywhere...)
	mac(own.MAC)
	thief.address(t, theirs.Addr.String(), linkLocal(theirs.MAC))
	thief.robs(t, "with the addresses of another who is away", owner, everywhere...)
	owner.ns.Run(t, "ip", "link", "set", "eth0", "up")
	owner.address(t, theirs.Addr.String(), linkLocal(theirs.MAC))
	thief.address(t, own.Addr.String(), linkLocal(own.MAC))
	netnstest.Run(t, "ip", "-6", "neigh", "flush", "dev", "seedbed0")
	thief.served(t, "at last", everywhere...)
	owner.served(t, "at last", everywhere...)
}

// TestEqualNetworksAreServed: two networks with the same prefix and gateway, and guests with the
// same addresses and other MACs, asking at the same time.
func TestEqualNetworksAreServed(t *testing.T) {
	p := realPlane(t)
	second := network0()
	second.Name, second.Bridge, second.MAC[5], second.NAT = "second", "seedbed1", 2, false
	a, b := record(1, "default", "10.77.0.11"), record(2, "second", "10.77.0.11")
	serveState(t, p, stateWith([]seedbed.Network{network0(), second}, a, b))
	first, other := attach(t, a, "seedbed0", a.NICs[0].ID.Tap()), attach(t, b, "seedbed1", b.NICs[0].ID.Tap())
	// Over IPv6, too, they have the same address.
	other.address(t, "10.77.0.11", linkLocal(a.NICs[0].MAC))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 40 {
			first.served(t, "both at once", everywhere...)
		}
	}()
	for range 40 {
		other.served(t, "both at once", everywhere...)
	}
	<-done
	for _, g := range []person{first, other} {
		if out := g.offered(t, "$ip $hostname"); !strings.Contains(out, "10.77.0.11 "+g.Name) {
			t.Errorf("the lease of %s:\n%s", g.Name, out)
		}
	}
	for path, want := range map[string][2]string{
		"/latest/meta-data/mac": {a.NICs[0].MAC.String(), b.NICs[0].MAC.String()}, "/latest/meta-data/local-hostname": {"guest-1", "guest-2"}} {
		for i, g := range []person{first, other} {
			if got := request(t, g.ns, patience, "GET", ask4, path); got.status != 200 || !strings.HasPrefix(got.body, want[i]) {
				t.Errorf("%s of %s: %+v, want %s", path, g.Name, got, want[i])
			}
		}
	}
}

// TestHopLimitOfTokens: a token reaches the guest, and a container that the guest routes for only
// where the instance's hop limit lets it.
func TestHopLimitOfTokens(t *testing.T) {
	p := realPlane(t)
	a := record(1, "default", "10.77.0.11")
	state := stateWith([]seedbed.Network{network0()}, a)
	serveState(t, p, state)
	g := attach(t, a, "seedbed0", a.NICs[0].ID.Tap())
	behind := netnstest.New(t)
	g.ns.Run(t, "ip", "link", "add", "inner", "type", "veth", "peer", "name", "eth0", "netns", behind.PID())
	g.ns.Run(t, "ip", "addr", "add", "10.88.0.1/24", "dev", "inner")
	g.ns.Run(t, "ip", "link", "set", "inner", "up")
	behind.Run(t, "ip", "addr", "add", "10.88.0.2/24", "dev", "eth0")
	behind.Run(t, "ip", "link", "set", "eth0", "up")
	behind.Run(t, "ip", "route", "add", "default", "via", "10.88.0.1")
	g.ns.Run(t, "sysctl", "-w", "net.ipv4.ip_forward=1")
	g.ns.Run(t, "nft",
		"add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; }; add rule ip nat post oifname eth0 masquerade")
	for i, tt := range []struct {
		limit  int
		behind bool
	}{{0, false}, {1, false}, {2, true}, {64, true}, {1, false}} {
		a.Options.HopLimit = tt.limit
		state := stateWith([]seedbed.Network{network0()}, a)
		state.Since, state.Revision, state.Changed = int64(i+1), int64(i+2), []seedbed.InstanceID{a.ID}
		serveState(t, p, state)
		put := func(from *netnstest.Namespace, wait time.Duration) answer {
			return request(t, from, wait, "PUT", ask4, "/latest/api/token", tokenTTL)
		}
		if got := put(g.ns, patience); got.status != 200 {
			t.Errorf("limit %d: the guest gets %+v", tt.limit, got)
		}
		wait := patience
		if !tt.behind {
			wait = shortly
		}
		if got := put(behind, wait); (got.status == 200) != tt.behind {
			t.Errorf("limit %d: who is behind the guest gets %+v, want a token %v", tt.limit, got, tt.behind)
		}
		if got := request(t, behind, patience, "GET", ask4, idPath); got != (answer{200, a.ServedID()}) {
			t.Errorf("limit %d: a GET from behind the guest: %+v", tt.limit, got)
		}
	}
}

// TestIdentityOfForeignPorts: a guest whose port is not ours is known by its MAC where its network
// says so, and nobody elsewhere.
func TestIdentityOfForeignPorts(t *testing.T) {
	p := realPlane(t)
	byMAC, byTap := network0(), network0()
	byMAC.Identity = seedbed.IdentityMAC
	byTap.Name, byTap.Bridge, byTap.MAC[5], byTap.NAT = "second", "seedbed1", 2, false
	a, b, local := record(1, "default", "10.77.0.11"), record(2, "second", "10.77.0.12"), record(3, "default", "10.77.0.13")
	serveState(t, p, stateWith([]seedbed.Network{byMAC, byTap}, a, b, local))
	far, nobody := attach(t, a, "seedbed0", "vx0"), attach(t, b, "seedbed1", "vx1")
	near := attach(t, local, "seedbed0", local.NICs[0].ID.Tap())
	far.served(t, "by its MAC", everywhere...)
	near.served(t, "by its mark", everywhere...)
	for _, addr := range everywhere {
		if got := nobody.get(t, addr); got.status != 404 {
			t.Errorf("by its MAC, where only marks count, at %s: %+v, want 404", addr, got)
		}
	}
	far.address(t, "10.77.0.99", linkLocal(a.NICs[0].MAC))
	if got := far.get(t, ask4); got.status != 404 {
		t.Errorf("with an address that is not its own: %+v, want 404", got)
	}
	// Whoever can use another port is not a guest of this host, whatever MAC it takes, also while
	// that guest is away.
	near.ns.Run(t, "ip", "link", "set", "eth0", "down")
	far.ns.Run(t, "ip", "link", "set", "eth0", "address", local.NICs[0].MAC.String())
	far.address(t, local.NICs[0].Addr.String(), linkLocal(local.NICs[0].MAC))
	for _, addr := range everywhere {
		if got := far.get(t, addr); got.status != 404 {
			t.Errorf("as a guest whose tap is here, at %s: %+v, want 404", addr, got)
		}
	}
	far.ns.Run(t, "ip", "link", "set", "eth0", "address", a.NICs[0].MAC.String())
	far.address(t, a.NICs[0].Addr.String(), linkLocal(a.NICs[0].MAC))
	near.ns.Run(t, "ip", "link", "set", "eth0", "up")
	near.address(t, local.NICs[0].Addr.String(), linkLocal(local.NICs[0].MAC))
	near.served(t, "when it is back", everywhere...)
	// A guest with a mark stays that guest, whatever MAC it asks with.
	near.ns.Run(t, "ip", "link", "set", "eth0", "address", a.NICs[0].MAC.String())
	near.address(t, "10.77.0.11", linkLocal(a.NICs[0].MAC))
	near.robs(t, "with the MAC of a guest that is known by it", far, everywhere...)
}

// TestLateIPv6: a bridge that gets IPv6 later gets its listeners then.
func TestLateIPv6(t *testing.T) {
	p := realPlane(t)
	a := record(1, "default", "10.77.0.11")
	netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.default.disable_ipv6=1")
	t.Cleanup(func() { netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.default.disable_ipv6=0") })
	state := stateWith([]seedbed.Network{network0()}, a)
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	wantSockets(t, []string{"0.0.0.0%seedbed0:67", "169.254.169.254%seedbed0:80"})
	g := attach(t, a, "seedbed0", a.NICs[0].ID.Tap())
	g.served(t, "without IPv6", ask4)
	netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.seedbed0.disable_ipv6=0")
	if err := p.kernel.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSockets(t, served("seedbed0"))
	g.served(t, "with IPv6", everywhere...)
}

// TestRedirect: with metadata on another port guests notice nothing.
func TestRedirect(t *testing.T) {
	p := realPlane(t)
	p.port = 7380
	a, b := record(1, "default", "10.77.0.11"), record(2, "default", "10.77.0.12")
	if err := p.Apply(t.Context(), stateWith([]seedbed.Network{network0()}, a, b)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if have := strings.Join(sockets(t), " "); strings.Count(have, ":7380") != 3 {
			return have
		}
		return ""
	})
	taken, err := net.Listen("tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, g := range []seedbed.Guest{a, b} {
		attach(t, g, "seedbed0", g.NICs[0].ID.Tap()).served(t, "redirected", everywhere...)
	}
}

// TestPortIsTaken: whoever has the port is named, over either protocol, and guests are served as
// soon as it is free.
func TestPortIsTaken(t *testing.T) {
	p := realPlane(t)
	a := record(1, "default", "10.77.0.11")
	python := netnstest.Background(t, "python3", "-c",
		"import socket, sys; s = socket.socket(socket.AF_INET6); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); "+
			"s.bind(('::', 80)); s.listen(); print('ready', flush=True); sys.stdin.read()")
	if err := p.Apply(t.Context(), stateWith([]seedbed.Network{network0()}, a)); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("it is held by python3 (pid %d)", python.PID)
	found := 0
	for _, c := range p.Checks(t.Context()) {
		if strings.HasPrefix(c.Name, "port ") {
			found++
			if c.OK || c.Detail != want || !strings.Contains(c.Hint, "metadata.listen") {
				t.Errorf("%+v, want %q", c, want)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d checks of ports, want one per protocol", found)
	}
	if err := p.explain(p.addrs(1)[2], io.EOF, redirectHint); !strings.Contains(err.Error(), "python3 (pid") {
		t.Errorf("an error of listening on the link-local address says %v", err)
	}
	python.Stop()
	wantSockets(t, served("seedbed0"))
	for _, c := range p.Checks(t.Context()) {
		if strings.HasPrefix(c.Name, "port ") && !c.OK {
			t.Errorf("%+v after the port was free", c)
		}
	}
}
