package netcfg

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// TestChange: what is written for a set is the same, whether the elements are known or were listed.
func TestChange(t *testing.T) {
	t.Parallel()
	s := set{of: func(_ *plan, t *port) (string, string, bool) {
		return string(t.tap[:]), string(rune(t.mark)), t.mac[5] == 0
	}}
	plan := func(ports ...Port) *plan {
		p, n := &plan{}, testNetwork()
		p.networks = []seedbed.Network{n}
		p.indexNetworks()
		var err error
		for i := range ports {
			ports[i].Bridge, ports[i].MAC[0], ports[i].Addr = n.Bridge, 2, n.Gateway.Next()
		}
		if p.guests, err = newPorts(slices.Values(ports), p, &p.groups); err != nil {
			t.Fatal(err)
		}
		return p
	}
	hidden := seedbed.MAC{5: 1}
	before := plan(Port{Tap: "a-same", Mark: 'x'}, Port{Tap: "b-changed", Mark: 'x'}, Port{Tap: "c-old", Mark: 'x'},
		Port{Tap: "d-hidden", Mark: 'x'}, Port{Tap: "e-shown", Mark: 'x', MAC: hidden}, Port{Tap: "z-last", Mark: 'x'})
	after := plan(Port{Tap: "a-same", Mark: 'x'}, Port{Tap: "b-changed", Mark: 'y'}, Port{Tap: "bb-new", Mark: 'x'},
		Port{Tap: "d-hidden", Mark: 'x', MAC: hidden}, Port{Tap: "e-shown", Mark: 'x'}, Port{Tap: "z-last", Mark: 'x'})
	kernel := map[string]string{}
	s.each(before, func(k, v string) { kernel[k] = v })
	for name, c := range map[string]change{"from memory": s.between(before, after), "from a listing": s.against(after, kernel)} {
		said := func(list []nftables.SetElement) []string {
			out := []string{}
			for _, e := range list {
				out = append(out, strings.TrimRight(string(e.Key), "\x00")+"="+string(e.Val))
			}
			slices.Sort(out)
			return out
		}
		if d := cmp.Diff([]string{"b-changed=x", "c-old=x", "d-hidden=x"}, said(c.gone)); d != "" {
			t.Errorf("%s: gone (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff([]string{"b-changed=y", "bb-new=x", "e-shown=x"}, said(c.added)); d != "" {
			t.Errorf("%s: added (-want +got):\n%s", name, d)
		}
	}
}

func TestFirstFree(t *testing.T) {
	t.Parallel()
	all := candidates()
	if got, want := len(all), 128; got != want {
		t.Errorf("%d candidates, want %d", got, want)
	}
	used := []netip.Prefix{netip.MustParsePrefix("10.213.0.0/26"), netip.MustParsePrefix("10.213.2.0/23")}
	if got, err := firstFree(all, used); err != nil || got.String() != "10.213.1.0/24" {
		t.Errorf("firstFree = %v, %v", got, err)
	}
	if _, err := firstFree(all, []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}); !errors.Is(err, seedbed.ErrFull) {
		t.Errorf("with everything taken: %v, want ErrFull", err)
	}
	for _, popular := range []string{"10.0.0.0/16", "10.8.0.0/16", "10.42.0.0/16", "10.88.0.0/16", "10.96.0.0/12",
		"10.244.0.0/16", "172.17.0.0/16",
		"172.31.0.0/16", "192.168.0.0/23", "192.168.100.0/24", "192.168.122.0/24"} {
		for _, c := range all {
			if c.Overlaps(netip.MustParsePrefix(popular)) {
				t.Errorf("candidate %s overlaps %s", c, popular)
			}
		}
	}
}

func TestWantRPFilter(t *testing.T) {
	t.Parallel()
	for all, want := range map[int]int{0: 0, 1: 2, 2: 0} {
		if got := wantRPFilter(all); got != want {
			t.Errorf("wantRPFilter(%d) = %d, want %d", all, got, want)
		}
	}
}

func TestSysctlName(t *testing.T) {
	t.Parallel()
	if got, want := sysctlName(keyConf("br.5", "rp_filter")), "net.ipv4.conf.br/5.rp_filter"; got != want {
		t.Errorf("sysctlName = %q, want %q", got, want)
	}
}

