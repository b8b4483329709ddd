package wire

import (
	"net/netip"
	"time"

	"seedbed"
)

// Health is the API's health, which needs no token.
type Health struct {
	Status  string `json:"status"` // "ok"
	Version string `json:"version"`
	Node    string `json:"node"`
}

// Overview summarizes an installation and a project. Node, nodes and checks are empty for a caller
// that may not see the installation.
type Overview struct {
	Version string `json:"version"`
	Node    string `json:"node"`
	// Project is the project whose instances and jobs are counted; empty for all.
	Project string `json:"project"`
	// Nodes counts the nodes by state.
	Nodes map[seedbed.NodeState]int `json:"nodes"`
	// Checks is how many checks the server ran. Wrong holds those that found a problem.
	Checks int             `json:"checks"`
	Wrong  []seedbed.Check `json:"wrong"`
	Counts seedbed.Counts  `json:"census"`
	// Jobs are the last jobs, newest first.
	Jobs []seedbed.Job `json:"jobs"`
}

// CleanupRequest runs the cleanup. DryRun only reports. Force overrides the refusal of an inventory
// that looks wrong.
type CleanupRequest struct {
	DryRun bool `json:"dry_run"`
	Force  bool `json:"force"`
}

// NodeRequest describes a new node.
type NodeRequest struct {
	Name string `json:"name"`
	// Worker is the address of its worker, such as https://hv2.example:7375.
	Worker   string `json:"worker"`
	Cordoned bool   `json:"cordoned"`
}

// NodeChange changes a node. Nil fields change nothing.
type NodeChange struct {
	Worker   *string `json:"worker,omitempty"`
	Cordoned *bool   `json:"cordoned,omitempty"`
	// Fencing replaces its fence agent.
	Fencing *FenceAgent `json:"fencing,omitempty"`
}

// FenceAgent is the program that switches a node off; without an agent there is none.
type FenceAgent struct {
	Agent   string            `json:"agent"`
	Options map[string]string `json:"options,omitempty"`
	// Secrets are further options, which are never shown.
	Secrets map[string]string `json:"secrets,omitempty"`
}

// FenceRequest has a node fenced. With Confirmed, the caller says that the node is off.
type FenceRequest struct {
	Confirmed bool `json:"confirmed,omitempty"`
}

// FenceStatus is what the fence agent of a node says, which ran on the node From.
type FenceStatus struct {
	On   bool   `json:"on"`
	From string `json:"from"`
}

// MaintenanceRequest announces an event to the guests of a node, or to one instance.
type MaintenanceRequest struct {
	Code        string    `json:"code"`
	Description string    `json:"description"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after,omitzero"`
}

// AddressRequest allocates a floating address.
type AddressRequest struct {
	// Network lends it.
	Network string `json:"network"`
	// Addr is the one that is asked for. Without it, it is the lowest that is free: of IPv4 if the network lends such, or of IPv6
	// with IPv6.
	Addr        netip.Addr `json:"addr,omitzero"`
	IPv6        bool       `json:"ipv6,omitempty"`
	Description string     `json:"description,omitempty"`
}

// PlacementGroupRequest creates a placement group.
type PlacementGroupRequest struct {
	Name        string                  `json:"name"`
	Policy      seedbed.PlacementPolicy `json:"policy"`
	Description string                  `json:"description,omitempty"`
}

// SecurityGroupRequest creates a security group. Its rules may name groups without the project.
type SecurityGroupRequest struct {
	Name        string                 `json:"name"`
	Description string                 `json:"description,omitempty"`
	Rules       []seedbed.SecurityRule `json:"rules,omitempty"`
}

// SecurityGroupChange changes a security group. Nil fields change nothing. Rules replaces all rules; Allow adds some, and
// Revoke takes some away.
type SecurityGroupChange struct {
	Description *string                 `json:"description,omitempty"`
	Rules       *[]seedbed.SecurityRule `json:"rules,omitempty"`
	Allow       []seedbed.SecurityRule  `json:"allow,omitempty"`
	Revoke      []seedbed.SecurityRule  `json:"revoke,omitempty"`
}

