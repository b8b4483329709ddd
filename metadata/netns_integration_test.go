//go:build integration

package metadata

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// plane is a host namespace with one bridge and guests in namespaces of their own.
type plane struct {
	t    *testing.T
	name string
}

const (
	planeBridge = "sbr0"
	bridgeMAC   = "52:54:00:ff:00:01"
)

var (
	planePrefix = netip.MustParsePrefix("10.77.0.0/24")

	planeA = seedbed.GuestNIC{ID: 101, MAC: macA, Network: "default", Addr: netip.MustParseAddr("10.77.0.11")}
	planeB = seedbed.GuestNIC{ID: 102, MAC: macB, Network: "default", Addr: netip.MustParseAddr("10.77.0.12")}
)

func newPlane(t *testing.T) *plane {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("needs root for network namespaces")
	}
	p := &plane{t: t, name: fmt.Sprintf("sbm%d", os.Getpid())}
	for _, ns := range []string{"host", "a", "b", "behind"} {
		p.run("ip", "netns", "add", p.ns(ns))
		t.Cleanup(func() { exec.Command("ip", "netns", "del", p.ns(ns)).Run() })
		p.in(ns, "ip", "link", "set", "lo", "up")
	}
	p.in("host", "ip", "link", "add", planeBridge, "address", bridgeMAC, "type", "bridge")
	p.in("host", "ip", "link", "set", planeBridge, "up")
	p.in("host", "ip", "addr", "add", "10.77.0.1/24", "dev", planeBridge)
	p.in("host", "ip", "addr", "add", "169.254.169.254/32", "dev", planeBridge)
	p.in("host", "sysctl", "-qw", "net.ipv4.tcp_fwmark_accept=1",
		"net.ipv4.conf."+planeBridge+".accept_local=1", "net.ipv4.conf."+planeBridge+".rp_filter=0", "net.ipv4.conf.all.rp_filter=0")
	p.guest("a", planeA)
	p.guest("b", planeB)
	p.filter()
	return p
}

func (p *plane) ns(name string) string { return p.name + name }

