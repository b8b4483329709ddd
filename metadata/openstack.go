package metadata

import (
	"crypto/rand"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"seedbed"
)

// openstackTree is everything below a version of the OpenStack dialect.
//
// Source: OpenStack Nova, user guide "Metadata service", and nova/api/metadata.
var openstackTree = dir("",
	leaf("meta_data.json", openstackMeta).as(typeJSON),
	leaf("network_data.json", openstackNetwork).as(typeJSON),
	openstackPassword,
	openstackUserData,
	leaf("vendor_data.json", openstackVendor).as(typeJSON),
	constant("vendor_data2.json", "{}").as(typeJSON), // vendor-data is served only once
)

var (
	openstackUserData = leaf("user_data", userData).as(typeData)
	// openstackPassword is empty until a password was posted.
	openstackPassword = leaf("password", func(r *record) ([]byte, bool) { return []byte(r.guest.Password), true })
)

// openstackVersions is the answer at /openstack: Nova's versions. Every other date is served as
// well, with the same content.
var openstackVersions = []byte(strings.Join([]string{
	"2012-08-10", "2013-04-04", "2013-10-17", "2015-10-15", "2016-06-30", "2016-10-06", "2017-02-22", "2018-08-27",
	"2020-10-14", "latest",
}, "\n"))

// seedSize is the size of random_seed in bytes, as Nova's.
const seedSize = 512

type openstackKey struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Data string `json:"data"`
}

// openstackMeta returns meta_data.json. Its uuid is that of the instance, whatever form instance-id
// has: cloud-init compares it with the UUID of the SMBIOS values.
func openstackMeta(r *record) ([]byte, bool) {
	var seed [seedSize]byte
	rand.Read(seed[:])
	m := struct {
		AvailabilityZone string            `json:"availability_zone,omitempty"`
		Hostname         string            `json:"hostname"`
		Keys             []openstackKey    `json:"keys,omitempty"`
		LaunchIndex      int               `json:"launch_index"`
		Meta             map[string]string `json:"meta,omitempty"`
		Name             string            `json:"name"`
		PublicKeys       map[string]string `json:"public_keys,omitempty"`
		RandomSeed       []byte            `json:"random_seed"`
		UUID             string            `json:"uuid"`
	}{AvailabilityZone: r.guest.Zone, Hostname: r.guest.Hostname(), Name: r.guest.Name, RandomSeed: seed[:], UUID: string(r.guest.ID)}
	for _, k := range sshKeys(r) {
		m.Keys = append(m.Keys, openstackKey{k.name, "ssh", k.line})
		if m.PublicKeys == nil {
			m.PublicKeys = map[string]string{}
		}
		m.PublicKeys[k.name] = k.line
	}
	if len(servedTags(r)) > 0 {
		m.Meta = r.guest.Tags
	}
	return asJSON(m), true
}

// openstackVendor returns vendor_data.json: an object whose cloud-init member cloud-init takes for
// its vendor-data. JSON can hold only text, so any other document, such as a compressed one, is
// left out here.
func openstackVendor(r *record) ([]byte, bool) {
	if len(r.vendorData) == 0 || !utf8.Valid(r.vendorData) {
		return []byte("{}"), true
	}
	return asJSON(map[string]string{"cloud-init": string(r.vendorData)}), true
}

type (
	openstackLink struct {
		ID   string `json:"id"`
		VIF  string `json:"vif_id"`
		Type string `json:"type"`
		MAC  string `json:"ethernet_mac_address"`
	}
	openstackNet struct {
		ID        string             `json:"id"`
		NetworkID string             `json:"network_id"`
		Link      string             `json:"link"`
		Type      string             `json:"type"`
		Address   string             `json:"ip_address,omitempty"`
		Netmask   string             `json:"netmask,omitempty"`
		Routes    []openstackRoute   `json:"routes,omitempty"`
		Services  []openstackService `json:"services,omitempty"`
	}
	openstackRoute struct {
		Network string `json:"network"`
		Netmask string `json:"netmask"`
		Gateway string `json:"gateway"`
	}
	openstackService struct {
		Type    string `json:"type"`
		Address string `json:"address"`
	}
)

// openstackNetwork returns network_data.json: DHCP if the network has it, else the address, with a
// default route only for the first NIC. The IPv6 addresses of a NIC are a network of their own, whose router advertises itself.
func openstackNetwork(r *record) ([]byte, bool) {
	links, networks, services := []openstackLink{}, []openstackNet{}, []openstackService{}
	for i, nic := range r.guest.NICs {
		network := r.networks[i]
		if network == nil || nic.MAC == (seedbed.MAC{}) {
			continue
		}
		index := strconv.Itoa(number(i, nic))
		link := "nic" + index
		links = append(links, openstackLink{link, stableID("eni", nic.MAC.String()), "bridge", nic.MAC.String()})
		n := openstackNet{ID: "network" + index, NetworkID: stableID("subnet", nic.Network), Link: link, Type: "ipv4_dhcp"}
		if !network.DHCP && nic.Addr.Is4() && network.Prefix.Addr().Is4() {
			n.Type, n.Address, n.Netmask = "ipv4", nic.Addr.String(), netmask(network.Prefix)
			if i == 0 && network.Gateway.Is4() {
				n.Routes = []openstackRoute{{"0.0.0.0", "0.0.0.0", network.Gateway.String()}}
			}
			for _, p := range network.RoutesToPeers() {
				n.Routes = append(n.Routes, openstackRoute{p.Prefix.Addr().String(), netmask(p.Prefix), p.Via.String()})
			}
			for _, a := range resolvers(network) {
				s := openstackService{"dns", a.String()}
				n.Services, services = append(n.Services, s), append(services, s)
			}
		}
		if !network.Only6() && !network.Bare() {
			networks = append(networks, n)
		}
		further := func(which func(netip.Addr) bool, kind, mask string) {
			for j, a := range nic.Secondary {
				if which(a) {
					networks = append(networks, openstackNet{ID: "network" + index + "-secondary" + strconv.Itoa(j),
						NetworkID: n.NetworkID, Link: link, Type: kind, Address: a.String(), Netmask: mask})
				}
			}
		}
		further(netip.Addr.Is4, "ipv4", netmask(network.Prefix))
		if v6 := network.Addr6(nic.MAC); v6.IsValid() {
			n := openstackNet{ID: n.ID + "-6", NetworkID: n.NetworkID, Link: link, Type: "ipv6_dhcp"}
			switch {
			case network.SLAAC:
				n.Type = "ipv6_slaac"
			case !network.DHCP:
				n.Type, n.Address, n.Netmask = "ipv6", v6.String(), netmask6
			}
			networks = append(networks, n)
		}
		further(netip.Addr.Is6, "ipv6", netmask6)
	}
	return asJSON(struct {
		Links    []openstackLink    `json:"links"`
		Networks []openstackNet     `json:"networks"`
		Services []openstackService `json:"services"`
	}{links, networks, services}), true
}

// netmask6 is that of the IPv6 prefixes of networks.
const netmask6 = "ffff:ffff:ffff:ffff::"

// netmask returns the dotted form of an IPv4 prefix's length.
func netmask(p netip.Prefix) string {
	var m [4]byte
	for i := range p.Bits() {
		m[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(m).String()
}
