package httpserve

import (
	"net"
	"net/netip"
	"testing"
)

// More connections than there is room for wait, and are served as others end.
func TestCrowd(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := NewConnLimiter(ln, 2, 2, nil)
	accepted := make(chan net.Conn, 3)
	done := make(chan error, 1)
	go func() {
		for {
			conn, err := c.Accept()
			if err != nil {
				done <- err
				return
			}
			accepted <- conn
		}
	}()
	for range 3 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first, second := <-accepted, <-accepted
	if !c.Dense() || len(accepted) != 0 {
		t.Error("a third is served")
	}
	first.Close()
	first.Close()
	third := <-accepted
	second.Close()
	third.Close()
	if c.Dense() {
		t.Error("dense without connections")
	}
	c.Close()
	if err := <-done; err == nil {
		t.Error("a closed limiter accepts another connection")
	}
}

// One peer has its share of the connections, and this host and proxies have any number.
func TestCrowdShares(t *testing.T) {
	t.Parallel()
	c := NewConnLimiter(nil, 8, 2, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	from := func(addr string) netip.Prefix {
		return c.peer(remoteAddr{addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))})
	}
	for _, test := range []struct {
		addr string
		want bool
	}{
		{"192.0.2.1:1", true}, {"192.0.2.1:2", true}, {"192.0.2.1:3", false}, {"[::ffff:192.0.2.1]:4", false}, {"192.0.2.2:1", true},
		{"[2001:db8::1]:1", true}, {"[2001:db8::2]:1", true}, {"[2001:db8::3]:1", false}, {"[2001:db8:0:1::1]:1", true},
		{"127.0.0.1:1", true}, {"127.0.0.1:2", true}, {"127.0.0.1:3", true}, {"[::1]:1", true}, {"[::1]:2", true}, {"[::1]:3", true},
		{"10.1.1.1:1", true}, {"10.1.1.1:2", true}, {"10.1.1.1:3", true},
	} {
		if got := c.enter(from(test.addr)); got != test.want {
			t.Errorf("%s: let in %t, want %t", test.addr, got, test.want)
		}
	}
	c.leave(from("192.0.2.1:1"))
	if !c.enter(from("192.0.2.1:9")) {
		t.Error("none after one has left")
	}
	for _, addr := range []string{"192.0.2.1:1", "192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1", "[2001:db8::1]:1",
		"[2001:db8:0:1::1]:1", "127.0.0.1:1"} {
		c.leave(from(addr))
	}
	if len(c.peers) != 0 {
		t.Errorf("still counted: %v", c.peers)
	}
}

// remoteAddr is a connection from there.
type remoteAddr struct {
	net.Conn
	addr net.Addr
}

func (r remoteAddr) RemoteAddr() net.Addr { return r.addr }
