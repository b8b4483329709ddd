package metadata

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"seedbed"
)

// TestResolveByMAC: on a network with that identity a caller without a mark is known by its MAC,
// and by nothing less.
func TestResolveByMAC(t *testing.T) {
	t.Parallel()
	d := NewDirectory()
	onMAC := guestB()
	onMAC.NICs = []seedbed.GuestNIC{{ID: 102, MAC: macB, Network: "other", Addr: addrA}}
	if err := d.Apply(stateOf(nil, guestA(), onMAC)); err != nil {
		t.Fatal(err)
	}
	x := d.current.Load()
	link, global := netip.MustParseAddr("fe80::5054:ff:fe00:b"), netip.MustParseAddr("fd00::b")
	for _, tt := range []struct {
		name  string
		facts Facts
		want  seedbed.InstanceID
	}{
		{"MAC and address", Facts{"seedbed1", 0, addrA, macB}, idB},
		{"link-local", Facts{"seedbed1", 0, link, macB}, idB},
		{"on-link", Facts{"seedbed1", 0, global, macB}, idB},
		{"another address", Facts{"seedbed1", 0, addrB, macB}, ""},
		{"another MAC", Facts{"seedbed1", 0, addrA, macA}, ""},
		{"another bridge", Facts{"seedbed0", 0, addrA, macB}, ""},
		{"no MAC", Facts{"seedbed1", 0, addrA, seedbed.MAC{}}, ""},
		{"a network of taps", Facts{"seedbed0", 0, addrA, macA}, ""},
		{"a network of taps, link-local", Facts{"seedbed0", 0, link, macA}, ""},
		{"a mark is not passed over", Facts{"seedbed1", 7, addrA, macB}, ""},
		{"another's mark", Facts{"seedbed1", 101, addrA, macB}, ""},
		{"marked", Facts{"seedbed1", 102, addrA, macB}, idB},
		{"marked, IPv6", Facts{"seedbed0", 101, link, macA}, idA},
		{"marked, IPv6, another MAC", Facts{"seedbed0", 101, link, macB}, ""},
		{"marked, IPv6, another bridge", Facts{"seedbed1", 101, link, macA}, ""},
	} {
		p, reason := x.resolve(tt.facts)
		if p.instance != tt.want && (reason == "" || tt.want != "") || (reason == "") != (tt.want != "") {
			t.Errorf("%s: %q (%s), want %q", tt.name, p.instance, reason, tt.want)
		}
	}
}

// TestIdentityFollowsTheNetwork: a connection that was known by its MAC is nobody's once the
// network goes by taps, and one whose NIC has moved neither.
func TestIdentityFollowsTheNetwork(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*seedbed.GuestPlaneState, *seedbed.Guest){
		"identity": func(s *seedbed.GuestPlaneState, _ *seedbed.Guest) { s.Networks[1].Identity = seedbed.IdentityTap },
		"address":  func(_ *seedbed.GuestPlaneState, g *seedbed.Guest) { g.NICs[0].Addr = netip.MustParseAddr("10.9.0.8") },
		"network":  func(_ *seedbed.GuestPlaneState, g *seedbed.Guest) { g.NICs[0].Network = "default" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nil)
			guest := func() seedbed.Guest {
				g := guestA()
				g.NICs = []seedbed.GuestNIC{{ID: 101, MAC: macA, Network: "other", Addr: addrA}}
				return g
			}
			l.mu.Lock()
			l.facts[addrA] = Facts{Bridge: "seedbed1", Peer: addrA, MAC: macA}
			l.mu.Unlock()
			l.apply(stateOf(nil, guest()))
			c := l.client(addrA)
			l.want(c, 200, "GET", "/latest/meta-data/mac")
			g := guest()
			s := stateOf(nil)
			change(&s, &g)
			changed := stateOf(nil, g)
			changed.Networks = s.Networks
			l.apply(changed)
			l.want(c, 404, "GET", "/latest/meta-data/mac")
			l.apply(stateOf(nil, guest()))
			l.want(c, 200, "GET", "/latest/meta-data/mac")
		})
	}
}

// TestLocalTapGoesByItsMark: where a NIC's tap is on this host, only the mark says who it is, also
// on a network that goes by MAC.
func TestLocalTapGoesByItsMark(t *testing.T) {
	t.Parallel()
	var here atomic.Bool
	var asked atomic.Int32
	var broken atomic.Bool
	l := newLab(t, func(c *Config) {
		c.HasLink = func(_ context.Context, name string) (bool, error) {
			asked.Add(1)
			if name != "sb101" {
				t.Errorf("asked for %s", name)
			}
			if broken.Load() {
				return false, errors.New("no answer")
			}
			return here.Load(), nil
		}
	})
	g := guestA()
	g.NICs = []seedbed.GuestNIC{{ID: 101, MAC: macA, Network: "other", Addr: addrA}}
	facts := func(f Facts) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.facts[addrA] = f
	}
	unmarked := Facts{Bridge: "seedbed1", Peer: addrA, MAC: macA}
	facts(unmarked)
	l.apply(stateOf(nil, g))
	far := l.client(addrA)
	l.want(far, 200, "GET", "/latest/meta-data/mac")
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times for one connection", n)
	}
	here.Store(true)
	l.want(l.client(addrA), 404, "GET", "/latest/meta-data/mac")
	l.apply(stateOf(nil, g, guestB()))
	l.want(far, 404, "GET", "/latest/meta-data/mac") // the tap came after the connection

	before := asked.Load()
	facts(Facts{Bridge: "seedbed1", Peer: addrA, MAC: macA, Mark: 101})
	l.want(l.client(addrA), 200, "GET", "/latest/meta-data/mac")
	unmarked.Bridge = "seedbed0" // nobody's MAC there
	facts(unmarked)
	l.want(l.client(addrA), 404, "GET", "/latest/meta-data/mac")
	if n := asked.Load(); n != before {
		t.Errorf("asked %d times where it decides nothing", n-before)
	}
	unmarked.Bridge = "seedbed1"
	facts(unmarked)
	broken.Store(true)
	if r, err := l.try(l.client(addrA), "GET", "/latest/meta-data/mac"); err == nil {
		t.Errorf("answer %d while nobody knows", r.status)
	}
}

