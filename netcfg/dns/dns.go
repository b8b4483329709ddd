// Package dns is the resolver of the guests on one bridge (RFC 1034, RFC 1035). It answers for the names and addresses of
// their network, and asks the node's own resolvers for everything else, without a cache. It must run behind filters that
// verify the source address of a query, and set the mark of its NIC: that is what bounds how much a guest may ask.
package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"seedbed/internal/ifbind"
)

// Names are the names of a network's guests.
type Names interface {
	// Addrs returns the addresses of a name without the network's domain, in lower case: of a guest (web1), or a guest of
	// another project than the network's (web1.shop). It returns true and no addresses for a name that only has names below
	// it (shop), and false if there is no such name. It must be quick.
	Addrs(name string) ([]netip.Addr, bool)
	// Name returns the name of the guest that has an address, without the domain. It must be quick.
	Name(addr netip.Addr) (string, bool)
	// Host returns the addresses of a guest of a project, also if the network is another project's. It returns false if there
	// is no such guest. It must be quick.
	Host(name, project string) ([]netip.Addr, bool)
}

// Zone is the names and addresses of one network.
type Zone struct {
	// Domain is that of the network, without a final dot.
	Domain string
	// Prefixes are the subnets of the guests, an IPv4 and an IPv6 one. The domain itself has the addresses Gateways. One that
	// is not valid does not count.
	Prefixes []netip.Prefix
	Gateways []netip.Addr
	Names    Names
	// SharedPrefix and SharedDomain report whether the prefix and the domain also have other hosts, whose names other
	// resolvers know. The server then answers only about guests.
	SharedPrefix, SharedDomain bool
}

// Config is what a server answers.
type Config struct {
	Zone
	// Others returns the further networks of the guest that has an address: a guest sends the queries about all of its
	// networks by one of them. It may be nil, and must be quick.
	Others func(netip.Addr) []Zone
	// Forwarder answers what is not about the network. Without one, such queries are refused.
	Forwarder *Forwarder
	// Counts counts the queries of this and other servers.
	Counts *Counts
}

// Counts are numbers of queries by what became of them.
type Counts struct {
	// Answered were about the network, Forwarded were answered by the node's resolvers, and Failed should have been.
	// Refused ask for what is not answered here, Limited came too fast, and Malformed are no queries.
	Answered, Forwarded, Failed, Refused, Limited, Malformed atomic.Int64
}

// Server answers the guests of one network.
type Server struct {
	Config
	clients clients
}

// New returns a server that can serve on several addresses.
func New(c Config) *Server {
	return &Server{Config: c, clients: clients{of: map[who]*client{}}}
}

const (
	// maxUDP is the largest answer by UDP, in bytes, which no path fragments (the DNS Flag Day 2020).
	maxUDP = 1232
	// tcpIdle is how long a connection may be idle, and tcpTime how long a query may take to come,
	// or an answer to go.
	tcpIdle = 10 * time.Second
	tcpTime = 5 * time.Second
)

// Serve answers by UDP and TCP at an address of the interface until ctx ends, and then returns nil. It needs CAP_NET_RAW
// and CAP_NET_BIND_SERVICE. If the interface is removed, it must be called again.
func (s *Server) Serve(ctx context.Context, iface string, addr netip.AddrPort) error {
	lc := ifbind.ListenConfig(iface)
	bind := lc.Control
	lc.Control = func(network, address string, raw syscall.RawConn) error {
		var inner error
		err := raw.Control(func(fd uintptr) {
			if inner = ifbind.ReceiveMarks(fd); errors.Is(inner, unix.ENOPROTOOPT) || errors.Is(inner, unix.EPERM) {
				inner = nil // see who
			}
		})
		return errors.Join(err, inner, bind(network, address, raw))
	}
	udp, stream := "udp4", "tcp4"
	if addr.Addr().Is6() {
		udp, stream = "udp6", "tcp6"
	}
	pc, err := lc.ListenPacket(ctx, udp, addr.String())
	if err != nil {
		return fmt.Errorf("serve DNS on %s: %w", iface, err)
	}
	defer pc.Close()
	var batched batchConn = ipv4.NewPacketConn(pc)
	if addr.Addr().Is6() {
		batched = ipv6.NewPacketConn(pc)
	}
	ln, err := lc.Listen(ctx, stream, addr.String())
	if err != nil {
		return fmt.Errorf("serve DNS on %s: %w", iface, err)
	}
	defer ln.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tcp := &dns.Server{Listener: &boundedListener{Listener: ln, ctx: ctx, clients: &s.clients},
		Handler: dns.HandlerFunc(s.handleTCP(ctx)), ReadTimeout: tcpTime, IdleTimeout: func() time.Duration { return tcpIdle }}
	stop := context.AfterFunc(ctx, func() {
		pc.Close()
		ln.Close()
		_ = tcp.Shutdown() // it had not started, or had ended
	})
	defer stop()
	ended := make(chan error, 2)
	var both sync.WaitGroup
	both.Go(func() { ended <- s.serveUDP(ctx, pc.(*net.UDPConn), batched) })
	both.Go(func() { ended <- tcp.ActivateAndServe() })
	err = <-ended
	done := ctx.Err() != nil
	cancel()
	both.Wait()
	if done {
		return nil
	}
	return fmt.Errorf("serve DNS on %s: %w", iface, err)
}

