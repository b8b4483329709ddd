//go:build integration

package netcfg

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// frr is FRR with EVPN on a node, whose only neighbour is the other one. It ends with the test. It runs in the namespace of in.
func frr(t *testing.T, in func(func()), own, other netip.Addr) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "frr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := fmt.Sprintf(`router bgp 65000
 bgp router-id %s
 no bgp default ipv4-unicast
 neighbor %[2]s remote-as 65000
 neighbor %[2]s timers connect 1
 address-family l2vpn evpn
  neighbor %[2]s activate
  advertise-all-vni
 exit-address-family
`, own, other)
	for name, text := range map[string]string{"bgpd.conf": config, "zebra.conf": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	as, err := user.Lookup("frr")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(as.Uid)
	gid, _ := strconv.Atoi(as.Gid)
	for _, d := range []string{dir, "/run/frr"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"zebra", "bgpd"} {
		cmd := exec.Command("/usr/lib/frr/"+program, "-u", "frr", "-g", "frr", "-z", dir+"/zserv.api", "-i", dir+"/"+program+".pid",
			"--vty_socket", dir, "-f", dir+"/"+program+".conf", "-P", "0", "--log", "stdout")
		out := &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = out, out
		cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
		in(func() { err = cmd.Start() })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Signal(unix.SIGTERM)
			cmd.Wait()
			if t.Failed() {
				t.Logf("%s said:\n%s", program, out)
			}
		})
		for end := time.Now().Add(patience); program == "zebra"; time.Sleep(50 * time.Millisecond) {
			if _, err := os.Stat(dir + "/zserv.api"); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("zebra does not come up:\n%s", out)
			}
		}
	}
}

// daemons runs FRR on both nodes.
func (s *site) daemons(t *testing.T) {
	t.Helper()
	here := make(chan func())
	done := make(chan struct{})
	go func() { // a thread that lives as long as the test: the daemons end with it
		defer close(done)
		runtime.LockOSThread()
		for f := range here {
			f()
		}
	}()
	t.Cleanup(func() { close(here); <-done })
	frr(t, func(f func()) {
		ready := make(chan struct{})
		here <- func() { defer close(ready); f() }
		<-ready
	}, nodeA, nodeB)
	frr(t, s.far.Do, nodeB, nodeA)
}

// TestEVPNPeers: a daemon tells of the addresses of guests that their nodes have heard of, and those of overlays that are peers reach
// each other.
func TestEVPNPeers(t *testing.T) {
	s := newJoinedSite(t, [2]seedbed.NetworkKind{seedbed.NetworkNAT, seedbed.NetworkIsolated})
	s.aOptions.Overlay.Daemon, s.bOptions.Overlay.Daemon = true, true
	s.peer(t, true)
	s.boot(t, 3, 5)
	s.daemons(t)
	for n, gateway := range map[byte]netip.Addr{3: s.a.Networks[0].Gateway, 5: s.a.Networks[1].Gateway} {
		if !answers(true, s.guests[n], gateway.String()) {
			t.Errorf("the gateway of guest %d does not answer", n)
		}
	}
	if !answers(true, s.guests[3], joinedAddr(5).String()) {
		t.Errorf("a guest of a peer does not answer:\n%s", netnstest.Run(t, "ip", "neigh", "show", "dev", "sb-deep"))
	}
	ask(t, "a guest of a peer", s.guests[3], joinedAddr(5).String()+":8080", joinedAddr(3).String()+" mark 0")
	ask(t, "back", s.guests[5], joinedAddr(3).String()+":8080", joinedAddr(5).String()+" mark 0")
}

// TestEVPN: with an EVPN daemon on the nodes, that says where guests of other nodes are. What it wrote stays, and what
// comes from strangers is dropped as ever.
func TestEVPN(t *testing.T) {
	s := newSite(t, seedbed.NetworkIsolated)
	s.a.Ports, s.b.Ports = []Port{overlayPort(3), overlayPort(4)}, []Port{overlayPort(5)}
	s.a.Peers, s.b.Peers = []Peer{overlayPeer(5, nodeB)}, []Peer{overlayPeer(3, nodeA), overlayPeer(4, nodeA)}
	s.apply(t)
	g3, g5 := s.guest(t, 3, false), s.guest(t, 5, true)
	ask(t, "without a daemon", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")

	// The nodes leave it to a daemon, which is not there yet.
	s.aOptions.Overlay.Daemon, s.bOptions.Overlay.Daemon = true, true
	s.apply(t)
	link := uplinkPrefix + linkDigits("sb-wide")
	if known := strings.TrimSpace(knownOf(t, link)); known != "" {
		t.Errorf("what the nodes had written stays:\n%s", known)
	}
	g3.Run(t, "ip", "neigh", "flush", "dev", "eth0")
	ask(t, "before the daemon is there", g3, "10.81.0.5:8080", "")

	s.daemons(t)
	arrives := func(what string, from *netnstest.Namespace, to string) {
		t.Helper()
		var out string
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			from.Do(func() {
				b, _ := exec.Command("ping", "-c1", "-W1", to).CombinedOutput()
				out = string(b)
			})
			if strings.Contains(out, "1 received") {
				return
			}
		}
		t.Errorf("%s: %s\n%s", what, out, netnstest.Run(t, "bridge", "fdb", "show", "dev", link))
	}
	arrives("a guest of the other node, by the daemon", g3, "10.81.0.5")
	learned := func() string {
		var lines []string
		for line := range strings.Lines(netnstest.Run(t, "bridge", "fdb", "show", "dev", link)) {
			if strings.Contains(line, "dst 192.0.2.2") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return strings.Join(lines, "\n")
	}
	whole := learned()
	for end := time.Now().Add(patience); !strings.Contains(whole, overlayMAC(5).String()) && time.Now().Before(end); whole = learned() {
		time.Sleep(50 * time.Millisecond)
	}
	if !strings.Contains(whole, "00:00:00:00:00:00 dst 192.0.2.2") || !strings.Contains(whole, overlayMAC(5).String()+" dst 192.0.2.2") {
		t.Errorf("the daemon wrote:\n%s", whole)
	}
	netnstest.Run(t, "ip", "neigh", "add", "10.81.0.99", "lladdr", "02:00:00:00:00:99", "dev", "sb-wide", "nud", "noarp", "extern_learn")
	for what, again := range map[string]func() error{
		"Restore": func() error { return s.here.Restore(t.Context()) },
		"Verify":  func() error { return s.here.Verify(t.Context()) },
		"Change": func() error {
			return s.here.Change(t.Context(), Diff{GonePeers: []seedbed.MAC{overlayMAC(5)}, Peers: []Peer{overlayPeer(5, nodeB)}})
		},
		"Apply": func() error { return s.here.Apply(t.Context(), s.a.state(), s.aOptions) },
	} {
		if err := again(); err != nil {
			t.Fatal(err)
		}
		if now := learned(); now != whole {
			t.Errorf("after %s, the kernel knows\n%s\nand not\n%s", what, now, whole)
		}
	}
	if out := netnstest.Run(t, "ip", "neigh", "show", "10.81.0.99", "dev", "sb-wide"); !strings.Contains(out, "extern_learn") {
		t.Errorf("a neighbour that a daemon wrote is %q", out)
	}
	ask(t, "a guest of the other node, in the end", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")
	arrives("a guest of this node", g5, "10.81.0.3")

	// Who is not a node sends nothing into the overlay, whatever the daemon says.
	s.far.Run(t, "ip", "addr", "add", "192.0.2.66/24", "dev", "eth0")
	good := udpFrame(overlayMAC(5), overlayMAC(3), overlayAddr(5), overlayAddr(3))
	for from, want := range map[netip.Addr]bool{nodeB: true, netip.MustParseAddr("192.0.2.66"): false} {
		within := 300 * time.Millisecond
		if want {
			within = patience
		}
		if got := receives(t, g3, within, func() {
			var err error
			s.far.Do(func() { err = sendVXLAN(from, nodeA, testVNI, good) })
			if err != nil {
				t.Fatal(err)
			}
		}); got != want {
			t.Errorf("a frame from %s arrives: %t", from, got)
		}
	}
}
