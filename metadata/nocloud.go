package metadata

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"seedbed"
)

// nocloudTree is the NoCloud dialect: the files of a seed. Each file exists, though it may be
// empty, because cloud-init retries a missing one ten times.
//
// Source: cloud-init, "NoCloud", and DataSourceNoCloud.py.
var nocloudTree = dir("",
	leaf("meta-data", nocloudMeta),
	leaf("network-config", nocloudNetwork),
	nocloudUserData,
	leaf("vendor-data", func(r *record) ([]byte, bool) { return r.vendorData, true }).as(typeData),
)

var nocloudUserData = leaf("user-data", func(r *record) ([]byte, bool) { return r.userData, true }).as(typeData)

// Seed returns the NoCloud files of a guest that gets them on a CD-ROM. An empty file that clients do not need is left out.
func Seed(v View) (files []seedbed.SeedFile) {
	for _, name := range seedbed.SeedFiles() {
		body, _, _ := Render(v, "/nocloud/"+name)
		if len(body) > 0 || name == "user-data" {
			files = append(files, seedbed.SeedFile{Name: name, Data: body})
		}
	}
	return files
}

// nocloudMeta returns meta-data as YAML. Its strings are in JSON's form, which is valid YAML.
func nocloudMeta(r *record) ([]byte, bool) {
	var b []byte
	line := func(name, value string) {
		if value != "" {
			b = append(append(append(b, name...), ": "...), asJSON(value)...)
			b = append(b, '\n')
		}
	}
	line("instance-id", r.id)
	line("local-hostname", r.guest.Hostname())
	line("availability-zone", r.guest.Zone)
	line("region", r.guest.Region)
	line("instance-type", r.guest.Profile)
	for i, k := range sshKeys(r) {
		if i == 0 {
			b = append(b, "public-keys:\n"...)
		}
		line("  "+strconv.Quote(k.name), k.line)
	}
	return bytes.TrimSuffix(b, []byte("\n")), true
}

// resolvers returns the resolvers of a guest whose addresses are static.
func resolvers(n *seedbed.Network) []netip.Addr {
	if !n.Prefix.IsValid() {
		return n.DNS6()
	}
	return n.DNS
}

// nocloudNetwork returns network-config in version 2 (cloud-init, "Networking config version 2"): for
// each NIC whose network is known, DHCP if the network has it, else the address, of IPv4 and of IPv6, and its secondary
// addresses. Only the first NIC has a default route, or the best one. What router advertisements tell is not in it. It is empty if
// there is no such NIC.
//
// cloud-init 22.4 does not read it. Later releases do in their second stage, when the first NIC has
// an address already; it is the further NICs that they learn of here. Talos reads nothing else of
// NoCloud's before it, and takes no empty document. NICs are named by their MAC alone, because only
// the guest knows its names for them; cloud-init puts those in wherever it does not write netplan's
// files (net/network_state.py, handle_ethernets). The MAC is quoted: YAML 1.1 reads 52:54:00:12:34:56
// as a number.
func nocloudNetwork(r *record) ([]byte, bool) {
	var b []byte
	for i, nic := range r.guest.NICs {
		network := r.networks[i]
		if network == nil || nic.MAC == (seedbed.MAC{}) {
			continue
		}
		v6 := network.Addr6(nic.MAC)
		static := !network.DHCP && (nic.Addr.Is4() || v6.IsValid())
		if !network.DHCP && !static && network.Addressed() {
			continue
		}
		dhcp4 := !static && !network.Only6() && !network.Bare()
		if b == nil {
			b = append(b, "version: 2\nethernets:\n"...)
		}
		b = fmt.Appendf(b, "  nic%d:\n    match: {macaddress: %q}\n    dhcp4: %t\n", number(i, nic), nic.MAC, dhcp4)
		if v6.IsValid() && network.DHCP && !network.SLAAC {
			b = append(b, "    dhcp6: true\n"...)
		}
		if dhcp4 && len(r.guest.NICs) > 1 {
			b = fmt.Appendf(b, "    dhcp4-overrides: {route-metric: %d}\n", 100*(number(i, nic)+1)) // as DataSourceEc2.py has it
		}
		var addrs []netip.Prefix
		if static && nic.Addr.Is4() {
			addrs = append(addrs, netip.PrefixFrom(nic.Addr, network.Prefix.Bits()))
		}
		further := func(which func(netip.Addr) bool, bits int) {
			for _, a := range nic.Secondary {
				if which(a) {
					addrs = append(addrs, netip.PrefixFrom(a, bits))
				}
			}
		}
		further(netip.Addr.Is4, network.Prefix.Bits())
		if static && v6.IsValid() && !network.SLAAC {
			addrs = append(addrs, netip.PrefixFrom(v6, network.Prefix6.Bits()))
		}
		further(netip.Addr.Is6, network.Prefix6.Bits())
		if addrs != nil {
			b = append(append(append(b, "    addresses: "...), asJSON(addrs)...), '\n')
		}
		if static {
			var routes []string
			if i == 0 && network.Gateway.Is4() {
				// Not as a route: cloud-init makes a line of that for ifupdown which needs the command route (net/eni.py).
				b = fmt.Appendf(b, "    gateway4: %q\n", network.Gateway)
			}
			for _, p := range network.RoutesToPeers() {
				routes = append(routes, fmt.Sprintf("{to: %q, via: %q}", p.Prefix, p.Via))
			}
			if len(routes) > 0 {
				b = fmt.Appendf(b, "    routes: [%s]\n", strings.Join(routes, ", "))
			}
			if dns := resolvers(network); len(dns) > 0 {
				b = append(append(append(b, "    nameservers: {addresses: "...), asJSON(dns)...), "}\n"...)
			}
		}
	}
	return bytes.TrimSuffix(b, []byte("\n")), true
}