func (p *plane) run(args ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (p *plane) in(ns string, args ...string) {
	p.t.Helper()
	p.run(append([]string{"ip", "netns", "exec", p.ns(ns)}, args...)...)
}

func (p *plane) guest(ns string, nic seedbed.GuestNIC) {
	p.t.Helper()
	p.in("host", "ip", "link", "add", nic.ID.Tap(), "type", "veth", "peer", "name", "eth0", "netns", p.ns(ns))
	p.in("host", "ip", "link", "set", nic.ID.Tap(), "master", planeBridge, "up")
	p.address(ns, nic.MAC, nic.Addr)
}

// address gives a guest any MAC and address.
func (p *plane) address(ns string, mac seedbed.MAC, addr netip.Addr) {
	p.t.Helper()
	p.in(ns, "ip", "link", "set", "eth0", "down")
	p.in(ns, "ip", "addr", "flush", "dev", "eth0")
	p.in(ns, "ip", "link", "set", "eth0", "address", mac.String())
	p.in(ns, "ip", "link", "set", "eth0", "up")
	p.in(ns, "ip", "addr", "add", addr.String()+"/24", "dev", "eth0")
	p.in(ns, "ip", "route", "replace", "169.254.169.254/32", "dev", "eth0")
}

// filter loads the rules that prove identity.
func (p *plane) filter() {
	p.t.Helper()
	rules := fmt.Sprintf(`table bridge seedbed {
	map who { type ifname . ether_addr : mark; elements = { "%s" . %s : %d, "%s" . %s : %d } }
	set ports { type ifname; elements = { "%s", "%s" } }
	chain pre { type filter hook prerouting priority -300; policy accept;
		iifname @ports iifname . ether saddr != @who drop
		iifname @ports ip daddr 169.254.169.254 tcp dport 80 meta mark set iifname . ether saddr map @who ether daddr set %s meta pkttype set host
	}
}`, planeA.ID.Tap(), planeA.MAC, planeA.ID.Mark(), planeB.ID.Tap(), planeB.MAC, planeB.ID.Mark(),
		planeA.ID.Tap(), planeB.ID.Tap(), bridgeMAC)
	file := p.t.TempDir() + "/rules.nft"
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.in("host", "nft", "-f", file)
}

// enter runs f on a thread of the namespace; the thread ends with it.
func (p *plane) enter(ns string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime ends the thread
		fd, err := unix.Open("/run/netns/"+p.ns(ns), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			done <- err
			return
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// neighbour reads the bridge's neighbour table.
func (p *plane) neighbour(ctx context.Context, _ int, addr netip.Addr) (seedbed.MAC, error) {
	out, err := exec.CommandContext(ctx, "ip", "-n", p.ns("host"), "neigh", "show", "to", addr.String(), "dev", planeBridge).Output()
	if err != nil {
		return seedbed.MAC{}, err
	}
	fields := strings.Fields(string(out))
	for i, f := range fields {
		if f == "lladdr" && i+1 < len(fields) {
			return seedbed.ParseMAC(fields[i+1])
		}
	}
	return seedbed.MAC{}, fmt.Errorf("no neighbour entry: %q", out)
}

// serve runs the real server on the bridge until the test or stop ends it.
func (p *plane) serve() (l *lab, stop func()) {
	p.t.Helper()
	l = newLab(p.t, func(c *Config) {
		c.Identify, c.Neighbour, c.Now = nil, p.neighbour, time.Now
	})
	a, b := guestA(), guestB()
	a.NICs, b.NICs = []seedbed.GuestNIC{planeA}, []seedbed.GuestNIC{planeB}
	s := stateOf(nil, a, b)
	s.Networks = []seedbed.Network{{Name: "default", Bridge: planeBridge, Prefix: planePrefix}}
	l.apply(s)
	var ln net.Listener
	err := p.enter("host", func() (err error) {
		ln, err = Listen(context.Background(), planeBridge, netip.MustParseAddrPort("169.254.169.254:80"))
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.srv.Serve(ctx, ln) }()
	return l, func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("Serve: %v", err)
		}
	}
}

// ask sends one request from a namespace; nothing at all within the time gives the error.
func (p *plane) ask(ns, request string, wait time.Duration) (answer string, err error) {
	return p.askInParts(ns, wait, nil, request)
}

// askInParts calls between before each part but the first.
func (p *plane) askInParts(ns string, wait time.Duration, between func(), parts ...string) (answer string, err error) {
	err = p.enter(ns, func() error {
		c, err := (&net.Dialer{Timeout: wait}).Dial("tcp4", "169.254.169.254:80")
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(wait))
		for i, part := range parts {
			if i > 0 {
				between()
			}
			if _, err := c.Write([]byte(part)); err != nil {
				return err
			}
		}
		buf := make([]byte, 64<<10)
		n := 0
		for {
			m, err := c.Read(buf[n:])
			n += m
			if err != nil {
				answer = string(buf[:n])
				if n > 0 {
					return nil
				}
				return err
			}
		}
	})
	return answer, err
}

func getRequest(path string, headers ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + strings.Join(headers, "") + "\r\n"
}

const putRequest = "PUT /latest/api/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + ttlHeader + ": 60\r\nContent-Length: 0\r\n\r\n"

// unanswered reports whether nothing came: within the time, or until the kernel gave up asking for
// the other's MAC.
func unanswered(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout() || errors.Is(err, unix.EHOSTUNREACH)
}

// get asks until there is an answer: a link that was just set up loses what comes too early.
func (p *plane) get(ns, request string) (answer string, err error) {
	p.t.Helper()
	eventually(p.t, ns+" is answered", func() bool {
		answer, err = p.ask(ns, request, patience/6)
		return !unanswered(err)
	})
	return answer, err
}

// TestKernelProvesIdentity: each guest gets its own record, and one that takes the other's MAC and
// address gets nothing.
func TestKernelProvesIdentity(t *testing.T) {
	p := newPlane(t)
	l, stop := p.serve()
	defer stop()
	id := getRequest("/latest/meta-data/instance-id")
	mustGet := func(ns string, want seedbed.InstanceID) {
		t.Helper()
		got, err := p.get(ns, id)
		if err != nil || !strings.HasSuffix(got, "\r\n\r\n"+want.EC2()) {
			t.Fatalf("guest %s: %q, %v", ns, got, err)
		}
	}
	mustGet("a", idA)
	mustGet("b", idB)

	token, err := p.get("a", putRequest)
	if err != nil || !strings.HasPrefix(token, "HTTP/1.1 200") {
		t.Fatalf("token: %q, %v", token, err)
	}
	_, token, _ = strings.Cut(token, "\r\n\r\n")
	for ns, want := range map[string]string{"a": "HTTP/1.1 200", "b": "HTTP/1.1 401"} {
		got, err := p.get(ns, getRequest("/latest/meta-data/mac", tokenHeader+": "+token+"\r\n"))
		if err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("guest %s with a's token: %q, %v", ns, got, err)
		}
	}

	p.address("b", planeA.MAC, planeA.Addr)
	if got, err := p.ask("b", id, 2*time.Second); !unanswered(err) {
		t.Errorf("b with a's MAC and address: %q, %v", got, err)
	}
	p.address("b", planeA.MAC, planeB.Addr)
	if got, err := p.ask("b", id, 2*time.Second); !unanswered(err) {
		t.Errorf("b with a's MAC: %q, %v", got, err)
	}
	p.in("a", "ip", "link", "set", "eth0", "down") // so that nobody else defends the address
	p.address("b", planeB.MAC, planeA.Addr)
	if got, err := p.ask("b", id, 5*time.Second); strings.Contains(got, "200 OK") || strings.Contains(got, "i-") {
		t.Errorf("b with a's address: %q, %v", got, err)
	}
	p.address("a", planeA.MAC, planeA.Addr)
	p.address("b", planeB.MAC, planeB.Addr)
	p.in("host", "ip", "neigh", "flush", "all")
	mustGet("a", idA)
	mustGet("b", idB)
	for _, e := range l.seen(seedbed.GuestAccess) {
		if e.Status == 200 && e.Instance != idA && e.Instance != idB {
			t.Errorf("record %+v", e)
		}
	}
}

