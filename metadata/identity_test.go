package metadata

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	d := NewDirectory()
	onOther := guestB()
	onOther.NICs = []seedbed.GuestNIC{{ID: 102, MAC: macB, Network: "other", Addr: addrA}} // the same address on another bridge
	onWire := guestB()
	onWire.ID, onWire.NICs = "ec2a0b1c-2d3e-4f56-8789-0123456789ff", []seedbed.GuestNIC{{ID: 103, MAC: macB, Network: "wire"}}
	second := netip.MustParseAddr("10.99.0.40")
	several := guestA()
	several.NICs[0].Secondary = []netip.Addr{second}
	state := stateOf(nil, several, onOther, onWire)
	state.Networks = append(state.Networks, seedbed.Network{Name: "wire", Kind: seedbed.NetworkBridged, Bridge: "sb-wire", Uplink: "br0"})
	if err := d.Apply(state); err != nil {
		t.Fatal(err)
	}
	x := d.current.Load()
	for _, tt := range []struct {
		name  string
		facts Facts
		want  seedbed.InstanceID
	}{
		{"marked", Facts{"seedbed0", 101, addrA, macA}, idA},
		{"from a secondary address", Facts{"seedbed0", 101, second, macA}, idA},
		{"from another's secondary address", Facts{"seedbed1", 102, second, macB}, ""},
		{"same address, other bridge", Facts{"seedbed1", 102, addrA, macB}, idB},
		{"an address from elsewhere", Facts{"sb-wire", 103, addrA, macB}, onWire.ID},
		{"an address from elsewhere without the MAC", Facts{"sb-wire", 103, addrA, macA}, ""},
		{"an address from elsewhere without a mark", Facts{"sb-wire", 0, addrA, macB}, ""},
		{"mark of another bridge", Facts{"seedbed0", 102, addrA, macB}, ""},
		{"mark without its MAC", Facts{"seedbed0", 101, addrA, macB}, ""},
		{"mark with another address", Facts{"seedbed0", 101, addrB, macA}, ""},
		{"unknown mark with a known MAC", Facts{"seedbed0", 0x4000, addrA, macA}, ""},
		{"no mark", Facts{"seedbed0", 0, addrA, macA}, ""},
		{"no bridge", Facts{"", 101, addrA, macA}, ""},
	} {
		p, reason := x.resolve(tt.facts)
		var got seedbed.InstanceID
		if reason == "" {
			got = p.instance
		}
		if got != tt.want || (got == "") == (reason == "") {
			t.Errorf("%s: %q (%s), want %q", tt.name, got, reason, tt.want)
		}
	}
}

// nicOf is the first NIC of a guest, to be changed in place.
func nicOf(s *seedbed.GuestPlaneState, id seedbed.InstanceID) *seedbed.GuestNIC {
	g, _ := s.Guest(id)
	return &g.NICs[0]
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*seedbed.GuestPlaneState){
		"key length":      func(s *seedbed.GuestPlaneState) { s.TokenKey = s.TokenKey[1:] },
		"missing blob":    func(s *seedbed.GuestPlaneState) { s.Blob = func(string) ([]byte, bool) { return nil, false } },
		"no blobs":        func(s *seedbed.GuestPlaneState) { s.Blob = nil },
		"unknown network": func(s *seedbed.GuestPlaneState) { s.Networks = nil },
		"no guests":       func(s *seedbed.GuestPlaneState) { s.Guest = nil },
		"NIC zero":        func(s *seedbed.GuestPlaneState) { nicOf(s, idA).ID = 0 },
		"NIC too large":   func(s *seedbed.GuestPlaneState) { nicOf(s, idA).ID = 1 << 31 },
		"NIC twice":       func(s *seedbed.GuestPlaneState) { nicOf(s, idA).ID = 102 },
		"MAC twice":       func(s *seedbed.GuestPlaneState) { nicOf(s, idA).MAC = macB },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := NewDirectory()
			if err := d.Apply(stateOf(nil, guestB())); err != nil {
				t.Fatal(err)
			}
			s := stateOf(map[seedbed.InstanceID][]byte{idA: []byte("x")}, guestA(), guestB())
			spoil(&s)
			if err := d.Apply(s); err == nil {
				t.Error("was applied")
			}
			x := d.current.Load()
			_, isA := x.port(101)
			_, isB := x.port(102)
			if x.guests != 1 || isA || !isB {
				t.Error("the directory changed")
			}
		})
	}
}

