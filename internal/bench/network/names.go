package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	resolver "seedbed/netcfg/dns"
)

const (
	// namedGuests is how many guests have names, and askers how many of them ask at a time, each from its own address.
	namedGuests = 1000
	askers      = 128
	askTime     = 3 * time.Second
	zone        = "lan.internal"
)

var askedAt = netip.MustParseAddrPort("127.0.0.1:53")

// guestNames are the names guest0 to guest999.
type guestNames map[string][]netip.Addr

func (g guestNames) Addrs(name string) ([]netip.Addr, bool) { a, ok := g[name]; return a, ok }
func (g guestNames) Name(netip.Addr) (name string, ok bool) { return "", false }
func (g guestNames) Host(_, _ string) ([]netip.Addr, bool)  { return nil, false }

func guestAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, byte(i >> 8), byte(i)}) }

// resolve answers for the guests on the loopback interface until ctx ends (the measured process).
func resolve(ctx context.Context) error {
	names := guestNames{}
	for i := range namedGuests {
		names[fmt.Sprintf("guest%d", i)] = []netip.Addr{guestAddr(i)}
	}
	s := resolver.New(resolver.Config{Zone: resolver.Zone{Domain: zone, Prefixes: []netip.Prefix{lan.Prefix},
		Gateways: []netip.Addr{lan.Gateway}, Names: names},
		Counts: &resolver.Counts{}})
	return s.Serve(ctx, "lo", askedAt)
}

// dnsmasq returns the command that answers for the same guests.
func dnsmasq(ctx context.Context) *exec.Cmd {
	args := []string{"--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root", "--pid-file=",
		"--listen-address=127.0.0.1", "--bind-interfaces", "--log-facility=/dev/null", "--local=/" + zone + "/", "--local-ttl=60"}
	for i := range namedGuests {
		args = append(args, fmt.Sprintf("--host-record=guest%d.%s,%s", i, zone, guestAddr(i)))
	}
	return exec.CommandContext(ctx, "dnsmasq", args...)
}

// queries says how many queries a second one of the two answers, in a namespace of its own.
func queries(ctx context.Context, own bool, out io.Writer) error {
	if err := exec.CommandContext(ctx, "ip", "link", "set", "lo", "up").Run(); err != nil {
		return fmt.Errorf("ip link set lo up: %w", err)
	}
	cmd := dnsmasq(ctx)
	if own {
		cmd = exec.CommandContext(ctx, "/proc/self/exe", "-part", "resolver")
	}
	return beside(cmd, func() error {
		if err := answers(ctx); err != nil {
			return err
		}
		n, err := askAll()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, float64(n)/askTime.Seconds())
		return err
	})
}

// beside measures while a server runs.
func beside(server *exec.Cmd, measure func() error) error {
	var said strings.Builder
	server.Stderr, server.SysProcAttr = &said, &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := server.Start(); err != nil {
		return err
	}
	err := measure()
	_ = server.Process.Kill() // and how it then ends says nothing
	_ = server.Wait()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", server.Path, err, said.String())
	}
	return nil
}

// answers waits until the resolver answers.
func answers(ctx context.Context) error {
	err := errors.New("not asked yet")
	for range 100 {
		var m *dns.Msg
		c := dns.Client{Timeout: 100 * time.Millisecond}
		if m, _, err = c.ExchangeContext(ctx, new(dns.Msg).SetQuestion("guest7."+zone+".", dns.TypeA), askedAt.String()); err == nil {
			if len(m.Answer) != 1 {
				return fmt.Errorf("it said %v", m)
			}
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// askAll returns how many queries are answered in askTime. Each asker sends the next when it has the answer to the one
// before; one that gets none fails.
func askAll() (int64, error) {
	var total atomic.Int64
	var group sync.WaitGroup
	failed := make(chan error, askers)
	end := time.Now().Add(askTime)
	for i := range askers {
		group.Go(func() {
			n, err := askOn(i, end)
			if err != nil {
				failed <- fmt.Errorf("asker %d: %w", i, err)
			}
			total.Add(n)
		})
	}
	group.Wait()
	select {
	case err := <-failed:
		return 0, err
	default:
		return total.Load(), nil
	}
}

func askOn(i int, end time.Time) (n int64, err error) {
	from := &net.UDPAddr{IP: net.IPv4(127, 0, byte(1+i>>8), byte(i))}
	conn, err := net.DialUDP("udp4", from, net.UDPAddrFromAddrPort(askedAt))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(end.Add(time.Second)); err != nil {
		return 0, err
	}
	query, err := new(dns.Msg).SetQuestion(fmt.Sprintf("guest%d.%s.", i, zone), dns.TypeA).Pack()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 512)
	for ; time.Now().Before(end); n++ {
		if _, err := conn.Write(query); err != nil {
			return n, err
		}
		got, err := conn.Read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return n, errors.New("an answer did not come")
		case err != nil:
			return n, err
		case got < 12 || buf[7] != 1: // the number of answers (RFC 1035 4.1.1)
			return n, fmt.Errorf("it was told %x", buf[:got])
		}
	}
	return n, nil
}
