package dhcp6

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

// errIgnored marks a request that is not answered.
var errIgnored = errors.New("not for this server")

// answer returns the reply to one packet, the payload of a UDP datagram of the NIC with a mark. An error says why there is none.
func (s *Server) answer(packet []byte, mark uint32) ([]byte, error) {
	o, ok := s.Lookup(mark)
	if !ok {
		return nil, fmt.Errorf("%w: no NIC has the mark %d", errIgnored, mark)
	}
	if !o.Addr.Is6() || !o.Prefix.Contains(o.Addr) {
		return nil, fmt.Errorf("the offer has no IPv6 address of its prefix: %s of %s", o.Addr, o.Prefix)
	}
	any, err := dhcpv6.FromBytes(packet)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	req, ok := any.(*dhcpv6.Message)
	if !ok {
		return nil, fmt.Errorf("%w: relayed", errIgnored)
	}
	reply, err := s.reply(req, o)
	if err != nil {
		return nil, err
	}
	return reply.ToBytes(), nil
}

// reply follows RFC 8415 16 (which messages are valid) and 18.3 (what they are answered).
func (s *Server) reply(req *dhcpv6.Message, o Offer) (*dhcpv6.Message, error) {
	own := s.id()
	client, server := req.Options.ClientID(), req.Options.ServerID()
	addressed := server != nil
	switch t := req.MessageType; {
	case addressed && !own.Equal(server):
		return nil, fmt.Errorf("%w: for another server", errIgnored)
	case client == nil && t != dhcpv6.MessageTypeInformationRequest:
		return nil, fmt.Errorf("%w: the client does not name itself", errIgnored)
	}
	reply := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, TransactionID: req.TransactionID}
	reply.AddOption(dhcpv6.OptServerID(own))
	if client != nil {
		reply.AddOption(dhcpv6.OptClientID(client))
	}
	// toAll and toOne are whether a message is sent as the type must be: to all servers, or to the one that it names.
	toAll, toOne := !addressed, addressed
	switch t := req.MessageType; {
	case t == dhcpv6.MessageTypeSolicit && toAll:
		if req.GetOneOption(dhcpv6.OptionRapidCommit) == nil {
			reply.MessageType = dhcpv6.MessageTypeAdvertise
		} else {
			reply.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
		}
		o.assign(reply, req)
	case t == dhcpv6.MessageTypeRequest && toOne, t == dhcpv6.MessageTypeRenew && toOne, t == dhcpv6.MessageTypeRebind && toAll:
		o.assign(reply, req)
	case t == dhcpv6.MessageTypeConfirm && toAll:
		asked := asked(req)
		if len(asked) == 0 {
			return nil, fmt.Errorf("%w: nothing to confirm", errIgnored)
		}
		code := iana.StatusSuccess
		if slices.ContainsFunc(asked, func(a netip.Addr) bool { return a != o.Addr }) {
			code = iana.StatusNotOnLink
		}
		reply.AddOption(status(code))
	case (t == dhcpv6.MessageTypeRelease || t == dhcpv6.MessageTypeDecline) && toOne: // it keeps its address anyway
		reply.AddOption(status(iana.StatusSuccess))
	case t == dhcpv6.MessageTypeInformationRequest && len(req.Options.IANA()) == 0 && len(req.Options.IAPD()) == 0:
	default:
		return nil, fmt.Errorf("%w: %s, sent to one server: %t", errIgnored, t, addressed)
	}
	o.describe(reply)
	return reply, nil
}

// id names the server. Nodes of one overlay have one name, as they have one MAC.
func (s *Server) id() dhcpv6.DUID {
	return &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr(s.MAC[:])}
}

// asked returns the addresses that a message has.
func asked(req *dhcpv6.Message) (all []netip.Addr) {
	for _, ia := range req.Options.IANA() {
		all = append(all, addrsOf(ia)...)
	}
	return all
}

func addrsOf(ia *dhcpv6.OptIANA) (all []netip.Addr) {
	for _, one := range ia.Options.Addresses() {
		if a, ok := netip.AddrFromSlice(one.IPv6Addr.To16()); ok {
			all = append(all, a)
		}
	}
	return all
}

// assign answers each set of addresses that a message asks for: the first has the address, and no other has any. An address of
// before has no time left.
func (o Offer) assign(reply, req *dhcpv6.Message) {
	lease := max(o.Lease.Truncate(time.Second), time.Second)
	for i, ia := range req.Options.IANA() {
		out := &dhcpv6.OptIANA{IaId: ia.IaId}
		if i > 0 {
			out.Options.Add(status(iana.StatusNoAddrsAvail))
		} else {
			out.T1, out.T2 = lease/2, lease*4/5
			out.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: o.Addr.AsSlice(), PreferredLifetime: lease, ValidLifetime: lease})
			for _, a := range addrsOf(ia) {
				if a != o.Addr && req.MessageType != dhcpv6.MessageTypeSolicit && req.MessageType != dhcpv6.MessageTypeRequest {
					out.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: a.AsSlice()})
				}
			}
		}
		reply.AddOption(out)
	}
	for _, ia := range req.Options.IATA() {
		out := &dhcpv6.OptIATA{IaId: ia.IaId}
		out.Options.Add(status(iana.StatusNoAddrsAvail))
		reply.AddOption(out)
	}
	for _, ia := range req.Options.IAPD() {
		out := &dhcpv6.OptIAPD{IaId: ia.IaId}
		out.Options.Add(status(iana.StatusNoPrefixAvail))
		reply.AddOption(out)
	}
}

func status(code iana.StatusCode) *dhcpv6.OptStatusCode {
	return &dhcpv6.OptStatusCode{StatusCode: code}
}

// describe adds the options that describe the network.
func (o Offer) describe(reply *dhcpv6.Message) {
	if len(o.DNS) > 0 {
		reply.AddOption(dhcpv6.OptDNS(ips(o.DNS)...))
	}
	if len(o.NTP) > 0 {
		servers := &dhcpv6.OptNTPServer{}
		for _, a := range ips(o.NTP) {
			s := dhcpv6.NTPSuboptionSrvAddr(a)
			servers.Suboptions.Add(&s)
		}
		reply.AddOption(servers)
		reply.AddOption(sntp(o.NTP)) // dhclient knows no other
	}
	if len(o.Search) > 0 {
		reply.AddOption(dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: o.Search}))
	}
	if o.BootURL != "" {
		reply.AddOption(dhcpv6.OptBootFileURL(o.BootURL))
	}
}

func ips(addrs []netip.Addr) []net.IP {
	all := make([]net.IP, len(addrs))
	for i, a := range addrs {
		all[i] = a.AsSlice()
	}
	return all
}

// sntp returns the option of time servers that came before that of RFC 5908 (RFC 4075).
func sntp(addrs []netip.Addr) dhcpv6.Option {
	o := &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionSNTPServerList}
	for _, a := range addrs {
		o.OptionData = append(o.OptionData, a.AsSlice()...)
	}
	return o
}
