//go:build integration

package metadata

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"seedbed"
)

const (
	uniqueLocal = "fd00:ec2::254"
	linkLocal   = "fe80::a9fe:a9fe"
)

// serve6 gives the bridge the metadata addresses of IPv6 and serves them to the lab's guests.
func (p *plane) serve6(l *lab) {
	p.t.Helper()
	for _, addr := range []string{uniqueLocal + "/128", linkLocal + "/64"} {
		p.in("host", "ip", "addr", "add", addr, "dev", planeBridge, "nodad")
	}
	for _, addr := range []string{"[" + uniqueLocal + "]:80", "[" + linkLocal + "%" + planeBridge + "]:80"} {
		var ln net.Listener
		err := p.enter("host", func() (err error) {
			ln, err = Listen(context.Background(), planeBridge, netip.MustParseAddrPort(addr))
			return err
		})
		if err != nil {
			p.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- l.srv.Serve(ctx, ln) }()
		p.t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				p.t.Errorf("Serve: %v", err)
			}
		})
	}
}

// mark6 loads the rule that proves identity over IPv6 as well.
func (p *plane) mark6() {
	p.t.Helper()
	file := p.t.TempDir() + "/rules6.nft"
	rule := fmt.Sprintf(
		"add rule bridge seedbed pre iifname @ports ip6 daddr { %s, %s } tcp dport 80 meta mark set iifname . ether saddr map @who\n",
		uniqueLocal, linkLocal,
	)
	if err := os.WriteFile(file, []byte(rule), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.in("host", "nft", "-f", file)
}

// get6 asks until there is an answer: addresses are tentative at first.
func (p *plane) get6(ns, target, path string) string {
	p.t.Helper()
	var answer string
	eventually(p.t, ns+" is answered at "+target, func() bool {
		return p.enter(ns, func() error {
			c, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp6", target)
			if err != nil {
				return err
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err := c.Write([]byte(getRequest(path))); err != nil {
				return err
			}
			buf := make([]byte, 64<<10)
			n := 0
			for err == nil && n < len(buf) {
				var m int
				m, err = c.Read(buf[n:])
				n += m
			}
			answer = string(buf[:n])
			if n == 0 {
				return err
			}
			return nil
		}) == nil
	})
	return answer
}

// TestIPv6 with link-local addresses and others, by the mark.
func TestIPv6(t *testing.T) {
	p := newPlane(t)
	p.mark6()
	l, stop := p.serve()
	defer stop()
	p.serve6(l)
	for ns, id := range map[string]seedbed.InstanceID{"a": idA, "b": idB} {
		p.in(ns, "ip", "-6", "route", "replace", uniqueLocal+"/128", "dev", "eth0")
		for _, target := range []string{"[" + uniqueLocal + "]:80", "[" + linkLocal + "%eth0]:80"} {
			if got := p.get6(ns, target, "/latest/meta-data/instance-id"); !strings.HasSuffix(got, "\r\n\r\n"+id.EC2()) {
				t.Errorf("guest %s at %s: %q", ns, target, got)
			}
		}
	}
	// b takes an address that a could have; what it is told stays its own.
	p.in("b", "ip", "addr", "add", "fd77::a/64", "dev", "eth0", "nodad")
	p.in("host", "ip", "addr", "add", "fd77::1/64", "dev", planeBridge, "nodad")
	if got := p.get6("b", "["+linkLocal+"%eth0]:80", "/latest/meta-data/mac"); !strings.HasSuffix(got, macB.String()) {
		t.Errorf("b with another address: %q", got)
	}
}

// TestUnmarkedByMAC: on a network with that identity a guest whose tap is not ours is known by its
// MAC, and by its address too over IPv4.
func TestUnmarkedByMAC(t *testing.T) {
	p := newPlane(t)
	p.in("host", "nft", "delete", "table", "bridge", "seedbed")
	l, stop := p.serve()
	defer stop()
	a, b := guestA(), guestB()
	a.NICs, b.NICs = []seedbed.GuestNIC{planeA}, []seedbed.GuestNIC{planeB}
	s := stateOf(nil, a, b)
	s.Networks = []seedbed.Network{{Name: "default", Bridge: planeBridge, Prefix: planePrefix, Identity: seedbed.IdentityMAC}}
	l.apply(s)
	p.serve6(l)
	id := getRequest("/latest/meta-data/instance-id")
	for ns, want := range map[string]seedbed.InstanceID{"a": idA, "b": idB} {
		if got, err := p.get(ns, id); err != nil || !strings.HasSuffix(got, "\r\n\r\n"+want.EC2()) {
			t.Errorf("guest %s: %q, %v", ns, got, err)
		}
		if got := p.get6(ns, "["+linkLocal+"%eth0]:80", "/latest/meta-data/instance-id"); !strings.HasSuffix(got, "\r\n\r\n"+want.EC2()) {
			t.Errorf("guest %s over IPv6: %q", ns, got)
		}
	}
	p.address("b", planeB.MAC, netip.MustParseAddr("10.77.0.13"))
	if got, err := p.get("b", id); err != nil || !strings.HasPrefix(got, "HTTP/1.1 404") {
		t.Errorf("b with an address that is not its own: %q, %v", got, err)
	}
}

// TestHopLimitOfTwo: with it a forwarder behind the guest gets a token.
func TestHopLimitOfTwo(t *testing.T) {
	p := newPlane(t)
	l, stop := p.serve()
	defer stop()
	p.forwarder()
	for limit, reaches := range map[int]bool{1: false, 2: true} {
		a := guestA()
		a.NICs = []seedbed.GuestNIC{planeA}
		a.Options.HopLimit = limit
		s := stateOf(nil, a)
		s.Networks = []seedbed.Network{{Name: "default", Bridge: planeBridge, Prefix: planePrefix}}
		l.apply(s)
		if !reaches {
			if got, err := p.ask("behind", putRequest, 2*time.Second); !unanswered(err) {
				t.Errorf("limit %d: %q, %v", limit, got, err)
			}
			continue
		}
		if got, err := p.get("behind", putRequest); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("limit %d: %q, %v", limit, got, err)
		}
	}
}
