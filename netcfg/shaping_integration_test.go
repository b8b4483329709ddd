//go:build integration

package netcfg

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// rate is how many bits a second a guest sends another for a while, by TCP.
func rate(t *testing.T, from, to *netnstest.Namespace, addr string) seedbed.BitRate {
	t.Helper()
	var l net.Listener
	var c net.Conn
	var err error
	to.Do(func() { l, err = net.Listen("tcp4", addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	from.Do(func() { c, err = net.DialTimeout("tcp4", addr, patience) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const lasting = time.Second
	began := time.Now()
	c.SetDeadline(began.Add(lasting))
	r.SetDeadline(began.Add(lasting))
	go func() {
		block := make([]byte, 1<<16)
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}()
	n, _ := io.Copy(io.Discard, r)
	return seedbed.BitRate(float64(8*n) / time.Since(began).Seconds())
}

// TestBandwidth: the guests of a network send and receive no faster than it says, as this changes and as their interfaces
// come and go.
func TestBandwidth(t *testing.T) {
	m := open(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	s := state0()
	apply(t, m, s, Options{})
	go func() { done <- m.Follow(ctx, []string{"seedbed0"}, nil, func(string, bool) {}) }()
	t.Cleanup(func() { stop(); <-done })
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	const limit, free = 20_000_000, 200_000_000
	check := func(t *testing.T, what string, out, in bool) {
		t.Helper()
		for way, of := range map[string]struct {
			limited bool
			rate    seedbed.BitRate
		}{"sends": {out, rate(t, g1, g2, ip2.String()+":5001")}, "receives": {in, rate(t, g2, g1, ip1.String()+":5001")}} {
			if of.limited && (of.rate > 2*limit || of.rate < limit/4) || !of.limited && of.rate < free {
				t.Errorf("%s: a guest %s %s, limited: %t", what, way, of.rate, of.limited)
			}
		}
	}
	set := func(in, out seedbed.BitRate) {
		t.Helper()
		s.Networks[0].BandwidthIn, s.Networks[0].BandwidthOut = in, out
		apply(t, m, s, Options{})
	}
	check(t, "without limits", false, false)
	own := func(in, out seedbed.BitRate) {
		t.Helper()
		s.Ports[0].In, s.Ports[0].Out = in, out
		if err := m.Change(t.Context(), Diff{Gone: []string{"sb1"}, Ports: s.Ports[:1]}); err != nil {
			t.Fatal(err)
		}
	}
	own(0, limit)
	check(t, "one guest that sends slowly", true, false)
	own(limit, 0)
	check(t, "one guest that receives slowly", false, true)
	set(2*free, 2*free)
	check(t, "one guest that receives slowly in a network with a limit", false, true)
	own(0, 0)
	set(0, 0)
	check(t, "without limits again", false, false)
	set(0, limit)
	check(t, "guests that send slowly", true, true) // what one does not send, the other does not receive
	set(limit, 0)
	check(t, "guests that receive slowly", true, true)
	set(limit, limit)
	sl1 := linkOf(t, "sl1")
	m.shaped = nil // as a new process has it
	apply(t, m, s, Options{})
	if now := linkOf(t, "sl1"); now != sl1 {
		t.Errorf("a restart made the shaper again: %s, was %s", now, sl1)
	}
	for what, c := range map[string]struct {
		repair func(context.Context) error
		args   []string
	}{
		"the shaper went":           {m.Restore, []string{"ip", "link", "del", "sl1"}},
		"the shaper is down":        {m.Restore, []string{"ip", "link", "set", "sl1", "down"}},
		"the token bucket went":     {m.Verify, []string{"tc", "qdisc", "del", "dev", "sb1", "root"}},
		"the other bucket went":     {m.Verify, []string{"tc", "qdisc", "del", "dev", "sl1", "root"}},
		"the shaper is half made":   {m.Verify, []string{"sh", "-c", "ip link set sl1 alias '' && tc qdisc del dev sb1 ingress"}},
		"nothing but its name left": {m.Verify, []string{"sh", "-c", "ip link del sl1 && ip link add sl1 type ifb"}},
	} {
		netnstest.Run(t, c.args[0], c.args[1:]...)
		if err := c.repair(t.Context()); err != nil || m.unshaped != nil {
			t.Fatal(err, m.unshaped)
		}
		if !shapedBoth(t) {
			t.Errorf("%s, and it is not repaired", what)
		}
	}
	check(t, "after repairs", true, true)

	// A guest's interface comes and goes.
	netnstest.Run(t, "ip", "link", "del", "sb1")
	await(t, "the shaper of an interface that went", func() bool {
		return !strings.Contains(netnstest.Run(t, "ip", "link"), "sl1:")
	})
	g1 = guest(t, "sb1", mac1, ip1)
	await(t, "the shaper of an interface that came", func() bool { return shapedBoth(t) })
	check(t, "after its interface came again", true, true)

	m.shaped = nil
	set(0, 0)
	check(t, "without limits again, after a restart", false, false)
	if left := netnstest.Run(t, "ip", "link"); strings.Contains(left, shapedPrefix+"1:") || strings.Contains(left, shapedPrefix+"2:") {
		t.Errorf("interfaces are left:\n%s", left)
	}
	set(limit, limit)
	if err := m.Cleanup(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	left := netnstest.Run(t, "ip", "link") + netnstest.Run(t, "tc", "qdisc", "show", "dev", "sb1")
	if strings.Contains(left, shapedPrefix+"1:") || strings.Contains(left, "tbf") || strings.Contains(left, "ingress") {
		t.Errorf("left after the cleanup:\n%s", left)
	}
}

// linkOf is the line that ip has about a link, with its index.
func linkOf(t *testing.T, name string) string {
	t.Helper()
	return netnstest.Run(t, "ip", "-o", "link", "show", name)
}

// shapedBoth reports whether the interface of the first guest is limited both ways.
func shapedBoth(t *testing.T) bool {
	t.Helper()
	if netnstest.Try("ip", "link", "show", "sl1", "up") != nil || netnstest.Try("ip", "link", "show", "sb1") != nil {
		return false
	}
	return strings.Contains(netnstest.Run(t, "tc", "filter", "show", "dev", "sb1", "parent", "ffff:"), "mirred") &&
		strings.Contains(netnstest.Run(t, "tc", "qdisc", "show", "dev", "sb1"), "tbf") &&
		strings.Contains(netnstest.Run(t, "tc", "qdisc", "show", "dev", "sl1"), "tbf")
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}