// batch is how many queries are read with one system call, and answered with another, if so many have come.
const batch = 8

// batchConn is the part of [ipv4.PacketConn] and [ipv6.PacketConn] that reads and writes several datagrams at once.
type batchConn interface {
	ReadBatch([]ipv4.Message, int) (int, error)
	WriteBatch([]ipv4.Message, int) (int, error)
}

// serveUDP answers what is about the network by itself, in the order of its arrival.
func (s *Server) serveUDP(ctx context.Context, conn *net.UDPConn, batched batchConn) error {
	var forwarding sync.WaitGroup
	defer forwarding.Wait()
	in, out, buffers := make([]ipv4.Message, batch), make([]ipv4.Message, 0, batch), [batch][]byte{}
	for i := range in { // longer queries are cut, and do not parse
		in[i].Buffers, in[i].OOB, buffers[i] = [][]byte{make([]byte, 2048)}, make([]byte, 64), make([]byte, maxUDP)
	}
	for {
		n, err := batched.ReadBatch(in, 0)
		if err != nil {
			return err
		}
		out = out[:0]
		for _, m := range in[:n] {
			from := m.Addr.(*net.UDPAddr).AddrPort()
			client := s.clients.get(whose(ifbind.MarkOf(m.OOB[:m.NN]), from.Addr()))
			if !client.allow(time.Now()) {
				s.Counts.Limited.Add(1)
				continue
			}
			req := new(dns.Msg)
			if err := req.Unpack(m.Buffers[0][:m.N]); err != nil || req.Response {
				s.Counts.Malformed.Add(1) // an answer to an answer would never end
				continue
			}
			reply, local := s.answer(from.Addr(), req)
			if local {
				if b, err := pack(req, reply, buffers[len(out)]); err == nil {
					out = append(out, ipv4.Message{Buffers: [][]byte{b}, Addr: m.Addr})
				}
				continue
			}
			if !client.begin(false) {
				s.Counts.Limited.Add(1)
				continue
			}
			forwarding.Go(func() {
				defer client.end()
				if b, err := pack(req, s.forward(ctx, req, false), nil); err == nil {
					_, _ = conn.WriteToUDPAddrPort(b, from)
				}
			})
		}
		sendAll(batched, out)
	}
}

// sendAll sends answers. One that cannot be sent is as one that is lost: the client asks again.
func sendAll(conn batchConn, out []ipv4.Message) {
	for len(out) > 0 {
		n, err := conn.WriteBatch(out, 0)
		if err != nil || n == 0 {
			n = max(n, 0) + 1 // the first of the rest is what fails
		}
		out = out[min(n, len(out)):]
	}
}

// pack returns the bytes of a reply, cut to what the client takes. They may be in buf.
func pack(req, reply *dns.Msg, buf []byte) ([]byte, error) {
	size := dns.MinMsgSize
	if opt := req.IsEdns0(); opt != nil {
		size = min(max(size, int(opt.UDPSize())), maxUDP)
	}
	b, err := reply.PackBuffer(buf)
	if err == nil && len(b) > size {
		reply.Truncate(size)
		b, err = reply.PackBuffer(buf)
	}
	return b, err
}

// handleTCP returns the handler of one query by TCP. ctx ends with the server.
func (s *Server) handleTCP(ctx context.Context) func(dns.ResponseWriter, *dns.Msg) {
	return func(w dns.ResponseWriter, req *dns.Msg) {
		from := w.RemoteAddr().(clientAddr)
		client := from.of
		if !client.allow(time.Now()) {
			s.Counts.Limited.Add(1)
			w.Close()
			return
		}
		reply, local := s.answer(from.addr, req)
		if !local {
			if !client.begin(true) {
				s.Counts.Limited.Add(1)
				w.Close()
				return
			}
			reply = s.forward(ctx, req, true)
			client.end()
		}
		if err := w.WriteMsg(reply); err != nil {
			w.Close()
		}
	}
}

// forward returns the answer of the node's resolvers, or SERVFAIL.
func (s *Server) forward(ctx context.Context, req *dns.Msg, tcp bool) *dns.Msg {
	reply, err := s.Forwarder.exchange(ctx, req, tcp)
	if err != nil {
		s.Counts.Failed.Add(1)
		return replyTo(req, dns.RcodeServerFailure)
	}
	s.Counts.Forwarded.Add(1)
	return reply
}
