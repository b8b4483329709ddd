//go:build integration

package netcfg

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

func TestMain(m *testing.M) { os.Exit(netnstest.Main(m)) }

// patience is how long anything may take here that must come.
const patience = time.Minute

var (
	mac1 = seedbed.MAC{0x52, 0x54, 0, 0, 0, 1}
	mac2 = seedbed.MAC{0x52, 0x54, 0, 0, 0, 2}
	gw   = netip.MustParseAddr("10.77.0.1")
	ip1  = netip.MustParseAddr("10.77.0.11")
	ip2  = netip.MustParseAddr("10.77.0.12")
)

func network0() seedbed.Network {
	return seedbed.Network{
		Name: "default", Bridge: "seedbed0", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 1},
		Prefix: netip.MustParsePrefix("10.77.0.0/24"), Gateway: gw, NAT: true, DHCP: true,
	}
}

func state0() lists {
	return lists{
		Networks: []seedbed.Network{network0()},
		Ports: []Port{
			{Tap: "sb1", MAC: mac1, Addr: ip1, Mark: 101, Bridge: "seedbed0"},
			{Tap: "sb2", MAC: mac2, Addr: ip2, Mark: 102, Bridge: "seedbed0"},
		},
	}
}

// open gives a Manager whose traces are gone after the test.
func open(t *testing.T) *Manager {
	t.Helper()
	return openLog(t, io.Discard)
}

// lines keeps what was logged.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(b))
	return len(b), nil
}

// count is the number of lines with a text.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.text {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func openLog(t *testing.T, log io.Writer) *Manager {
	t.Helper()
	m, err := Open(slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Cleanup(context.Background(), true); err != nil {
			t.Error(err)
		}
		m.Close()
	})
	return m
}

func apply(t *testing.T, m *Manager, s lists, o Options) {
	t.Helper()
	if err := m.Apply(t.Context(), s.state(), o); err != nil {
		t.Fatal(err)
	}
}

// guest is a namespace on a bridge with an address and a default route.
func guest(t *testing.T, tap string, mac seedbed.MAC, ip netip.Addr) *netnstest.Namespace {
	t.Helper()
	n := netnstest.New(t)
	netnstest.Veth(t, tap, n, mac.String())
	netnstest.Run(t, "ip", "link", "set", tap, "master", "seedbed0")
	n.Run(t, "ip", "addr", "add", ip.String()+"/24", "dev", "eth0")
	n.Run(t, "ip", "route", "add", "default", "via", gw.String())
	return n
}

// ruleset is our tables with their handles, without counters and what the rules note themselves.
func ruleset(t *testing.T) string {
	t.Helper()
	out := netnstest.Run(t, "nft", "-a", "list", "table", "bridge", "seedbed") + netnstest.Run(t, "nft", "-a", "list",
		"table", "inet", "seedbed")
	noted := regexp.MustCompile(
		`(?s)\tset ((wire-)?(sources|sources4|newcomers)|dhcp-rates|call-rates|connections|fragment-rates|fragment-bytes|` +
			`flow[a-z0-9-]*|fragmented[a-z0-9-]*) \{.*?\n\t\}\n`)
	out = noted.ReplaceAllString(out, "")
	return regexp.MustCompile(`packets \d+ bytes \d+`).ReplaceAllString(out, "")
}

// serve answers each connection on addr with its mark and the caller's address.
func serve(t *testing.T, addr string) {
	t.Helper()
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l)
}

func serveOn(t *testing.T, l net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, answer(c))
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

func answer(c net.Conn) string {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return err.Error()
	}
	var mark int
	raw.Control(func(fd uintptr) { mark, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK) })
	if err != nil {
		return err.Error()
	}
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	host, _, _ = strings.Cut(host, "%")
	return host + " mark " + strconv.Itoa(mark)
}

// ask connects from the namespace and compares what the server says; "" wants that nothing answers.
func ask(t *testing.T, what string, n *netnstest.Namespace, addr, want string) {
	t.Helper()
	n.Do(func() { askHere(t, what, addr, want) })
}

func askHere(t *testing.T, what, addr, want string) {
	t.Helper()
	timeout := patience
	if want == "" {
		timeout = 400 * time.Millisecond
	}
	got := ""
	if c, err := net.DialTimeout("tcp", addr, timeout); err == nil {
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		b, _ := io.ReadAll(c)
		got = "connected " + string(b)
	}
	if want != "" {
		want = "connected " + want
	}
	if got != want {
		t.Errorf("%s (%s): %q, want %q", what, addr, got, want)
	}
}
