//go:build integration

package guestplane

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/feed"
	engines "seedbed/internal/lab"
	"seedbed/netcfg"
	"seedbed/netcfg/netnstest"
)

var (
	chronyd    string
	chronydErr error
)

// TestMain fetches chrony before it leaves the machine's network.
func TestMain(m *testing.M) {
	chronyd, chronydErr = engines.Chronyd()
	os.Exit(netnstest.Main(m))
}

// kernelPlane is a plane on the namespace's kernel; what it made is gone after the test.
func kernelPlane(t *testing.T) *Plane {
	t.Helper()
	k, err := netcfg.Open(quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Cleanup(context.Background(), true); err != nil {
			t.Error(err)
		}
		k.Close()
	})
	dir := t.TempDir()
	p := testPlane(k)
	if p.spool, err = feed.OpenSpool(feed.SpoolConfig{Socket: filepath.Join(dir, "feed.sock"), Node: "node1", Dir: dir,
		Log: quiet}); err != nil {
		t.Fatal(err)
	}
	return p
}

// sockets are the listeners on interfaces: "169.254.169.254%seedbed0:80". The kernel has numbers,
// so one that is bound to a dead interface has another name.
func sockets(t *testing.T) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(netnstest.Run(t, "ss", "-H", "-l", "-n", "-t", "-u")) {
		if f := strings.Fields(line); len(f) > 4 && strings.Contains(f[4], "%") {
			found = append(found, f[4])
		}
	}
	slices.Sort(found)
	return found
}

// served are the sockets of a bridge with DHCP.
func served(bridge string) []string {
	return append([]string{"0.0.0.0%" + bridge + ":67"}, metadataOn(bridge)...)
}

func metadataOn(bridge string) []string {
	return []string{"169.254.169.254%" + bridge + ":80", "[fd00:ec2::254]%" + bridge + ":80", "[fe80::a9fe:a9fe]%" + bridge + ":80"}
}

func wantSockets(t *testing.T, want []string) {
	t.Helper()
	eventually(t, func() string { return cmp.Diff(want, sockets(t)) })
}

