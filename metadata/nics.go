package metadata

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"seedbed"
)

// nics returns the directories of network/interfaces/macs, one for each NIC whose network is known.
// Clients configure what they find there, so a NIC with incomplete data is left out.
//
// If none of the NICs has a vpc-id, cloud-init assumes EC2-Classic. It then requests an address
// again on an interface that is up, which fails on the route to the metadata address (22.4,
// DataSourceEc2.py, network_config).
func nics(r *record) []*node {
	var all []*node
	for i, nic := range r.guest.NICs {
		network := r.networks[i]
		if nic.MAC == (seedbed.MAC{}) || network == nil {
			continue
		}
		if network.Bare() && i > 0 { // clients would ask DHCP there, and wait for it at each boot
			continue
		}
		prefix := ""
		if network.Prefix.IsValid() && network.Prefix.Addr().Is4() {
			prefix = network.Prefix.Masked().String()
		}
		value := func(name, v string) *node { return text(name, func(*record) string { return v }) }
		of := dir(nic.MAC.String(),
			value("device-number", strconv.Itoa(number(i, nic))),
			value("interface-id", stableID("eni", nic.MAC.String())),
			text("local-hostname", hostname),
			value("local-ipv4s", addrTexts(nic, nic.Addr)),
			value("mac", nic.MAC.String()),
			constant("network-card", "0"),       // as amazon-ec2-net-utils and cloud-init ask for it
			constant("network-card-index", "0"), // as Amazon's guide has it
			value("owner-id", r.guest.Account),
			value("security-group-ids", groupIDs(r, nic)),
			value("security-groups", groupNames(nic)),
			value("subnet-id", stableID("subnet", nic.Network)),
			value("subnet-ipv4-cidr-block", prefix),
			value("vpc-id", stableID("vpc", nic.Network)),
			value("vpc-ipv4-cidr-block", prefix),
			value("vpc-ipv4-cidr-blocks", prefix),
		)
		if v6 := network.Addr6(nic.MAC); v6.IsValid() {
			of.nodes = append(of.nodes, value("ipv6s", addrTexts(nic, v6)),
				value("subnet-ipv6-cidr-block", network.Prefix6.String()), // as cloud-init asks for it
				value("subnet-ipv6-cidr-blocks", network.Prefix6.String()),
				value("vpc-ipv6-cidr-blocks", network.Prefix6.String()))
		}
		if public := addrText(nic.Floating); public != "" {
			of.nodes = append(of.nodes, dir("ipv4-associations", value(public, addrText(nic.Addr))),
				value("public-hostname", publicName(r, nic)), value("public-ipv4s", public))
		}
		slices.SortFunc(of.nodes, func(a, b *node) int { return strings.Compare(a.name, b.name) })
		all = append(all, of)
	}
	return all
}

// number returns the index of the NIC at place i, which stays when another is removed. A record of an older seedbedd has no index.
func number(i int, nic seedbed.GuestNIC) int { return max(i, nic.Index) }

// addrTexts returns the addresses of a NIC of one version of IP, one in a line: its first, which DHCP gives it, and then the
// secondary ones.
func addrTexts(nic seedbed.GuestNIC, first netip.Addr) string {
	if !first.IsValid() {
		return ""
	}
	lines := []string{first.String()}
	for _, a := range nic.Secondary {
		if a.Is4() == first.Is4() {
			lines = append(lines, a.String())
		}
	}
	return strings.Join(lines, "\n")
}

// publicName returns the name of a guest that is reached at a floating address. As OpenStack's, it is that of the guest.
func publicName(r *record, nic seedbed.GuestNIC) string {
	if !nic.Floating.IsValid() {
		return ""
	}
	return hostname(r)
}

// groupNames returns the names of a NIC's security groups, one in a line.
func groupNames(nic seedbed.GuestNIC) string {
	if len(nic.Groups) == 0 {
		return seedbed.OpenGroup
	}
	names := make([]string, len(nic.Groups))
	for i, g := range nic.Groups {
		names[i] = seedbed.ShortName(g)
	}
	return strings.Join(names, "\n")
}

// groupIDs returns the IDs of a NIC's security groups, in the order of groupNames.
func groupIDs(r *record, nic seedbed.GuestNIC) string {
	groups := nic.Groups
	if len(groups) == 0 {
		groups = []string{seedbed.Qualified(cmp.Or(r.guest.Project, seedbed.DefaultProject), seedbed.OpenGroup)}
	}
	ids := make([]string, len(groups))
	for i, g := range groups {
		ids[i] = stableID("sg", g)
	}
	return strings.Join(ids, "\n")
}

// stableID returns an ID in Amazon's form, the kind and 17 hexadecimal digits, which is always the
// same for the same name.
func stableID(kind, name string) string {
	sum := sha256.Sum256([]byte(kind + "/" + name))
	return kind + "-" + hex.EncodeToString(sum[:])[:17]
}
