//go:build integration

package guestplane

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/sample"
)

// ownLeaf are paths with what only the guest itself has.
var ownLeaf = []struct {
	path string
	of   func(seedbed.Guest) string
}{
	{idPath, seedbed.Guest.ServedID},
	{"/latest/meta-data/mac", func(g seedbed.Guest) string { return g.NICs[0].MAC.String() }},
	{"/latest/meta-data/local-ipv4", func(g seedbed.Guest) string { return g.NICs[0].Addr.String() }},
}

// claim is what a guest says that it is: the interface of its namespace that it sends from, which has
// the MAC, the addresses, and a header of its requests.
type claim struct {
	device string
	v4, v6 netip.Addr
	header string
}

func claimOf(device string, n seedbed.GuestNIC) claim {
	return claim{device, n.Addr, netip.MustParseAddr(linkLocal(n.MAC)), ""}
}

// dial connects as a claim says, to one of the metadata addresses.
func (p person) dial(c claim, to string, wait time.Duration) (conn net.Conn, err error) {
	from := &net.TCPAddr{IP: c.v4.AsSlice()}
	if strings.HasPrefix(to, "[") {
		from = &net.TCPAddr{IP: c.v6.AsSlice(), Zone: c.device}
	}
	d := net.Dialer{Timeout: wait, LocalAddr: from, Control: func(_, _ string, raw syscall.RawConn) error {
		var bad error
		if err := raw.Control(func(fd uintptr) { bad = unix.BindToDevice(int(fd), c.device) }); err != nil {
			return err
		}
		return bad
	}}
	p.ns.Do(func() { conn, err = d.Dial("tcp", to) })
	return conn, err
}

// contest is many guests that ask at once, some of them with the addresses of another.
type contest struct {
	t        *testing.T
	left     atomic.Int64 // answers that are still wanted
	pretends [4]atomic.Int64
	answered atomic.Int64 // of those who pretend, each with its own data
}

// asks sends some requests on one connection, and checks that each answer has what the guest itself
// has. It returns how many were answered.
func (x *contest) asks(p person, c claim, to string, wait time.Duration) (answered int, err error) {
	conn, err := p.dial(c, to, wait)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(wait))
	r := bufio.NewReader(conn)
	for n := range 16 {
		leaf := ownLeaf[n%len(ownLeaf)]
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: metadata\r\n%s\r\n", leaf.path, c.header); err != nil {
			return answered, err
		}
		got, err := http.ReadResponse(r, nil)
		if err != nil {
			return answered, err
		}
		body, err := io.ReadAll(io.LimitReader(got.Body, 1<<20))
		got.Body.Close()
		if err != nil {
			return answered, err
		}
		if got.StatusCode != 200 {
			return answered, fmt.Errorf("%s: %s", leaf.path, got.Status)
		}
		if want := leaf.of(p.Guest); string(body) != want {
			x.t.Errorf("%s by %s as %s, %s %q at %s: %s is %q, want its own %q",
				p.Name, c.device, c.v4, c.v6, c.header, to, leaf.path, body, want)
		}
		answered++
		x.left.Add(-1)
	}
	return answered, nil
}

// honest asks as itself until all is answered; it must be answered at each address.
func (x *contest) honest(p person, addrs ...string) {
	for n := 0; x.left.Load() > 0 && !x.t.Failed(); n++ {
		to := addrs[n%len(addrs)]
		if _, err := x.asks(p, claimOf("eth0", p.NICs[0]), to, patience); err != nil {
			x.t.Errorf("%s at %s: %v", p.Name, to, err)
		}
	}
}

// pretend asks as another guest and as itself in turn, until all is answered.
func (x *contest) pretend(p person, kind int, claims ...claim) {
	for n := 0; (n == 0 || x.left.Load() > 0) && !x.t.Failed(); n++ {
		c := claims[n%len(claims)]
		for _, to := range []string{ask4, "[fe80::a9fe:a9fe%" + c.device + "]:80"} {
			x.pretends[kind].Add(1)
			answered, _ := x.asks(p, c, to, 20*time.Millisecond) // mostly in vain
			x.answered.Add(int64(answered))
		}
		if _, err := x.asks(p, claimOf("eth0", p.NICs[0]), ask4, patience); err != nil {
			x.t.Errorf("%s, which pretends to be another, as itself: %v", p.Name, err)
		}
	}
}