// eventually polls until there is no difference.
func eventually(t *testing.T, difference func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for d := difference(); d != ""; d = difference() {
		if time.Now().After(deadline) {
			t.Fatal(d)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func number(t *testing.T) int {
	t.Helper()
	i, err := net.InterfaceByName("seedbed0")
	if err != nil {
		t.Fatal(err)
	}
	return i.Index
}

// TestDeletedBridge: someone deletes the bridge of a running plane.
func TestDeletedBridge(t *testing.T) {
	p := kernelPlane(t)
	stop := start(t, p)
	if err := p.Apply(t.Context(), stateOf(network0())); err != nil {
		t.Fatal(err)
	}
	wantSockets(t, served("seedbed0"))
	for range 3 {
		before := number(t)
		netnstest.Run(t, "ip", "link", "del", "seedbed0")
		eventually(t, func() string {
			if i, err := net.InterfaceByName("seedbed0"); err != nil || i.Index == before {
				return "no new bridge"
			}
			return cmp.Diff(served("seedbed0"), sockets(t))
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Alive(ctx); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	wantSockets(t, nil)
	number(t) // the bridge stays
}

// deaf is a kernel whose subscriptions are told nothing but the state at their beginning, and break
// when they are told to.
type deaf struct {
	*netcfg.Manager
	broken chan struct{}
}

func (d deaf) Follow(ctx context.Context, bridges, uplinks []string, fn func(string, bool)) error {
	begin, cancel := context.WithCancel(ctx)
	defer cancel()
	told := 0
	if err := d.Manager.Follow(begin, bridges, uplinks, func(bridge string, up bool) {
		fn(bridge, up)
		if told++; told == len(bridges) {
			cancel()
		}
	}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-d.broken:
		return errors.New("it broke off")
	}
}

// TestReplacedInAGap: the bridge is replaced while nobody follows, so all that is told is that it
// is up.
func TestReplacedInAGap(t *testing.T) {
	p := kernelPlane(t)
	k := deaf{p.host.(*netcfg.Manager), make(chan struct{})}
	p.host = k
	stop := start(t, p)
	state := stateOf(network0())
	replace := func() {
		t.Helper()
		before := number(t)
		netnstest.Run(t, "ip", "link", "del", "seedbed0")
		if err := k.Apply(t.Context(), p.desired(state), p.options(state)); err != nil {
			t.Fatal(err)
		}
		if number(t) == before {
			t.Fatal("the bridge was not replaced")
		}
		if d := cmp.Diff(served("seedbed0"), sockets(t)); d == "" {
			t.Fatal("the servers know already")
		}
	}
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	wantSockets(t, served("seedbed0"))

	replace()
	k.broken <- struct{}{}
	wantSockets(t, served("seedbed0"))

	replace()
	other := network0()
	other.Name, other.Bridge, other.MAC[5], other.DHCP = "other", "seedbed1", 2, false
	other.Prefix, other.Gateway = netip.MustParsePrefix("10.78.0.0/24"), netip.MustParsePrefix("10.78.0.1/32").Addr()
	state = stateOf(network0(), other)
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	both := append(served("seedbed0"), metadataOn("seedbed1")...)
	slices.Sort(both)
	wantSockets(t, both)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestForeignBridge: a network whose bridge is another installation's gets no servers there, the
// others are served, and it is as soon as that bridge is gone.
func TestForeignBridge(t *testing.T) {
	p := kernelPlane(t)
	start(t, p)
	netnstest.Run(t, "sh", "-c",
		"ip link add seedbed1 address 52:54:00:b0:00:77 type bridge && ip link set seedbed1 alias seedbed:lab && ip link set seedbed1 up")
	state := stateWith([]seedbed.Network{network0(), lab()}, guest0())
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	wantSockets(t, served("seedbed0"))
	state = stateWith(state.Networks, guest0(), onLab())
	state.Since, state.Revision, state.Changed = 1, 2, []seedbed.InstanceID{onLab().ID}
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if err := p.Held(); err == nil || !strings.Contains(err.Error(), "another installation of Seedbed") {
		t.Errorf("held because of %v", err)
	}
	found := false
	for _, c := range p.Checks(t.Context()) {
		if c.Name == "bridge seedbed1" {
			found = !c.OK && strings.Contains(c.Detail, "another installation of Seedbed")
		}
	}
	if !found {
		t.Error("no check tells of the bridge")
	}
	wantSockets(t, served("seedbed0"))
	netnstest.Run(t, "ip", "link", "del", "seedbed1")
	both := append(served("seedbed0"), served("seedbed1")...)
	slices.Sort(both)
	wantSockets(t, both)
	if err := p.Held(); err != nil {
		t.Errorf("held when the network is there: %v", err)
	}
}

// TestFloatingUplink: a floating address is on its interface as soon as the node has that, also when it was replaced.
func TestFloatingUplink(t *testing.T) {
	p := kernelPlane(t)
	start(t, p)
	n, g := network0(), guest0()
	addr := netip.MustParseAddr("203.0.113.16")
	six := netip.MustParseAddr("2001:db8:1::16")
	n.Prefix6, n.FloatingUplink = netip.MustParsePrefix("fd12:3456:789a:1::/64"), "ext0"
	n.Floating = []seedbed.AddrRange{{First: addr, Last: addr}, {First: six, Last: six}}
	g.NICs[0].Floating, g.NICs[0].Floating6 = addr, six
	if err := p.Apply(t.Context(), stateWith([]seedbed.Network{n}, g)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		netnstest.Run(t, "ip", "link", "add", "ext0", "type", "bridge")
		eventually(t, func() string {
			out := netnstest.Run(t, "ip", "-o", "addr", "show", "dev", "ext0")
			if !strings.Contains(out, addr.String()+"/32") || !strings.Contains(out, six.String()+"/128") {
				return "ext0 has " + out
			}
			return ""
		})
		netnstest.Run(t, "ip", "link", "del", "ext0")
	}
}

// TestFloatingUsed: a floating address that another host at the uplink has, too, is found, of both versions of IP, and so is that the host
// has it no more. An answer of another interface of the node is not taken for one.
func TestFloatingUsed(t *testing.T) {
	p := kernelPlane(t)
	start(t, p)
	const hostMAC = "52:54:00:ee:00:07"
	host := netnstest.New(t)
	netnstest.Run(t, "ip", "link", "add", "ext0", "type", "bridge")
	netnstest.Veth(t, "wire", host, hostMAC)
	netnstest.Run(t, "ip", "link", "add", "self0", "type", "veth", "peer", "name", "self1")
	t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "self0"); netnstest.Run(t, "ip", "link", "del", "ext0") })
	for _, l := range []string{"wire", "self1"} {
		netnstest.Run(t, "ip", "link", "set", l, "master", "ext0", "up")
	}
	netnstest.Run(t, "ip", "link", "set", "ext0", "up")
	netnstest.Run(t, "ip", "addr", "add", "203.0.113.2/24", "dev", "self0")
	netnstest.Run(t, "ip", "link", "set", "self0", "up")
	n, g := network0(), guest0()
	addr, six := netip.MustParseAddr("203.0.113.16"), netip.MustParseAddr("2001:db8:1::16")
	n.Prefix6, n.FloatingUplink = netip.MustParsePrefix("fd12:3456:789a:1::/64"), "ext0"
	n.Floating = []seedbed.AddrRange{{First: addr, Last: addr}, {First: six, Last: six}}
	g.NICs[0].Floating, g.NICs[0].Floating6 = addr, six
	finds := func(want ...netip.Addr) {
		t.Helper()
		p.askFloating(t.Context())
		var got []string
		for _, c := range p.Checks(t.Context()) {
			if strings.HasPrefix(c.Name, "floating address ") {
				got = append(got, c.Name)
				if c.OK || !strings.Contains(c.Detail, "MAC address "+hostMAC+" has it, too, at ext0") {
					t.Errorf("the check is %+v", c)
				}
			}
		}
		var names []string
		for _, a := range want {
			names = append(names, "floating address "+a.String())
		}
		if !slices.Equal(got, names) {
			t.Errorf("found %q; want %q", got, names)
		}
	}
	host.Run(t, "ip", "addr", "add", "203.0.113.16/24", "dev", "eth0")
	host.Run(t, "ip", "addr", "add", "2001:db8:1::16/64", "dev", "eth0", "nodad")
	if err := p.Apply(t.Context(), stateWith([]seedbed.Network{n}, g)); err != nil {
		t.Fatal(err)
	}
	finds(six, addr)
	host.Run(t, "ip", "addr", "del", "2001:db8:1::16/64", "dev", "eth0")
	finds(addr)
	host.Run(t, "ip", "addr", "del", "203.0.113.16/24", "dev", "eth0")
	finds()
	host.Run(t, "ip", "addr", "add", "203.0.113.16/24", "dev", "eth0")
	finds() // it was asked for when it came

	// It is asked for again when it comes again.
	g.NICs[0].Floating = netip.Addr{}
	if err := p.Apply(t.Context(), stateWith([]seedbed.Network{n}, g)); err != nil {
		t.Fatal(err)
	}
	finds()
	g.NICs[0].Floating = addr
	if err := p.Apply(t.Context(), stateWith([]seedbed.Network{n}, g)); err != nil {
		t.Fatal(err)
	}
	finds(addr)

	// It is asked for again at another interface, where nobody has it.
	netnstest.Run(t, "ip", "link", "add", "ext1", "type", "bridge")
	t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "ext1") })
	netnstest.Run(t, "ip", "link", "set", "ext1", "up")
	for i, uplink := range []string{"ext1", "ext0"} {
		n.FloatingUplink = uplink
		if err := p.Apply(t.Context(), stateWith([]seedbed.Network{n}, g)); err != nil {
			t.Fatal(err)
		}
		finds([]netip.Addr{addr}[:i]...)
	}
}

// TestTakeDown: once the daemon has ended, everything goes.
func TestTakeDown(t *testing.T) {
	p := kernelPlane(t)
	if err := p.Apply(t.Context(), stateOf(network0())); err != nil {
		t.Fatal(err)
	}
	daemon, err := net.Listen("tcp", "127.0.0.1:7372")
	if err != nil {
		t.Fatal(err)
	}
	if err := TakeDown(t.Context(), "127.0.0.1:7372", quiet, true); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("while the daemon runs: %v", err)
	}
	number(t)
	daemon.Close()
	if err := TakeDown(t.Context(), "127.0.0.1:7372", quiet, false); err != nil {
		t.Error(err)
	}
	if _, err := net.InterfaceByName("seedbed0"); err == nil {
		t.Error("the bridge is there")
	}
}
