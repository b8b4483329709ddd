//go:build integration

package dhcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg"
	"seedbed/netcfg/netnstest"
)

func TestMain(m *testing.M) { os.Exit(netnstest.Main(m)) }

const bridge = "seedbed0"

// patience is how long anything may take here that must come.
const patience = time.Minute

type lease struct {
	mac   seedbed.MAC
	addr  netip.Addr
	until time.Time
}

// serve makes a bridge with one known port, sb1, behind the real filters, and a server on it.
func serve(t *testing.T) (guest *netnstest.Namespace, leases chan lease) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	m, err := netcfg.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Cleanup(context.Background(), true); err != nil {
			t.Error(err)
		}
		m.Close()
	})
	o := testOffer()
	err = m.Apply(t.Context(), netcfg.State{
		Networks: []seedbed.Network{{Name: "default", Bridge: bridge, MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 1},
			Prefix: o.Prefix, Gateway: o.Gateway}},
		Ports: slices.Values([]netcfg.Port{{Tap: "sb1", MAC: mac1, Addr: o.Addr, Mark: 101, Bridge: bridge}}),
	}, netcfg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	leases = make(chan lease, 100)
	s := testServer()
	s.OnLease = func(mac seedbed.MAC, addr netip.Addr, until time.Time) { leases <- lease{mac, addr, until} }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, bridge) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve ended with %v", err)
		}
	})
	guest = netnstest.New(t)
	netnstest.Veth(t, "sb1", guest, mac1.String())
	netnstest.Run(t, "ip", "link", "set", "sb1", "master", bridge)
	return guest, leases
}

// configured looks at what a client made of its lease.
func configured(t *testing.T, g *netnstest.Namespace, leases chan lease) {
	t.Helper()
	routes := g.Run(t, "ip", "route")
	for _, want := range []string{"default via 10.213.0.1 dev eth0", "169.254.169.254 via 10.213.0.1 dev eth0", "10.213.0.0/24 dev eth0"} {
		if !strings.Contains(routes, want) {
			t.Errorf("no route %q in\n%s", want, routes)
		}
	}
	if out := g.Run(t, "ip", "addr", "show", "eth0"); !strings.Contains(out, "inet 10.213.0.11/24") {
		t.Errorf("no address:\n%s", out)
	}
	g.Run(t, "ping", "-c1", "-w30", "169.254.169.254")
	wantLease(t, leases, 10*time.Minute)
}

// wantLease takes the next report, of a lease that lasts about that long.
func wantLease(t *testing.T, leases chan lease, lasts time.Duration) {
	t.Helper()
	select {
	case l := <-leases:
		left := time.Until(l.until)
		if l.mac != mac1 || l.addr != addr1 || left > lasts+time.Second || left < lasts-30*time.Second {
			t.Errorf("lease of %v by %v for %v, want %v", l.addr, l.mac, left, lasts)
		}
	case <-time.After(patience):
		t.Error("no lease was reported")
	}
}

// dhclient runs Debian's client with Debian's configuration and scripts. It goes to the background
// once it has a lease.
func dhclient(t *testing.T, g *netnstest.Namespace, oldLease string) (out string, release func()) {
	t.Helper()
	dir := t.TempDir()
	files := []string{"-pf", filepath.Join(dir, "pid"), "-lf", filepath.Join(dir, "leases"), "eth0"}
	if err := os.WriteFile(files[3], []byte(oldLease), 0o644); err != nil {
		t.Fatal(err)
	}
	out = g.Run(t, "dhclient", append([]string{"-4", "-1", "-v"}, files...)...)
	waitForFile(t, files[1]) // the daemon writes it after its parent has ended; -r finds nobody without it
	release = sync.OnceFunc(func() { g.Run(t, "dhclient", append([]string{"-4", "-r"}, files...)...) })
	t.Cleanup(release)
	return out, release
}

func waitForFile(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(path); err == nil && bytes.HasSuffix(b, []byte("\n")) {
			return
		}
	}
	t.Fatalf("%s was not written", path)
}

func TestDhclient(t *testing.T) {
	g, leases := serve(t)
	out, release := dhclient(t, g, "")
	if !strings.Contains(out, "bound to 10.213.0.11") {
		t.Errorf("dhclient said:\n%s", out)
	}
	configured(t, g, leases)
	if b, err := os.ReadFile("/etc/resolv.conf"); err != nil || !strings.Contains(string(b), "nameserver 192.0.2.53") {
		t.Errorf("resolv.conf: %q, %v", b, err)
	}
	release()
	wantLease(t, leases, 0)
}

// TestDhclientFromAnotherNetwork: the client remembers an address that is not its own here, and is
// refused it.
func TestDhclientFromAnotherNetwork(t *testing.T) {
	g, leases := serve(t)
	far := time.Now().Add(time.Hour).UTC().Format("1 2006/01/02 15:04:05")
	out, _ := dhclient(t, g, fmt.Sprintf(`lease { interface "eth0"; fixed-address 192.168.7.7; option subnet-mask 255.255.255.0;
		option dhcp-lease-time 3600; option dhcp-message-type 5; option dhcp-server-identifier 192.168.7.1;
		renew %[1]s; rebind %[1]s; expire %[1]s; }`, far))
	if !strings.Contains(out, "DHCPNAK") || !strings.Contains(out, "bound to 10.213.0.11") {
		t.Errorf("dhclient said:\n%s", out)
	}
	configured(t, g, leases)
}