func TestStranger(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) { c.Limits.Hold = 50 * time.Millisecond })
	stranger := netip.MustParseAddr("127.0.1.9")
	s := stateOf(nil, guestA())

	s.InSync = false
	l.apply(s)
	for _, request := range []string{"PUT /latest/api/token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"GET /2009-04-04/meta-data/instance-id HTTP/1.1\r\nHost: x\r\n\r\n"} {
		if got := l.raw(stranger, request); got != "" {
			t.Errorf("not in sync: answer %q", got)
		}
	}
	l.want(l.client(addrA), 200, "GET", "/latest/meta-data/instance-id")

	s.InSync = true
	l.apply(s)
	r := l.want(l.client(stranger), 404, "GET", "/latest/meta-data/instance-id")
	if !strings.Contains(r.body, "404 - Not Found") {
		t.Errorf("body %q", r.body)
	}
	l.want(l.client(stranger), 404, "PUT", tokenPath, ttlHeader, "60")
	l.want(l.client(stranger), 404, "POST", reportPrefix+"report-token-of-a")
	if st := l.srv.Stats(); st.Held != 2 || st.Unknown != 3 {
		t.Errorf("stats %+v", st)
	}
	if n := len(l.seen(seedbed.GuestAccess)); n != 1 {
		t.Errorf("%d access records, want the known guest's", n)
	}
}

// TestHeldUntilKnown: the record comes while the guest is held.
func TestHeldUntilKnown(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) { c.Limits.Hold = time.Minute })
	got := make(chan string, 1)
	go func() {
		got <- l.raw(addrA, "GET /latest/meta-data/hostname HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}()
	eventually(t, "the guest is held", func() bool { return l.srv.Stats().Held == 1 })
	s := stateOf(nil)
	s.InSync = false
	l.apply(s)
	l.apply(stateOf(nil, guestA()))
	if s := <-got; !strings.HasPrefix(s, "HTTP/1.1 200") || !strings.HasSuffix(s, "web-1") {
		t.Errorf("answer %q", s)
	}
	if st := l.srv.Stats(); st.UnknownConns != 0 {
		t.Errorf("%d unknown connections", st.UnknownConns)
	}
}

// TestHeldConnectionsAreFew: more than the limit are closed at once.
func TestHeldConnectionsAreFew(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) { c.Limits.Hold, c.Limits.UnknownConns = time.Minute, 3 })
	stranger := netip.MustParseAddr("127.0.1.9")
	for range 3 {
		c := l.dial(stranger)
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	eventually(t, "three are held", func() bool { return l.srv.Stats().Held == 3 })
	if got := l.raw(stranger, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); got != "" {
		t.Errorf("the fourth got %q", got)
	}
	if err := l.stop(); err != nil {
		t.Errorf("Serve with held connections: %v", err)
	}
}

