package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"seedbed"
)

const (
	// forwardTime is how long one resolver may take. The client's own time ends at five seconds (resolv.conf(5)), and at
	// most maxResolvers are asked until then.
	forwardTime  = 1500 * time.Millisecond
	maxResolvers = 3
	// maxForwards is how many queries are with the resolvers at a time.
	maxForwards = 4096
	// reread is how often the file of resolvers is looked at.
	reread = 2 * time.Second
)

// ResolvConf is the file that lists the node's resolvers (resolv.conf(5)).
const ResolvConf = "/etc/resolv.conf"

// Forwarder asks other resolvers. It is safe for concurrent use.
type Forwarder struct {
	file  string // empty if the resolvers are given
	slots chan struct{}

	mu      sync.Mutex
	servers []netip.AddrPort
	looked  time.Time
	changed time.Time // of the file
	err     error
}

// NewForwarder returns a forwarder to resolvers or, if there are none, to those that a file of the form of ResolvConf lists
// whenever it is asked.
func NewForwarder(resolvers []netip.AddrPort, file string) *Forwarder {
	f := &Forwarder{servers: resolvers, slots: make(chan struct{}, maxForwards)}
	if len(resolvers) == 0 {
		f.file = file
	}
	return f
}

// Servers returns the resolvers that are asked, in their order. It returns an error if there are none.
func (f *Forwarder) Servers() ([]netip.AddrPort, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == "" {
		return f.servers, nil
	}
	if now := time.Now(); now.Sub(f.looked) >= reread {
		f.looked = now
		f.read()
	}
	if f.err == nil && len(f.servers) == 0 {
		return nil, fmt.Errorf("%s lists no resolver but Seedbed's own", f.file)
	}
	return f.servers, f.err
}

// read reads the file if it has changed.
func (f *Forwarder) read() {
	info, err := os.Stat(f.file)
	if err != nil {
		f.servers, f.changed, f.err = nil, time.Time{}, err
		return
	}
	if info.ModTime().Equal(f.changed) {
		return
	}
	c, err := dns.ClientConfigFromFile(f.file)
	if err != nil {
		f.servers, f.changed, f.err = nil, time.Time{}, err
		return
	}
	f.servers, f.changed, f.err = nil, info.ModTime(), nil
	for _, s := range c.Servers {
		if a, err := netip.ParseAddr(s); err == nil && a != seedbed.ResolverAddr { // which is the node's own now
			f.servers = append(f.servers, netip.AddrPortFrom(a, 53))
		}
	}
	f.servers = f.servers[:min(len(f.servers), maxResolvers)]
}

var errBusy = errors.New("too many queries wait for an answer")

// exchange asks the resolvers in their order until one answers, by TCP if the client did. One that fails or refuses is
// believed only if no other answers.
func (f *Forwarder) exchange(ctx context.Context, req *dns.Msg, tcp bool) (*dns.Msg, error) {
	servers, err := f.Servers()
	if err != nil {
		return nil, err
	}
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		return nil, errBusy
	}
	c := dns.Client{Net: "udp", Timeout: forwardTime, UDPSize: maxUDP}
	if tcp {
		c.Net = "tcp"
	}
	var last *dns.Msg
	for _, server := range servers {
		var reply *dns.Msg
		if reply, _, err = c.ExchangeContext(ctx, question(req), server.String()); err != nil {
			continue
		}
		if !isAnswer(reply, req) {
			err = fmt.Errorf("%s answered another question", server)
			continue
		}
		last = reply
		if reply.Rcode != dns.RcodeServerFailure && reply.Rcode != dns.RcodeRefused {
			break
		}
	}
	if last == nil {
		return nil, err
	}
	return back(last, req), nil
}

// question returns a query as the node itself asks it. Of what the client says of itself (EDNS), only that it wants
// signatures is passed on.
func question(req *dns.Msg) *dns.Msg {
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Id: dns.Id(), RecursionDesired: req.RecursionDesired, CheckingDisabled: req.CheckingDisabled,
		AuthenticatedData: req.AuthenticatedData}, Question: slices.Clone(req.Question)}
	opt := req.IsEdns0()
	m.SetEdns0(maxUDP, opt != nil && opt.Do())
	return m
}

func isAnswer(reply, req *dns.Msg) bool {
	if !reply.Response || len(reply.Question) != 1 {
		return false
	}
	a, q := reply.Question[0], req.Question[0]
	return a.Qtype == q.Qtype && a.Qclass == q.Qclass && dns.CanonicalName(a.Name) == dns.CanonicalName(q.Name)
}

// back makes a resolver's answer one to the client's query.
func back(reply, req *dns.Msg) *dns.Msg {
	reply.Id, reply.Question = req.Id, req.Question
	reply.Extra = slices.DeleteFunc(reply.Extra, func(r dns.RR) bool { return r.Header().Rrtype == dns.TypeOPT })
	if opt := req.IsEdns0(); opt != nil {
		reply.SetEdns0(maxUDP, opt.Do())
	} else if reply.Rcode > 0xf { // it has no room for the upper bits
		reply.Rcode = dns.RcodeServerFailure
	}
	return reply
}