// NetworkRequest creates a network.
type NetworkRequest struct {
	Name string `json:"name"`
	// Kind is nat by default.
	Kind seedbed.NetworkKind `json:"kind,omitempty"`
	// Prefix may be left out of a bridged network whose addresses come from elsewhere.
	Prefix netip.Prefix `json:"prefix,omitzero"`
	// Uplink and VLAN are those of a bridged network.
	Uplink string `json:"uplink,omitempty"`
	VLAN   int    `json:"vlan,omitempty"`
	// Overlay makes the networks of all nodes one. VNI is its number; 0 leaves the choice to Seedbed.
	Overlay *bool `json:"overlay,omitempty"`
	VNI     int   `json:"vni,omitempty"`
	// Gateway is the first address of the prefix by default; none for a bridged network.
	Gateway netip.Addr `json:"gateway,omitzero"`
	// Bridge is the name of the interface on the nodes. Empty leaves the choice to Seedbed.
	Bridge string `json:"bridge,omitempty"`
	// DNS are the installation's resolvers by default.
	DNS *[]netip.Addr `json:"dns,omitempty"`
	// DHCP is on by default in a network with a prefix.
	DHCP *bool `json:"dhcp,omitempty"`
	seedbed.NetworkOptions
	Identity string                     `json:"identity,omitempty"`
	Allow    seedbed.NetworkPermissions `json:"allow,omitzero"`
}

// NetworkChange changes a network. Nil fields change nothing. Lists and Allow replace the previous value.
type NetworkChange struct {
	Kind        *seedbed.NetworkKind `json:"kind,omitempty"`
	DNS         *[]netip.Addr        `json:"dns,omitempty"`
	DHCP        *bool                `json:"dhcp,omitempty"`
	Description *string              `json:"description,omitempty"`
	Range       *seedbed.AddrRange   `json:"range,omitempty"`
	// Floating and FloatingUplink replace the addresses that it lends.
	Floating       *[]seedbed.AddrRange `json:"floating,omitempty"`
	FloatingUplink *string              `json:"floating_uplink,omitempty"`
	Kept           *[]seedbed.AddrRange `json:"kept,omitempty"`
	// Reserve adds reservations, and Unreserve removes those of some MAC addresses.
	Reserve   []seedbed.Reservation `json:"reserve,omitempty"`
	Unreserve []seedbed.MAC         `json:"unreserve,omitempty"`
	// Peer peers the network with others, and Unpeer ends its peering with some.
	Peer   []string `json:"peer,omitempty"`
	Unpeer []string `json:"unpeer,omitempty"`
	MTU    *int     `json:"mtu,omitempty"`
	// BandwidthIn and BandwidthOut limit the rate of each NIC; 0 takes a limit away.
	BandwidthIn  *seedbed.BitRate        `json:"bandwidth_in,omitempty"`
	BandwidthOut *seedbed.BitRate        `json:"bandwidth_out,omitempty"`
	Domain       *string                 `json:"domain,omitempty"`
	Search       *[]string               `json:"search,omitempty"`
	NTP          *[]netip.Addr           `json:"ntp,omitempty"`
	Routes       *[]seedbed.NetworkRoute `json:"routes,omitempty"`
	BootServer   *netip.Addr             `json:"boot_server,omitempty"`
	BootFile     *string                 `json:"boot_file,omitempty"`
	// Prefix6 is the IPv6 prefix of the guests; an empty one takes it away.
	Prefix6  *netip.Prefix               `json:"prefix6,omitempty"`
	SLAAC    *bool                       `json:"slaac,omitempty"`
	Range6   *netip.Prefix               `json:"range6,omitempty"`
	Gateway6 *netip.Addr                 `json:"gateway6,omitempty"`
	NoProbe  *bool                       `json:"no_probe,omitempty"`
	Identity *string                     `json:"identity,omitempty"`
	Allow    *seedbed.NetworkPermissions `json:"allow,omitempty"`
}

// Apply makes the change to a network. Its peers are named by their qualified names. It returns ErrNotFound for a reservation to
// remove, or a peering to end, that does not exist.
func (c NetworkChange) Apply(n *seedbed.Network) error {
	set(&n.Kind, c.Kind)
	set(&n.DNS, c.DNS)
	set(&n.DHCP, c.DHCP)
	set(&n.Description, c.Description)
	set(&n.Floating, c.Floating)
	set(&n.FloatingUplink, c.FloatingUplink)
	set(&n.Range, c.Range)
	set(&n.Kept, c.Kept)
	set(&n.MTU, c.MTU)
	set(&n.BandwidthIn, c.BandwidthIn)
	set(&n.BandwidthOut, c.BandwidthOut)
	set(&n.Domain, c.Domain)
	set(&n.Search, c.Search)
	set(&n.NTP, c.NTP)
	set(&n.Routes, c.Routes)
	set(&n.BootServer, c.BootServer)
	set(&n.BootFile, c.BootFile)
	if set(&n.Prefix6, c.Prefix6); !n.Prefix6.IsValid() { // what belongs to it goes with it
		n.SLAAC, n.Range6, n.Router6 = false, netip.Prefix{}, netip.Addr{}
	}
	set(&n.SLAAC, c.SLAAC)
	set(&n.Range6, c.Range6)
	set(&n.Router6, c.Gateway6)
	set(&n.NoProbe, c.NoProbe)
	set(&n.Identity, c.Identity)
	set(&n.Allow, c.Allow)
	if err := n.Peer(c.Peer, c.Unpeer); err != nil {
		return err
	}
	return n.Reserve(c.Reserve, c.Unreserve)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// ProjectRequest creates a project.
type ProjectRequest struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Quota bounds what the project may have.
	Quota seedbed.ProjectQuota `json:"quota,omitzero"`
}