// udhcpcScript does what a distribution's script does with option 121.
const udhcpcScript = `#!/bin/sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip addr replace "$ip/$mask" dev "$interface"
ip link set "$interface" mtu "$mtu"
set -- $staticroutes
while [ $# -ge 2 ]; do ip route replace "$1" via "$2" dev "$interface"; shift 2; done
`

func TestUdhcpc(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte(udhcpcScript), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{
		"unicast":             nil,
		"broadcast":           {"-B"},
		"asking for another":  {"-r", "10.213.0.99"},
		"probing its address": {"-a"},
		"with an identifier":  {"-x", "0x3d:0011223344"},
	} {
		t.Run(name, func(t *testing.T) {
			g, leases := serve(t)
			args := append([]string{"udhcpc", "-f", "-q", "-n", "-t", "10", "-i", "eth0", "-s", script, "-O", "staticroutes", "-O", "mtu"}, flags...)
			g.Run(t, "busybox", args...)
			configured(t, g, leases)
		})
	}
}

// TestUdhcpcOfDebian: a client that does not ask for option 121 uses the router, by Debian's
// script.
func TestUdhcpcOfDebian(t *testing.T) {
	g, leases := serve(t)
	g.Run(t, "udhcpc", "-f", "-q", "-n", "-t", "10", "-i", "eth0", "-s", "/etc/udhcpc/default.script")
	if out := g.Run(t, "ip", "route"); !strings.Contains(out, "default via 10.213.0.1 dev eth0") {
		t.Errorf("routes:\n%s", out)
	}
	wantLease(t, leases, 10*time.Minute)
}

// TestFrameOnTheWire: the answer to a client without an address goes to its MAC, with no ARP before
// it; or to everybody when it says so.
func TestFrameOnTheWire(t *testing.T) {
	for name, tt := range map[string]struct {
		broadcast bool
		hw, ip    []byte
	}{
		"unicast":   {false, mac1[:], []byte{10, 213, 0, 11}},
		"broadcast": {true, broadcastMAC[:], []byte{255, 255, 255, 255}},
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := serve(t)
			req := request(t, dhcpv4.MessageTypeDiscover, dhcpv4.WithBroadcast(tt.broadcast))
			var frame []byte
			var err error
			g.Do(func() { frame, err = exchange(req) })
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(frame[:6], tt.hw) || !bytes.Equal(frame[30:34], tt.ip) {
				t.Errorf("the answer went to % x and % x, want % x and % x", frame[:6], frame[30:34], tt.hw, tt.ip)
			}
			reply, err := dhcpv4.FromBytes(frame[42:])
			if err != nil || reply.TransactionID != req.TransactionID {
				t.Errorf("reply %v, %v", reply, err)
			}
		})
	}
}

// exchange sends a request from the namespace of the calling thread, whose eth0 has no address, and
// returns the first frame from port 67 or an ARP request.
func exchange(req *dhcpv4.DHCPv4) ([]byte, error) {
	link, err := net.InterfaceByName("eth0")
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: link.Index}); err != nil {
		return nil, err
	}
	tv := unix.NsecToTimeval(int64(time.Second))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return nil, err
	}
	packet := datagram(netip.IPv4Unspecified(), broadcastAddr, req.ToBytes())
	packet[21], packet[23] = clientPort, serverPort // the ports the other way round; the checksum stays right
	frame := bytes.Join([][]byte{broadcastMAC[:], mac1[:], {8, 0}, packet}, nil)
	buf := make([]byte, 2048)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if _, err := unix.Write(fd, frame); err != nil {
			return nil, err
		}
		for {
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				break // send again: the server may just be starting
			}
			if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING || n < 42 {
				continue
			}
			if buf[12] == 8 && (buf[13] == 6 || buf[23] == 17 && buf[35] == serverPort) {
				return buf[:n], nil
			}
		}
	}
	return nil, errors.New("no answer")
}

func TestServeEndsWithTheInterface(t *testing.T) {
	netnstest.Run(t, "ip", "link", "add", "br9", "type", "bridge")
	netnstest.Run(t, "ip", "link", "set", "br9", "up")
	done := make(chan error)
	go func() { done <- testServer().Serve(t.Context(), "br9") }()
	netnstest.Run(t, "ip", "link", "del", "br9")
	select {
	case err := <-done:
		if !errors.Is(err, seedbed.ErrUnavailable) {
			t.Errorf("Serve ended with %v, want ErrUnavailable", err)
		}
	case <-time.After(patience):
		t.Error("Serve goes on without its interface")
	}
	if err := testServer().Serve(t.Context(), "br9"); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("Serve on nothing: %v, want ErrUnavailable", err)
	}
}

// TestTwoServers: one port 67 per interface.
func TestTwoServers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	for _, b := range []string{"br8", "br9"} {
		netnstest.Run(t, "ip", "link", "add", b, "type", "bridge")
		t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", b) })
		conn, err := listen(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		go func() { done <- testServer().Serve(ctx, b) }()
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}