// TestStrangersShare: one unknown caller leaves places for others, and gives its own back.
func TestStrangersShare(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) { c.Limits.Hold, c.Limits.SourceConns = time.Minute, 2 })
	first, other := netip.MustParseAddr("127.0.1.9"), netip.MustParseAddr("127.0.1.10")
	l.mu.Lock()
	for i, a := range []netip.Addr{first, other} {
		l.facts[a] = Facts{Bridge: "seedbed0", Peer: a, MAC: seedbed.MAC{2, 0, 0, 0, 0, byte(i)}}
	}
	l.mu.Unlock()
	hold := func(from netip.Addr) net.Conn {
		held := l.srv.Stats().Held
		c := l.dial(from)
		io.WriteString(c, "GET /latest/meta-data/hostname HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		eventually(t, "it is held", func() bool { return l.srv.Stats().Held == held+1 })
		return c
	}
	one, two := hold(first), hold(first)
	defer one.Close()
	defer two.Close()
	if got := l.raw(first, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); got != "" || l.srv.Stats().Refused != 1 {
		t.Errorf("the third of one caller got %q", got)
	}
	if got := l.srv.Stats().UnknownConns; got != 2 {
		t.Errorf("%d unknown connections", got)
	}
	defer hold(other).Close()
	l.apply(stateOf(nil)) // in sync: they get 404
	eventually(t, "all have gone", func() bool { return l.srv.Stats().UnknownConns == 0 })
	l.srv.sourceConns.mu.Lock()
	defer l.srv.sourceConns.mu.Unlock()
	if n := len(l.srv.sourceConns.count); n != 0 {
		t.Errorf("%d sources are counted without a connection", n)
	}
}

// TestRetracted: a connection keeps its identity, but not the record.
func TestRetracted(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA()))
	c := l.client(addrA)
	l.want(c, 200, "GET", "/latest/meta-data/")
	l.apply(stateOf(nil))
	l.want(c, 404, "GET", "/latest/meta-data/")
	changed := guestA()
	changed.ID = idB // the same NIC number must not carry the connection over
	l.apply(stateOf(nil, guestA()))
	l.want(c, 200, "GET", "/latest/meta-data/instance-id")
	l.apply(stateOf(nil, changed))
	l.want(c, 404, "GET", "/latest/meta-data/instance-id")
}

// TestPinned: a crawl sees one record for a minute.
func TestPinned(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(map[seedbed.InstanceID][]byte{idA: []byte("old")}, guestA()))
	c := l.client(addrA)
	renamed := guestA()
	renamed.Name = "renamed"
	change := stateOf(map[seedbed.InstanceID][]byte{idA: []byte("new")}, renamed)

	l.want(c, 200, "GET", "/latest/meta-data/hostname") // pins nothing
	l.apply(change)
	if got := l.want(c, 200, "GET", "/latest/meta-data/hostname").body; got != "renamed" {
		t.Errorf("before a listing: %q", got)
	}
	l.apply(stateOf(map[seedbed.InstanceID][]byte{idA: []byte("old")}, guestA()))
	l.want(c, 200, "GET", "/latest/meta-data/")
	l.apply(change)
	l.pass(59 * time.Second)
	l.want(c, 200, "GET", "/latest/meta-data/") // does not prolong it
	if got := l.want(c, 200, "GET", "/latest/user-data").body; got != "old" {
		t.Errorf("pinned: user-data %q", got)
	}
	l.pass(time.Second)
	if got := l.want(c, 200, "GET", "/latest/meta-data/hostname").body; got != "renamed" {
		t.Errorf("after a minute: %q", got)
	}
}

