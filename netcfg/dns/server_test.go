package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// resolver is another resolver, on a port of its own.
type resolver struct {
	addr  netip.AddrPort
	asked atomic.Int32
}

// listen listens at a port that is free for both UDP and TCP.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for {
		pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp4", pc.LocalAddr().String())
		if err == nil {
			return pc, ln
		}
		pc.Close()
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// newResolver starts a resolver by UDP and TCP that answers with what answer returns; nil is no answer.
func newResolver(t *testing.T, answer func(*dns.Msg) *dns.Msg) *resolver {
	t.Helper()
	pc, ln := listen(t)
	r := &resolver{addr: pc.LocalAddr().(*net.UDPAddr).AddrPort()}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) {
		r.asked.Add(1)
		if m := answer(req); m != nil {
			_ = w.WriteMsg(m) // the test sees what did not come
		}
	})
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: handler}, {Listener: ln, Handler: handler}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go s.ActivateAndServe()
		<-started
		t.Cleanup(func() { s.Shutdown() })
	}
	return r
}

// knows answers every question with an address.
func knows(addr string) func(*dns.Msg) *dns.Msg {
	return func(req *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(req)
		m.RecursionAvailable = true
		m.Answer = append(m.Answer, &dns.A{Hdr: header(req.Question[0].Name, dns.TypeA, 9), A: net.ParseIP(addr)})
		return m
	}
}

func fails(rcode int) func(*dns.Msg) *dns.Msg {
	return func(req *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(req, rcode) }
}

func silent(*dns.Msg) *dns.Msg { return nil }

// forges answers another question.
func forges(req *dns.Msg) *dns.Msg {
	req.Question[0].Name = "bank.example."
	return knows("192.0.2.66")(req)
}

func forwarderTo(all ...*resolver) *Forwarder {
	var addrs []netip.AddrPort
	for _, r := range all {
		addrs = append(addrs, r.addr)
	}
	return NewForwarder(addrs, "")
}

func TestExchange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		resolvers []func(*dns.Msg) *dns.Msg
		want      string
	}{
		{"the first answers", []func(*dns.Msg) *dns.Msg{knows("192.0.2.1"), knows("192.0.2.2")}, "NOERROR, A 192.0.2.1"},
		{"the first is silent", []func(*dns.Msg) *dns.Msg{silent, knows("192.0.2.2")}, "NOERROR, A 192.0.2.2"},
		{"the first fails", []func(*dns.Msg) *dns.Msg{fails(dns.RcodeServerFailure), knows("192.0.2.2")}, "NOERROR, A 192.0.2.2"},
		{"the first refuses", []func(*dns.Msg) *dns.Msg{fails(dns.RcodeRefused), knows("192.0.2.2")}, "NOERROR, A 192.0.2.2"},
		{"the first answers another question", []func(*dns.Msg) *dns.Msg{forges, knows("192.0.2.2")}, "NOERROR, A 192.0.2.2"},
		{"there is no such name", []func(*dns.Msg) *dns.Msg{fails(dns.RcodeNameError), knows("192.0.2.2")}, "NXDOMAIN"},
		{"all refuse", []func(*dns.Msg) *dns.Msg{fails(dns.RcodeRefused), fails(dns.RcodeRefused)}, "REFUSED"},
		{"one refuses, one is silent", []func(*dns.Msg) *dns.Msg{fails(dns.RcodeRefused), silent}, "REFUSED"},
	} {
		for _, tcp := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/tcp %t", c.name, tcp), func(t *testing.T) {
				t.Parallel()
				var all []*resolver
				for _, r := range c.resolvers {
					all = append(all, newResolver(t, r))
				}
				req := ask("Example.org.", dns.TypeA)
				reply, err := forwarderTo(all...).exchange(t.Context(), req, tcp)
				if err != nil || said(reply) != c.want || reply.Id != req.Id || reply.Question[0] != req.Question[0] {
					t.Errorf("%v, %v, want %s", reply, err, c.want)
				}
			})
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	if reply, err := forwarderTo(newResolver(t, silent)).exchange(t.Context(), ask("example.org.", dns.TypeA), false); err == nil {
		t.Errorf("a silent resolver: %v", reply)
	}
	if reply, err := forwarderTo(newResolver(t, forges)).exchange(t.Context(), ask("example.org.", dns.TypeA), false); err == nil {
		t.Errorf("an answer to another question: %v", reply)
	}
	f := NewForwarder(nil, filepath.Join(t.TempDir(), "none"))
	if reply, err := f.exchange(t.Context(), ask("example.org.", dns.TypeA), false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v, %v", reply, err)
	}
	f = forwarderTo(newResolver(t, knows("192.0.2.1")))
	for range maxForwards {
		f.slots <- struct{}{}
	}
	if reply, err := f.exchange(t.Context(), ask("example.org.", dns.TypeA), false); !errors.Is(err, errBusy) {
		t.Errorf("too many at a time: %v, %v", reply, err)
	}
}