// poses gives a guest another's MAC on an interface of its own, with addresses, and what it has to know
// to send from there.
func (p person) poses(t *testing.T, mac seedbed.MAC, v4, v6 string) {
	t.Helper()
	p.ns.Run(t, "ip", "link", "add", "link", "eth0", "name", "mac0", "address", mac.String(), "type", "macvlan", "mode", "private")
	p.ns.Run(t, "sysctl", "-w", "net.ipv6.conf.mac0.addr_gen_mode=1")
	p.ns.Run(t, "ip", "link", "set", "mac0", "up")
	p.ns.Run(t, "ip", "addr", "add", v4+"/24", "dev", "mac0", "noprefixroute")
	p.ns.Run(t, "ip", "-6", "addr", "add", v6+"/64", "dev", "mac0", "nodad")
	p.ns.Run(t, "ip", "route", "add", "169.254.169.254/32", "dev", "mac0", "metric", "500")
	p.knows(t, "mac0", "169.254.169.254", "fe80::a9fe:a9fe")
}

// knows tells a guest the MAC of the bridge, so that it sends without having asked for it.
func (p person) knows(t *testing.T, device string, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		p.ns.Run(t, "ip", "neigh", "replace", addr, "lladdr", network0().MAC.String(), "dev", device, "nud", "permanent")
	}
}

// TestNoAnswerOfAnother: of very many requests, sent by guests of which some use the MAC, the addresses
// or the name of others, each that is answered has the answer of the guest that sent it. What only a
// guest's own port can send is always answered.
func TestNoAnswerOfAnother(t *testing.T) {
	requests := int64(20_000)
	if sample.Long() {
		requests = 1_000_000
	}
	p := realPlane(t)
	const honest, robbed, pretenders = 4, 4, 4
	var all []person
	var guests []seedbed.Guest
	for n := range honest + robbed + pretenders {
		guests = append(guests, record(byte(n+1), "default", fmt.Sprintf("10.77.0.%d", 11+n)))
	}
	serveState(t, p, stateWith([]seedbed.Network{network0()}, guests...))
	for _, g := range guests {
		all = append(all, attach(t, g, "seedbed0", g.NICs[0].ID.Tap()))
	}
	x := &contest{t: t}
	x.left.Store(requests)
	var askers []func()
	for _, g := range all[:honest] {
		asks := func() { x.honest(g, everywhere...) }
		askers = append(askers, asks, asks)
	}
	for kind := range pretenders {
		victim, thief := all[honest+kind], all[honest+robbed+kind]
		theirs, own := victim.NICs[0], thief.NICs[0]
		claims := []claim{claimOf("eth0", theirs)}
		addrs := everywhere
		thief.knows(t, "eth0", network0().Gateway.String(), "fe80::a9fe:a9fe")
		switch kind {
		case 0: // the addresses, of which IPv6's may be any; its owner is away there and does not defend it
			victim.ns.Run(t, "ip", "-6", "addr", "flush", "dev", "eth0")
			thief.ns.Run(t, "ip", "addr", "add", theirs.Addr.String()+"/24", "dev", "eth0")
			thief.ns.Run(t, "ip", "-6", "addr", "add", linkLocal(theirs.MAC)+"/64", "dev", "eth0", "nodad")
			addrs = []string{ask4}
		case 1: // the MAC
			thief.poses(t, theirs.MAC, own.Addr.String(), linkLocal(own.MAC))
			claims[0] = claimOf("mac0", own)
		case 2: // both
			thief.poses(t, theirs.MAC, theirs.Addr.String(), linkLocal(theirs.MAC))
			claims[0] = claimOf("mac0", theirs)
		case 3: // the name
			claims = nil
			for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP"} {
				c := claimOf("eth0", own)
				c.header = header + ": " + theirs.Addr.String() + "\r\n"
				claims = append(claims, c)
			}
		}
		askers = append(askers, func() { x.honest(victim, addrs...) }, func() { x.pretend(thief, kind, claims...) })
	}
	var work sync.WaitGroup
	for _, asks := range askers {
		work.Go(asks)
	}
	work.Wait()
	t.Logf("%d answers; %d, %d, %d and %d connections as another, with %d answers", requests-x.left.Load(),
		x.pretends[0].Load(), x.pretends[1].Load(), x.pretends[2].Load(), x.pretends[3].Load(), x.answered.Load())
}