// indexOf is what an index has, as comparable text.
func indexOf(x *index) map[string]string {
	out := map[string]string{"guests": fmt.Sprint(x.guests)}
	for _, part := range x.marks.all {
		for mark, p := range part {
			out[fmt.Sprint("mark ", mark)] = fmt.Sprint(p.instance, p.mac, p.addr, x.bridge(p))
		}
	}
	for _, part := range x.macs.all {
		for s, mark := range part {
			out[fmt.Sprint("mac ", s.network, s.mac)] = fmt.Sprint(mark)
		}
	}
	return out
}

// TestSmallChanges: what is made of changes is what is made of everything, and an index that is in
// use stays as it is.
func TestSmallChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		small, whole := NewDirectory(), NewDirectory()
		held := map[seedbed.InstanceID]seedbed.Guest{}
		var kept *index
		var keptText map[string]string
		for revision := range int64(12) {
			next := maps.Clone(held)
			var changed []seedbed.InstanceID
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				n := rapid.IntRange(1, 6).Draw(t, "guest")
				id := seedbed.InstanceID(fmt.Sprintf("ec2fffff-0000-4000-8000-%012d", n))
				changed = append(changed, id)
				if rapid.Bool().Draw(t, "gone") {
					delete(next, id)
					continue
				}
				g := seedbed.Guest{ID: id, Name: fmt.Sprint("r", revision)}
				for range rapid.IntRange(0, 2).Draw(t, "NICs") {
					nic := rapid.IntRange(1, 8).Draw(t, "NIC") // may be another's: refused then
					g.NICs = append(g.NICs, seedbed.GuestNIC{ID: seedbed.NICID(nic), MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0,
						byte(rapid.IntRange(1, 8).Draw(t, "MAC"))},
						Network: rapid.SampledFrom([]string{"default", "other"}).Draw(t, "network")})
				}
				next[id] = g
			}
			s := stateOf(nil)
			s.Revision = revision
			s.Guests = maps.All(next)
			s.Guest = func(id seedbed.InstanceID) (seedbed.Guest, bool) { g, ok := next[id]; return g, ok }
			wholeErr := whole.Apply(s)
			s.Since, s.Changed = small.current.Load().state.Revision, changed
			if err := small.Apply(s); (err == nil) != (wholeErr == nil) {
				t.Fatalf("%v, as a whole %v", err, wholeErr)
			}
			if wholeErr == nil {
				held = next
			}
			if diff := cmp.Diff(indexOf(whole.current.Load()), indexOf(small.current.Load())); diff != "" {
				t.Fatalf("index (-whole +small):\n%s", diff)
			}
			if kept != nil {
				if diff := cmp.Diff(keptText, indexOf(kept)); diff != "" {
					t.Fatalf("an older index changed (-before +after):\n%s", diff)
				}
			}
			kept = small.current.Load()
			keptText = indexOf(kept)
		}
	})
}

// TestLives: what is remembered of an instance stays with small and large changes, goes with it,
// and a crawl that is over holds nothing.
func TestLives(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA(), guestB()))
	a := l.client(addrA)
	l.want(a, 404, "GET", "/latest/user-data")
	l.want(a, 200, "GET", "/latest/meta-data/")
	remembered := func() int {
		l.dir.sessions.mu.Lock()
		defer l.dir.sessions.mu.Unlock()
		return len(l.dir.sessions.byID)
	}
	if n := remembered(); n != 1 {
		t.Errorf("%d sessions, want the one that has asked", n)
	}
	before := l.dir.sessions.find(idA)
	l.apply(stateOf(nil, guestA()))
	if l.dir.sessions.find(idA) != before {
		t.Error("it was forgotten with another")
	}
	if before.pin.Load() == nil {
		t.Error("the crawl is not pinned")
	}
	l.pass(pinFor)
	eventually(t, "nothing is held", func() bool { return before.pin.Load() == nil })
	s := stateOf(nil)
	s.Revision, s.Since, s.Changed = 2, 1, []seedbed.InstanceID{idA}
	l.apply(s)
	if n := remembered(); n != 0 {
		t.Errorf("%d sessions of removed instances", n)
	}
}

// TestUnpinBesideRestless: a guest that begins a crawl the moment that its last one is over does
// not keep what the crawls of others hold.
func TestUnpinBesideRestless(t *testing.T) {
	t.Parallel()
	var l sessions
	restless, other := l.find(idA), l.find(idB)
	now := time.Now()
	l.pinTo(restless, &index{}, now)
	l.pinTo(other, &index{}, now)
	now = now.Add(pinFor)
	l.pinTo(restless, &index{}, now)
	l.unpin(now)
	if other.pin.Load() != nil {
		t.Error("a crawl that is over holds its state")
	}
	if restless.pin.Load() == nil {
		t.Error("a crawl has lost its state")
	}
	if n := len(l.pinned); n != 1 {
		t.Errorf("%d crawls are listed, want 1", n)
	}
}
