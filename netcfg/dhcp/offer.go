package dhcp

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// maxDNS bounds option 6, so that an answer fits the 576 bytes that every client accepts.
const maxDNS = 8

// optionMSRoutes is the code of option 121 for Windows before Vista.
const optionMSRoutes = 249

func (o Offer) check() error {
	switch {
	case !o.Addr.Is4() || !o.Gateway.Is4() || !o.Prefix.IsValid() || !o.Prefix.Addr().Is4():
		return fmt.Errorf("address %s, gateway %s and prefix %s must be IPv4", o.Addr, o.Gateway, o.Prefix)
	case !o.Prefix.Contains(o.Addr) || !o.Prefix.Contains(o.Gateway):
		return fmt.Errorf("prefix %s does not contain address %s and gateway %s", o.Prefix, o.Addr, o.Gateway)
	}
	return nil
}

func (o Offer) lease() time.Duration {
	if o.Lease <= 0 {
		return defaultLease
	}
	return max(o.Lease.Truncate(time.Second), time.Second)
}

// describe adds the options that describe the network.
func (o Offer) describe(m *dhcpv4.DHCPv4, mtu int) {
	m.UpdateOption(dhcpv4.OptServerIdentifier(o.Gateway.AsSlice()))
	m.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(o.Prefix.Bits(), 32)))
	m.UpdateOption(dhcpv4.OptRouter(o.Gateway.AsSlice()))
	var dns []net.IP
	for _, d := range o.DNS[:min(len(o.DNS), maxDNS)] {
		if d.Is4() {
			dns = append(dns, d.AsSlice())
		}
	}
	if len(dns) > 0 {
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
}

// routes returns the routes for option 121. A client that reads it ignores option 3 (RFC 3442), so
// it includes the default route. The gateway is the next hop of both routes, since clients differ
// on a next hop of 0.0.0.0.
func (o Offer) routes() []*dhcpv4.Route {
	via := func(p netip.Prefix) *dhcpv4.Route {
		return &dhcpv4.Route{
			Dest:   &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)},
			Router: o.Gateway.AsSlice(),
		}
	}
	return []*dhcpv4.Route{via(netip.PrefixFrom(MetadataAddr, 32)), via(netip.PrefixFrom(netip.IPv4Unspecified(), 0))}
}

// grant adds the times of the lease: renewal after half, rebinding after seven eighths (RFC 2131
// 4.4.5).
func (o Offer) grant(m *dhcpv4.DHCPv4) {
	l := o.lease()
	m.UpdateOption(dhcpv4.OptIPAddressLeaseTime(l))
	m.UpdateOption(dhcpv4.OptRenewTimeValue(l / 2))
	m.UpdateOption(dhcpv4.OptRebindingTimeValue(l * 7 / 8))
}
