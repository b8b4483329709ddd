package seedbed

import "net/netip"

// Network is one bridge that Seedbed manages: its addresses, DHCP and NAT.
type Network struct {
	Name string `json:"name"`
	// Bridge is the interface name, at most 15 characters.
	Bridge string `json:"bridge"`
	// MAC is the bridge's own address. It is chosen once and kept.
	MAC MAC `json:"mac"`
	// Prefix is the subnet of the guests, and Gateway the bridge's address in it.
	Prefix  netip.Prefix `json:"prefix"`
	Gateway netip.Addr   `json:"gateway"`
	// DNS are the resolvers that DHCP hands out.
	DNS  []netip.Addr `json:"dns"`
	NAT  bool         `json:"nat"`
	DHCP bool         `json:"dhcp"`
	// Identity says how callers are identified: "tap" (the default; only NICs of Seedbed on this
	// node, by their packet mark) or "mac" (also unmarked callers, by their MAC in the neighbour
	// table, for guests whose tap is not Seedbed's).
	Identity string `json:"identity,omitempty"`
	// Allow says which protections are off for this network.
	Allow NetworkPermissions `json:"allow,omitzero"`
	// Published says which other projects than the default one may use it. It is only shown to that
	// project. Nodes are not told.
	Published *Publication `json:"published,omitempty"`
}

// The values of Network.Identity.
const (
	IdentityTap = "tap"
	IdentityMAC = "mac"
)

// NetworkPermissions lists what guests may do only if their network allows it.
type NetworkPermissions struct {
	// Addresses: sending from IP addresses, and answering ARP and ND for addresses, that are not
	// the guest's (routers).
	Addresses bool `json:"addresses,omitempty"`
	// DHCPServer: answering DHCP and DHCPv6.
	DHCPServer bool `json:"dhcp_server,omitempty"`
	// RouterAdvertisements: sending router advertisements and redirects.
	RouterAdvertisements bool `json:"router_advertisements,omitempty"`
	// MetadataAddresses: claiming 169.254.169.254, fd00:ec2::254 or fe80::a9fe:a9fe by ARP or ND.
	MetadataAddresses bool `json:"metadata_addresses,omitempty"`
}