func TestLastAddr(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"10.1.2.0/24": "10.1.2.255", "10.0.0.0/8": "10.255.255.255", "10.1.2.4/30": "10.1.2.7"} {
		if got := seedbed.LastAddr(netip.MustParsePrefix(in)).String(); got != want {
			t.Errorf("lastAddr(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestListenerBlocks(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	for _, tt := range []struct {
		name string
		l    listener
		want bool
	}{
		{"all IPv4", listener{family: unix.AF_INET, addr: v4}, true},
		{"dual stack", listener{family: unix.AF_INET6, addr: v6}, true},
		{"IPv6 alone", listener{family: unix.AF_INET6, addr: v6, v6only: true}, false},
		{"the address", listener{family: unix.AF_INET, addr: seedbed.MetadataAddr}, true},
		{"another address", listener{family: unix.AF_INET, addr: netip.MustParseAddr("127.0.0.1")}, false},
	} {
		if got := tt.l.blocks(seedbed.MetadataAddr); got != tt.want {
			t.Errorf("%s: blocks = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestListenerHolder(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	for pid, comm := range map[string]string{"12": "nginx\n", "7": "other\n"} {
		if err := os.MkdirAll(filepath.Join(proc, pid, "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "comm"), []byte(comm), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("socket:[4711]", filepath.Join(proc, "12", "fd", "3")); err != nil {
		t.Fatal(err)
	}
	for want, l := range map[string]listener{
		"nginx (pid 12)": {inode: 4711}, "a process of uid 33 (only root can name it)": {inode: 1, uid: 33},
	} {
		if got := l.holder(proc).String(); got != want {
			t.Errorf("holder = %q, want %q", got, want)
		}
	}
}

// TestWatch: what is told of one bridge, for sequences of link messages.
func TestWatch(t *testing.T) {
	t.Parallel()
	aliased := func(typ netlink.HeaderType, family byte, index uint32, name, alias string, up bool) netlink.Message {
		b := make([]byte, unix.SizeofIfInfomsg)
		b[0] = family
		binary.NativeEndian.PutUint32(b[4:], index)
		if up {
			binary.NativeEndian.PutUint32(b[8:], unix.IFF_UP)
		}
		ae := netlink.NewAttributeEncoder()
		ae.String(unix.IFLA_IFNAME, name)
		ae.String(unix.IFLA_IFALIAS, alias)
		ae.Nested(unix.IFLA_LINKINFO, func(ae *netlink.AttributeEncoder) error {
			ae.String(unix.IFLA_INFO_KIND, "bridge")
			return nil
		})
		attrs, err := ae.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return netlink.Message{Header: netlink.Header{Type: typ}, Data: append(b, attrs...)}
	}
	msg := func(typ netlink.HeaderType, family byte, index uint32, name string, up bool) netlink.Message {
		return aliased(typ, family, index, name, "seedbed:default@1234", up)
	}
	const add, del = unix.RTM_NEWLINK, unix.RTM_DELLINK
	for _, tt := range []struct {
		name string
		msgs []netlink.Message
		want []bool
	}{
		{"nothing new", []netlink.Message{msg(add, 0, 5, "br0", true)}, nil},
		{"removed", []netlink.Message{msg(del, 0, 5, "br0", true)}, []bool{false}},
		{"a port leaves", []netlink.Message{msg(del, unix.AF_BRIDGE, 5, "br0", true)}, nil},
		{"down and up", []netlink.Message{msg(add, 0, 5, "br0", false), msg(add, 0, 5, "br0", true)}, []bool{false, true}},
		{"replaced while nobody looked", []netlink.Message{msg(add, 0, 6, "br0", true)}, []bool{false, true}},
		{"replaced by somebody's own", []netlink.Message{msg(del, 0, 5, "br0", true), aliased(add, 0, 6, "br0", "", true)}, []bool{false}},
		{"somebody's own, then one of ours", []netlink.Message{aliased(add, 0, 6, "br0", "lan", true), msg(add, 0, 7, "br0",
			true)}, []bool{false, true}},
		{"made ours while it is up", []netlink.Message{aliased(add, 0, 6, "br0", "", true), msg(add, 0, 6, "br0", true)}, []bool{false, true}},
		{"an older one removed", []netlink.Message{msg(del, 0, 4, "br0", true)}, nil},
		{"renamed", []netlink.Message{msg(add, 0, 5, "br1", true)}, []bool{false}},
		{"another interface", []netlink.Message{msg(add, 0, 9, "eth0", true), msg(del, 0, 9, "eth0", true)}, nil},
		{"cut off", []netlink.Message{{Data: []byte{0, 1, 2}}, {}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []bool
			w := &watch{bridges: []string{"br0"}, index: map[string]uint32{"br0": 5}, told: map[string]bool{"br0": true},
				fn: func(_ string, up bool) { got = append(got, up) }}
			for _, m := range tt.msgs {
				w.event(m)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("told (-want +got):\n%s", d)
			}
		})
	}
}

// FuzzKernelMessages: what the kernel sends is bounded by what it says of itself.
func FuzzKernelMessages(f *testing.F) {
	f.Add(make([]byte, unix.SizeofIfInfomsg))
	f.Add(make([]byte, diagMsgSize))
	f.Add([]byte{2, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 10, 0, 2, 0, 1, 2, 3, 4, 5, 6, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		parseLink(b)
		parseNeigh(b)
		parseListener(b)
		parseAddr(b)
		parseGeneration(b)
	})
}

// TestMisread: a network that this version does not understand is left out with all that its guests have, and the others are not.
func TestMisread(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*seedbed.Network)
		want   string // part of the reason
	}{
		{"kind of a later version", func(n *seedbed.Network) { n.Kind = "later" }, "later"},
		{"network without a name", func(n *seedbed.Network) { n.Name = "" }, "network name"},
		{"bridge name too long", func(n *seedbed.Network) { n.Bridge = "sixteen-letters-" }, "is not an interface name"},
		{"bridge name with a slash", func(n *seedbed.Network) { n.Bridge = "../conf" }, "is not an interface name"},
		{"multicast MAC", func(n *seedbed.Network) { n.MAC[0] = 1 }, "not a unicast address"},
		{"no MAC", func(n *seedbed.Network) { n.MAC = seedbed.MAC{} }, "not a unicast address"},
		{"prefix with host bits", func(n *seedbed.Network) { n.Prefix = netip.MustParsePrefix("10.213.0.1/24") }, "not usable"},
		{"IPv6 prefix", func(n *seedbed.Network) { n.Prefix = netip.MustParsePrefix("fd00::/64") }, "not usable"},
		{"no prefix", func(n *seedbed.Network) { n.Prefix = netip.Prefix{} }, "it has no prefix"},
		{"prefix with the metadata address", func(n *seedbed.Network) { n.Prefix = netip.MustParsePrefix("169.254.0.0/16") },
			"link-local"},
		{"gateway outside", func(n *seedbed.Network) { n.Gateway = netip.MustParseAddr("10.0.0.1") }, "gateway"},
		{"gateway is the broadcast address", func(n *seedbed.Network) { n.Gateway = netip.MustParseAddr("10.213.0.255") }, "gateway"},
		{"IPv6 DNS", func(n *seedbed.Network) { n.DNS = []netip.Addr{netip.IPv6Loopback()} }, "DNS server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bad, lab := testNetwork(), testNetwork()
			bad.Kind, lab.Kind = seedbed.NetworkNAT, seedbed.NetworkNAT
			bad.Peers = []string{"lab"}
			lab.Name, lab.Bridge, lab.MAC[5], lab.Peers = "lab", "seedbed1", 9, []string{bad.Name}
			lab.Prefix, lab.Gateway = netip.MustParsePrefix("10.214.0.0/24"), netip.MustParseAddr("10.214.0.1")
			tt.change(&bad)
			port, other := testPort(), testPort()
			port.Bridge, port.Forwards = bad.Bridge, []seedbed.Forward{{Listen: seedbed.Listen{Protocol: "tcp", First: 2222, Last: 2222}, Port: 22}}
			port.Secondary = []netip.Addr{netip.MustParseAddr("10.213.0.10")}
			other.Tap, other.MAC[5], other.Addr, other.Bridge = "sb2", 2, netip.MustParseAddr("10.214.0.9"), lab.Bridge
			peers := []Peer{{MAC: seedbed.MAC{2, 0, 0, 0, 0, 7}, Addr: netip.MustParseAddr("10.213.0.7"), Bridge: bad.Bridge,
				Groups: []string{"web"}}}
			p, err := newPlan(lists{Networks: []seedbed.Network{bad, lab}, Ports: []Port{port, other}, Peers: peers}.state(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			third := port
			third.Tap = "sb3"
			changed, err := p.with(Diff{Gone: []string{"sb9"}, Ports: []Port{third}})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range []*plan{p, changed} {
				out, left := p.withoutForeign(map[string]link{}, nil, nil)
				if len(left.Networks) != 1 || !errors.Is(left, seedbed.ErrConflict) || !strings.Contains(left.Error(), tt.want) ||
					!strings.Contains(left.Networks[bad.Name].Error(), "does not understand") {
					t.Errorf("left out: %v, want %q", left.Networks, tt.want)
				}
				if len(out.networks) != 1 || out.networks[0].Name != "lab" || len(out.ports) != 1 || out.ports[0].name() != "sb2" ||
					len(out.forwards)+len(out.secondaries)+len(out.peers) > 0 || len(out.peersOf(lab)) > 0 {
					t.Errorf("the plan has %v, %d ports, %d forwards, %d further addresses, %d peers", out.networks, len(out.ports), len(out.forwards),
						len(out.secondaries), len(out.peers))
				}
			}
		})
	}
	twin := testNetwork()
	twin.Name, twin.Gateway = "twin", netip.Addr{}
	if _, err := newPlan(lists{Networks: []seedbed.Network{testNetwork(), twin}}.state(), Options{}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("two networks with the same bridge: %v, want ErrInvalid", err)
	}
}

// TestAddrs6: it is Addr6, with a reservation and without, and without a prefix.
func TestAddrs6(t *testing.T) {
	t.Parallel()
	n := testNetwork()
	one, two := seedbed.MAC{2, 0, 0, 0, 0, 1}, seedbed.MAC{2, 0, 0, 0, 0, 2}
	n.Reservations = []seedbed.Reservation{{MAC: two, Addr: netip.MustParseAddr("10.213.0.9")},
		{MAC: one, Addr: netip.MustParseAddr("fd12:3456:789a:1::50")}}
	for _, p := range []netip.Prefix{netip.MustParsePrefix("fd12:3456:789a:1::/64"), {}} {
		n.Prefix6 = p
		of := addrs6(n)
		for _, mac := range []seedbed.MAC{one, two} {
			if got, want := of(mac), n.Addr6(mac); got != want || got.IsValid() != p.IsValid() {
				t.Errorf("with the prefix %s, %s has %s, want %s", p, mac, got, want)
			}
		}
	}
}