// TestUnmarkedCallers: without the rules nobody is known.
func TestUnmarkedCallers(t *testing.T) {
	p := newPlane(t)
	p.in("host", "nft", "delete", "table", "bridge", "seedbed")
	_, stop := p.serve()
	defer stop()
	got, err := p.get("a", getRequest("/latest/meta-data/instance-id"))
	if err != nil || !strings.HasPrefix(got, "HTTP/1.1 404") {
		t.Errorf("%q, %v", got, err)
	}
}

// forwarder lets the namespace "behind" reach the service through guest a.
func (p *plane) forwarder() {
	p.t.Helper()
	p.in("a", "ip", "link", "add", "inner", "type", "veth", "peer", "name", "eth0", "netns", p.ns("behind"))
	p.in("a", "ip", "addr", "add", "10.88.0.1/24", "dev", "inner")
	p.in("a", "ip", "link", "set", "inner", "up")
	p.in("behind", "ip", "addr", "add", "10.88.0.2/24", "dev", "eth0")
	p.in("behind", "ip", "link", "set", "eth0", "up")
	p.in("behind", "ip", "route", "add", "default", "via", "10.88.0.1")
	p.in("a", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	p.in("a", "nft",
		"add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; }; add rule ip nat post oifname eth0 masquerade")
}

// TestHopLimit: who sits behind a guest that forwards gets data, but no token.
func TestHopLimit(t *testing.T) {
	p := newPlane(t)
	l, stop := p.serve()
	defer stop()
	p.forwarder()
	if got, err := p.get("behind", getRequest("/latest/meta-data/mac")); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Fatalf("GET through the guest: %q, %v", got, err)
	}
	if got, err := p.ask("behind", putRequest, 2*time.Second); !unanswered(err) {
		t.Errorf("PUT through the guest: %q, %v", got, err)
	}
	keep := strings.ReplaceAll(putRequest, "Connection: close\r\n", "")
	get := getRequest("/latest/meta-data/mac")
	for name, parts := range map[string][]string{
		"a request after it": {keep, get}, "half a request with it": {keep + get[:1], get[1:]},
	} {
		before := l.srv.Stats().Requests[200]
		issued := func() {
			eventually(t, "the token is issued", func() bool { return l.srv.Stats().Requests[200] > before })
		}
		if got, err := p.askInParts("behind", 5*time.Second, issued, parts...); !unanswered(err) {
			t.Errorf("PUT through the guest with %s: %q, %v", name, got, err)
		}
	}
	if got, err := p.get("a", putRequest); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("PUT of the guest itself: %q, %v", got, err)
	}
}