// TestQuestion: the node's resolvers learn nothing of the guest but its question.
func TestQuestion(t *testing.T) {
	t.Parallel()
	req := ask("example.org.", dns.TypeA).SetEdns0(4096, true)
	req.IsEdns0().Option = append(req.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"})
	req.CheckingDisabled = true
	got := question(req)
	opt := got.IsEdns0()
	if opt == nil || len(opt.Option) != 0 || !opt.Do() || opt.UDPSize() != maxUDP || !got.CheckingDisabled || !got.RecursionDesired {
		t.Errorf("asked with %v", got)
	}
	plain := ask("example.org.", dns.TypeA)
	reply := knows("192.0.2.1")(plain).SetEdns0(4096, false)
	if back(reply, plain).IsEdns0() != nil {
		t.Error("a client without EDNS was answered with it")
	}
}

// TestResolvConf: the file is read again when it has changed.
func TestResolvConf(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := NewForwarder(nil, file)
	servers := func() string {
		f.looked = time.Time{}
		all, err := f.Servers()
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(all)
	}
	write("search example.org\nnameserver 127.0.0.53\nnameserver bad\nnameserver fe80::1%eth0\nnameserver 192.0.2.1\n")
	if got, want := servers(), "[127.0.0.53:53 [fe80::1%eth0]:53 192.0.2.1:53]"; got != want {
		t.Errorf("servers %s, want %s", got, want)
	}
	write("nameserver 192.0.2.9\n")
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, want := servers(), "[192.0.2.9:53]"; got != want {
		t.Errorf("servers %s, want %s", got, want)
	}
	write("search example.org\n")
	if got := servers(); !strings.Contains(got, "lists no resolver") {
		t.Errorf("servers %s", got)
	}
}

// serve serves on the loopback interface, at a free port.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().(*net.TCPAddr).AddrPort()
	ln.Close()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, "lo", addr) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for range 500 {
		if c, err := net.Dial("tcp4", addr.String()); err == nil {
			c.Close()
			return addr.String()
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it does not serve")
	return ""
}

func TestServe(t *testing.T) {
	t.Parallel()
	var many guests = map[string][]string{"many": nil}
	for i := range 60 {
		many["many"] = append(many["many"], fmt.Sprintf("10.80.16.%d", 100+i))
	}
	other := newResolver(t, knows("192.0.2.1"))
	s := testServer(forwarderTo(other))
	s.Names = many
	addr := serve(t, s)
	exchange := func(network string, m *dns.Msg) *dns.Msg {
		t.Helper()
		reply, _, err := (&dns.Client{Net: network, UDPSize: 4096}).Exchange(m, addr)
		if err != nil {
			t.Fatalf("%s: %v", network, err)
		}
		return reply
	}
	if m := exchange("udp", ask("many.lab.internal.", dns.TypeA)); !m.Truncated || len(m.Answer) == 0 || len(m.Answer) == 60 {
		t.Errorf("a small client got %d answers, truncated: %t", len(m.Answer), m.Truncated)
	}
	if m := exchange("udp", ask("many.lab.internal.", dns.TypeA).SetEdns0(4096, false)); m.Truncated || len(m.Answer) != 60 {
		t.Errorf("%d answers, truncated: %t", len(m.Answer), m.Truncated)
	}
	if m := exchange("tcp", ask("many.lab.internal.", dns.TypeA)); m.Truncated || len(m.Answer) != 60 {
		t.Errorf("%d answers by TCP, truncated: %t", len(m.Answer), m.Truncated)
	}
	for _, network := range []string{"udp", "tcp"} {
		if m := exchange(network, ask("example.org.", dns.TypeA)); said(m) != "NOERROR, A 192.0.2.1" {
			t.Errorf("%s: %v", network, m)
		}
	}
	conn, err := net.Dial("udp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, junk := range [][]byte{{}, {1}, make([]byte, 11), append(make([]byte, 12), 0xff), []byte(strings.Repeat("\xc0\x0c", 600))} {
		if _, err := conn.Write(junk); err != nil {
			t.Fatal(err)
		}
	}
	loop := ask("many.lab.internal.", dns.TypeA)
	loop.Response = true
	b, err := loop.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
	if m := exchange("udp", ask("example.org.", dns.TypeA)); m.Rcode != dns.RcodeSuccess {
		t.Errorf("after junk: %v", m)
	}
	if n := s.Counts.Malformed.Load(); n < 5 {
		t.Errorf("%d malformed queries were counted", n)
	}
}
