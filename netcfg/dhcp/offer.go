package dhcp

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"seedbed"
)

// maxDNS bounds option 6, so that an answer fits the 576 bytes that every client accepts.
const maxDNS = 8

// optionMSRoutes is the code of option 121 for Windows before Vista.
const optionMSRoutes = 249

func (o Offer) check() error {
	switch {
	case !o.Addr.Is4() || !o.server().Is4() || !o.Prefix.IsValid() || !o.Prefix.Addr().Is4():
		return fmt.Errorf("address %s, server %s and prefix %s must be IPv4", o.Addr, o.server(), o.Prefix)
	case !o.Prefix.Contains(o.Addr) || o.Gateway.IsValid() && !o.Prefix.Contains(o.Gateway):
		return fmt.Errorf("prefix %s does not contain address %s and gateway %s", o.Prefix, o.Addr, o.Gateway)
	}
	return nil
}

func (o Offer) server() netip.Addr {
	if o.Server.IsValid() {
		return o.Server
	}
	return o.Gateway
}

// routed reports whether the client gets a default route.
func (o Offer) routed() bool { return !o.Isolated && o.Gateway.IsValid() }

func (o Offer) lease() time.Duration {
	if o.Lease <= 0 {
		return defaultLease
	}
	return max(o.Lease.Truncate(time.Second), time.Second)
}

// describe adds the options that describe the network.
func (o Offer) describe(m *dhcpv4.DHCPv4, mtu int) {
	m.UpdateOption(dhcpv4.OptServerIdentifier(o.server().AsSlice()))
	m.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(o.Prefix.Bits(), 32)))
	if o.routed() {
		m.UpdateOption(dhcpv4.OptRouter(o.Gateway.AsSlice()))
	}
	if dns := ips(o.DNS, maxDNS); len(dns) > 0 {
		m.UpdateOption(dhcpv4.OptDNS(dns...))
	}
	if o.Hostname != "" {
		m.UpdateOption(dhcpv4.OptHostName(o.Hostname))
	}
	if mtu >= 68 && mtu <= 65535 { // RFC 2132 5.1
		m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, binary.BigEndian.AppendUint16(nil, uint16(mtu))))
	}
	routes := dhcpv4.OptClasslessStaticRoute(o.routes()...)
	m.UpdateOption(routes)
	m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(optionMSRoutes), routes.Value.ToBytes()))
	if o.Options.Domain != "" {
		m.UpdateOption(dhcpv4.OptDomainName(o.Options.Domain))
	}
	if len(o.Options.Search) > 0 {
		m.UpdateOption(dhcpv4.OptDomainSearch(&rfc1035label.Labels{Labels: o.Options.Search}))
	}
	if ntp := ips(o.Options.NTP, len(o.Options.NTP)); len(ntp) > 0 {
		m.UpdateOption(dhcpv4.OptNTPServers(ntp...))
	}
	o.boot(m)
}

// boot adds what a client loads that boots from the network: in the fields of BOOTP, which firmware reads, and
// as options.
func (o Offer) boot(m *dhcpv4.DHCPv4) {
	file, server := o.Options.BootFile, o.Options.BootServer
	if file == "" {
		return
	}
	m.BootFileName = file
	m.UpdateOption(dhcpv4.OptBootFileName(file))
	if server.Is4() {
		m.ServerIPAddr = server.AsSlice()
		m.UpdateOption(dhcpv4.OptTFTPServerName(server.String()))
	}
}

// ips returns the IPv4 addresses among addrs, at most most.
func ips(addrs []netip.Addr, most int) (all []net.IP) {
	for _, a := range addrs[:min(len(addrs), most)] {
		if a.Is4() {
			all = append(all, a.AsSlice())
		}
	}
	return all
}

// spare are the options that a client can do without, those first that it misses least: what the fields of BOOTP
// have as well, what Windows before Vista reads, and names.
var spare = []dhcpv4.OptionCode{
	dhcpv4.OptionBootfileName, dhcpv4.OptionTFTPServerName, dhcpv4.GenericOptionCode(optionMSRoutes), dhcpv4.OptionDNSDomainSearchList,
	dhcpv4.OptionNTPServers, dhcpv4.OptionDomainName, dhcpv4.OptionHostName,
}

const (
	// leastSize is the size of a packet that every client accepts (RFC 2131 2), and headers is what is in it
	// before the options: of IP, UDP and BOOTP, with the magic cookie.
	leastSize = 576
	headers   = 20 + 8 + 236 + 4
	// mostSize is the largest packet that is sent, whatever a client accepts.
	mostSize = 1500
)

// trim leaves out spare options until the answer fits what the client of req accepts: what it says in option
// 57, or leastSize.
func trim(m, req *dhcpv4.DHCPv4) {
	size, err := req.MaxMessageSize()
	if err != nil {
		size = leastSize
	}
	room := int(min(max(size, leastSize), mostSize)) - headers - 1 // the end option
	used := 0
	for _, value := range m.Options {
		used += len(value) + 2*max(1, (len(value)+254)/255) // a long one is sent in parts (RFC 3396)
	}
	for _, code := range spare {
		if used <= room {
			return
		}
		if value := m.Options.Get(code); value != nil {
			used -= len(value) + 2*max(1, (len(value)+254)/255)
			m.Options.Del(code)
		}
	}
}

// routes returns the routes for option 121. A client that reads it ignores option 3 (RFC 3442), so
// it includes the default route. The gateway is the next hop to the metadata, since clients differ on a
// next hop of 0.0.0.0, which a network without one has: the link itself (RFC 3442).
func (o Offer) routes() []*dhcpv4.Route {
	via := func(p netip.Prefix, router netip.Addr) *dhcpv4.Route {
		return &dhcpv4.Route{
			Dest:   &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)},
			Router: router.AsSlice(),
		}
	}
	next := o.Gateway
	if !next.IsValid() {
		next = netip.IPv4Unspecified()
	}
	all := []*dhcpv4.Route{via(netip.PrefixFrom(seedbed.MetadataAddr, 32), next)}
	if slices.Contains(o.DNS, seedbed.ResolverAddr) {
		all = append(all, via(netip.PrefixFrom(seedbed.ResolverAddr, 32), next))
	}
	if slices.Contains(o.Options.NTP, seedbed.TimeAddr) {
		all = append(all, via(netip.PrefixFrom(seedbed.TimeAddr, 32), next))
	}
	for _, r := range o.Options.Routes {
		if r.Prefix.Addr().Is4() {
			all = append(all, via(r.Prefix, r.Via))
		}
	}
	if o.routed() {
		all = append(all, via(netip.PrefixFrom(netip.IPv4Unspecified(), 0), o.Gateway))
	}
	return all
}

// grant adds the times of the lease: renewal after half, rebinding after seven eighths (RFC 2131
// 4.4.5).
func (o Offer) grant(m *dhcpv4.DHCPv4) {
	l := o.lease()
	m.UpdateOption(dhcpv4.OptIPAddressLeaseTime(l))
	m.UpdateOption(dhcpv4.OptRenewTimeValue(l / 2))
	m.UpdateOption(dhcpv4.OptRebindingTimeValue(l * 7 / 8))
}