// ProjectStatus is a project and what it uses.
type ProjectStatus struct {
	seedbed.Project
	Used seedbed.Use `json:"used"`
}

// ProjectChange changes a project. Nil fields change nothing.
type ProjectChange struct {
	Description *string `json:"description,omitempty"`
}

// TokenRequest creates a token of the API.
type TokenRequest struct {
	Name string       `json:"name"`
	Role seedbed.Role `json:"role"`
	// Grants are what its holder may do in other projects.
	Grants []seedbed.Grant `json:"grants,omitempty"`
	// Expires is when the token expires. The zero time means never.
	Expires time.Time `json:"expires,omitzero"`
	// Quota bounds the instances that are created with the token.
	Quota seedbed.TokenQuota `json:"quota,omitzero"`
}

// TokenChange changes a token. Nil leaves a value as it is.
type TokenChange struct {
	Role *seedbed.Role `json:"role,omitempty"`
	// Grants are what its holder may do in other projects.
	Grants *[]seedbed.Grant `json:"grants,omitempty"`
	// Expires is when the token expires. The zero time means never.
	Expires *time.Time `json:"expires,omitempty"`
}

// RoleRequest creates a role.
type RoleRequest struct {
	Name        seedbed.Role `json:"name"`
	Description string       `json:"description,omitempty"`
	// Actions are names of actions, and "noun.*" for all actions of that noun.
	Actions []string `json:"actions"`
}

// RoleDefinition replaces what a role says.
type RoleDefinition struct {
	Description string   `json:"description,omitempty"`
	Actions     []string `json:"actions"`
}

// Role is a role with all its actions.
type Role struct {
	seedbed.CustomRole
	BuiltIn bool `json:"built_in"`
	// Expanded are the actions that it has in this release.
	Expanded []seedbed.Action `json:"expanded"`
}

// Whoami is who a caller is, and what it may do in the project that the request acts in.
type Whoami struct {
	// Name is "token NAME", or "uid N" of the control socket.
	Name    string       `json:"name"`
	Project string       `json:"project"`
	Role    seedbed.Role `json:"role"`
	// Grants are all its roles, by project.
	Grants  []seedbed.Grant  `json:"grants"`
	Actions []seedbed.Action `json:"actions"`
}

// NewToken is a new token.
type NewToken struct {
	Token seedbed.Token `json:"token"`
	// Secret is the text that the token's holder sends. It cannot be read again.
	Secret string `json:"secret"`
}

// SignIn is where people sign in.
type SignIn struct {
	// URL is where a browser begins, and Issuer the provider at which the person signs in.
	URL    string `json:"url"`
	Issuer string `json:"issuer"`
}

// SessionRequest exchanges the code at the end of a sign-in for a session.
type SessionRequest struct {
	Code string `json:"code"`
	// Verifier is the secret whose SHA-256 the sign-in began with (RFC 7636).
	Verifier string `json:"verifier"`
}

// Session is a session of a person who has signed in.
type Session struct {
	seedbed.Session
	// Grants are what the person may do now. Requests that name no project act in that of the first.
	Grants []seedbed.Grant `json:"grants"`
	// Current reports whether it is the session of the request.
	Current bool `json:"current"`
}

// NewSession is a new session.
type NewSession struct {
	Session Session `json:"session"`
	// Secret is the text that the session's holder sends. It cannot be read again.
	Secret string `json:"secret"`
}

// TrashItem is a removed volume that still exists.
type TrashItem struct {
	seedbed.TrashItem
	// InstanceName is the name of the volume's former instance, if it is still known.
	InstanceName string `json:"instance_name,omitempty"`
}

// StoredVolume is a volume that was restored from the trash.
type StoredVolume struct {
	seedbed.VolumeInfo
	// Disk says how to reach it on its node. Only callers from the default project are told.
	Disk seedbed.Disk `json:"disk,omitzero"`
}

// DiscardRequest puts a restored volume back into the trash.
type DiscardRequest struct {
	Pool string `json:"pool"`
	Name string `json:"name"`
}