// TestNewsPassThePin: what an instance must know now is told during a crawl, too, and nothing that
// was listed goes away before it ends.
func TestNewsPassThePin(t *testing.T) {
	t.Parallel()
	const root = "/latest/meta-data/"
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA()))
	c := l.client(addrA)
	l.want(c, 200, "PUT", tokenPath, ttlHeader, "60")
	at := l.clock()
	told := func(spot *seedbed.Spot, action string, maintenance ...seedbed.Maintenance) {
		g := guestA()
		g.Name, g.Spot, g.Action, g.Maintenance = "renamed", spot, action, maintenance
		l.apply(stateOf(nil, g))
		l.apply(stateOf(nil, g)) // whatever else changes meanwhile
	}
	crawl := func(when string, want ...string) {
		t.Helper()
		listed := l.want(c, 200, "GET", root).body
		for _, dir := range []string{"spot/", "events/", "events/recommendations/"} {
			if r := l.do(c, "GET", root+dir); r.status == 200 {
				for _, line := range strings.Split(r.body, "\n") {
					listed += "\n" + dir + line
				}
			} else if strings.Contains(listed, "\n"+dir) {
				t.Errorf("%s: %s is listed and gives %d", when, dir, r.status)
			}
		}
		var have []string
		for _, line := range strings.Split(listed, "\n") {
			if strings.Contains(line, "spot/") || strings.Contains(line, "recommendations/r") {
				have = append(have, line)
			}
		}
		if d := cmp.Diff(want, have, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +listed):\n%s", when, d)
		}
		for _, path := range have {
			l.want(c, 200, "GET", root+path)
		}
		if got := l.want(c, 200, "GET", root+"hostname").body; got != "web-1" {
			t.Errorf("%s: the name is %s, and not the pinned one", when, got)
		}
	}
	crawl("at first")
	told(&seedbed.Spot{Action: "terminate", Time: at}, "shutdown", seedbed.Maintenance{ID: "m1", State: seedbed.MaintenanceActive})
	notice := []string{"spot/", "spot/instance-action", "spot/termination-time"}
	crawl("with a notice", notice...)
	if got := l.want(c, 200, "GET", root+"instance-action").body; got != "shutdown" {
		t.Errorf("instance-action is %q", got)
	}
	if got := l.want(c, 200, "GET", root+"events/maintenance/scheduled").body; !strings.Contains(got, "m1") {
		t.Errorf("scheduled maintenance is %s", got)
	}
	told(&seedbed.Spot{Rebalance: at}, "")
	all := append([]string{notice[0], notice[1], notice[2]}, "events/recommendations/rebalance")
	crawl("another instead", all...)
	told(&seedbed.Spot{Action: "stop", Time: at}, "")
	crawl("another action", all...)
	told(nil, "")
	crawl("withdrawn", all...)
	if got := l.want(c, 200, "GET", root+"instance-action").body; got != seedbed.ActionNone {
		t.Errorf("instance-action is %q", got)
	}
	if got := l.want(c, 200, "GET", root+"events/maintenance/scheduled").body; got != "[]" {
		t.Errorf("scheduled maintenance is %s", got)
	}
	l.pass(pinFor)
	for _, path := range all {
		l.want(c, 404, "GET", root+path)
	}
}

func TestGuestConnLimit(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) { c.Limits.GuestConns = 2 })
	l.apply(stateOf(nil, guestA(), guestB()))
	request := "GET /latest/meta-data/hostname HTTP/1.1\r\nHost: x\r\n\r\n"
	var open []net.Conn
	for range 2 {
		c := l.dial(addrA)
		defer c.Close()
		io.WriteString(c, request)
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	if got := l.raw(addrA, request); got != "" {
		t.Errorf("the third got %q", got)
	}
	l.want(l.client(addrB), 200, "GET", "/latest/meta-data/hostname")
	open[0].Close()
	eventually(t, "a place is free again", func() bool { return strings.HasPrefix(l.raw(addrA, request), "HTTP/1.1 200") })
}

func TestTotalConnLimit(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) { c.Limits.Conns = 1 })
	l.apply(stateOf(nil, guestA(), guestB()))
	c := l.dial(addrA)
	defer c.Close()
	eventually(t, "it is open", func() bool { return l.srv.Stats().Conns == 1 })
	if _, err := l.try(l.client(addrB), "GET", "/"); err == nil {
		t.Error("one too many was answered")
	}
	c.Close()
	eventually(t, "there is room", func() bool {
		_, err := l.try(l.client(addrB), "GET", "/")
		return err == nil
	})
}

// TestUndecided: when the kernel cannot tell, nobody is told 404.
func TestUndecided(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) {
		c.Identify = func(net.Conn) (Facts, error) { return Facts{}, errors.New("no neighbour entry") }
	})
	l.apply(stateOf(nil, guestA()))
	if got := l.raw(addrA, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); got != "" {
		t.Errorf("answer %q", got)
	}
	if st := l.srv.Stats(); st.Refused != 1 {
		t.Errorf("stats %+v", st)
	}
}
