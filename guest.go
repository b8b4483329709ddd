package seedbed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Guest is an instance as the guest plane serves it: a record of the feed.
type Guest struct {
	ID InstanceID `json:"id"`
	// Account is the number of its project, twelve digits.
	Account string `json:"account,omitempty"`
	Name    string `json:"name"`
	// Project is the name of its project; empty for the default one.
	Project  string     `json:"project,omitempty"`
	Profile  string     `json:"profile"`
	Image    string     `json:"image"`
	VCPUs    int        `json:"vcpus"`
	Memory   Bytes      `json:"memory"`
	NICs     []GuestNIC `json:"nics"`
	SSHKeys  []string   `json:"ssh_keys,omitempty"`
	UserData *Blob      `json:"user_data,omitempty"`
	// VendorData is for the OpenStack and NoCloud dialects; EC2 has none.
	VendorData *Blob `json:"vendor_data,omitempty"`
	// Disks are in the order of their index; the first is the root disk.
	Disks []GuestDisk `json:"disks,omitempty"`
	// Tags are served at tags/instance, and as OpenStack's meta.
	Tags    map[string]string `json:"tags,omitempty"`
	Options MetadataOptions   `json:"options,omitzero"`
	// Region and Zone are where it is placed. They never have a form that distributions take for
	// Amazon's.
	Region string `json:"region,omitempty"`
	Zone   string `json:"zone,omitempty"`
	// Signature is the installation's RSA signature (PKCS #1 v1.5, SHA-256) of IdentityDocument,
	// made by seedbedd. It is empty if seedbedd could not sign.
	Signature []byte `json:"signature,omitempty"`
	// Action is what is about to happen to it, one of the Action constants. Empty means ActionNone.
	Action      string        `json:"action,omitempty"`
	Maintenance []Maintenance `json:"maintenance,omitempty"`
	Spot        *Spot         `json:"spot,omitempty"`
	Expiry      *Expiry       `json:"expiry,omitempty"`
	// Password is what the guest posted (OpenStack password), encrypted with its public key; empty
	// if it posted none.
	Password string `json:"password,omitempty"`
	// ReportToken is the secret last element of the one-time phone-home path; empty if there is
	// none.
	ReportToken string    `json:"report_token,omitempty"`
	Created     time.Time `json:"created"`
	// Node is the node that it runs on.
	Node string `json:"node"`
	// Arriving is true on a node that it is on its way to. What one node only may have of it, such as a floating address, stays at Node.
	Arriving bool `json:"arriving,omitempty"`
}

// maxHostname is the longest name that Linux accepts as that of a host (sethostname(2)).
const maxHostname = 64

// Hostname returns the name by which the guest may call itself, in the default project its own name.
// Elsewhere it is a fully qualified name in the domain of the project: web1.acme.internal, because two
// projects can have a web1. The top-level domain internal is reserved for private use. A name that
// Linux would not accept is left without the domain.
func (g Guest) Hostname() string {
	full := g.Name + "." + g.Project + ".internal"
	if g.Project == "" || len(full) > maxHostname {
		return g.Name
	}
	return full
}

// Peer returns what other nodes are told of the guest that a node serves: its ID, name, project and node, and of its NICs in
// the given networks the MAC, the addresses and the security groups.
func (g Guest) Peer(node string, networks []string) Guest {
	out := Guest{ID: g.ID, Name: g.Name, Project: g.Project, Node: node}
	for _, nic := range g.NICs {
		if slices.Contains(networks, nic.Network) {
			out.NICs = append(out.NICs, GuestNIC{MAC: nic.MAC, Network: nic.Network, Addr: nic.Addr, Secondary: nic.Secondary, Groups: nic.Groups,
				Hidden: nic.Hidden})
		}
	}
	return out
}

// GuestDisk is a disk as the guest sees it.
type GuestDisk struct {
	// Device is the name on its bus, such as "vda".
	Device string `json:"device"`
	Size   Bytes  `json:"size"`
	// Attached is true for a volume that was attached to the instance. They come after its own disks.
	Attached bool `json:"attached,omitempty"`
}

// Documents are the bodies of the documents that a Guest names; nil means none.
type Documents struct {
	UserData   []byte
	VendorData []byte
}

// Site holds what is the same for every guest of an installation.
type Site struct {
	// Domain and Partition are served at services/domain and services/partition.
	Domain    string `json:"domain,omitempty"`
	Partition string `json:"partition,omitempty"`
	// Certificate is the DER form of the certificate whose key signs identity documents.
	Certificate []byte `json:"certificate,omitempty"`
}

// GuestNIC is a NIC as the guest plane sees it.
type GuestNIC struct {
	ID      NICID      `json:"id"`
	MAC     MAC        `json:"mac"`
	Network string     `json:"network"`
	Addr    netip.Addr `json:"addr"`
	// Secondary are its further addresses.
	Secondary []netip.Addr `json:"secondary,omitempty"`
	// Groups are its security groups, by their qualified names; see Open.
	Groups []string `json:"security_groups,omitempty"`
	// BandwidthIn and BandwidthOut are its own rates.
	BandwidthIn  BitRate `json:"bandwidth_in,omitempty"`
	BandwidthOut BitRate `json:"bandwidth_out,omitempty"`
	// Forwards are the ports of the node that go to it.
	Forwards []Forward `json:"forwards,omitempty"`
	// Floating is its floating address, if it has one, and Floating6 the one of IPv6.
	Floating  netip.Addr `json:"floating,omitzero"`
	Floating6 netip.Addr `json:"floating6,omitzero"`
	// Index is its number in the instance, from 0. There may be gaps where NICs were removed.
	Index int `json:"index,omitempty"`
	// Hidden is true while a job adds or removes it: its filters are in place, and the metadata does not name it.
	Hidden bool `json:"hidden,omitempty"`
}

// Shown returns the NICs that the metadata names.
func (g Guest) Shown() []GuestNIC {
	hidden := func(n GuestNIC) bool { return n.Hidden }
	if !slices.ContainsFunc(g.NICs, hidden) {
		return g.NICs
	}
	return slices.DeleteFunc(slices.Clone(g.NICs), hidden)
}

// Blob names a document by its content.
type Blob struct {
	// SHA256 is the lower-case hexadecimal digest.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// FeedChange is one change of the feed: a new record of an instance, or its removal.
type FeedChange struct {
	Revision int64      `json:"revision"`
	Instance InstanceID `json:"instance"`
	// Record is the JSON form of a Guest, which the control host passes on without decoding it.
	// It is nil if the instance is no longer served.
	Record json.RawMessage `json:"guest,omitempty"`
}

// FeedPage is one answer of the feed.
type FeedPage struct {
	// Snapshot is true if Changes holds every record. The client then removes the records that are
	// not in it.
	Snapshot bool `json:"snapshot"`
	// Revision is the node's revision once the page is applied.
	Revision int64 `json:"revision"`
	// Generation changes when the database is replaced. A client with another generation starts
	// from a snapshot.
	Generation string       `json:"generation"`
	Changes    []FeedChange `json:"changes"`
	Networks   []Network    `json:"networks"`
	// Groups are the security groups of all projects.
	Groups []SecurityGroup `json:"security_groups,omitempty"`
	// TokenKey is the installation's 32-byte key for IMDSv2 session tokens.
	TokenKey []byte `json:"token_key"`
	Site     Site   `json:"site,omitzero"`
	// Maintenance holds the maintenance events of the node, which are served to every guest on it.
	Maintenance []Maintenance `json:"maintenance,omitempty"`
	// Peers is what changed of the node's peers; nil if nothing did, or if the client does not follow them.
	Peers *PeerPage `json:"peers,omitempty"`
	// Nodes are the addresses of the nodes that have one, by name, if there are overlays.
	Nodes map[string]netip.Addr `json:"nodes,omitempty"`
	// Tunnels are those of the nodes that encrypt what they send of overlays, by name.
	Tunnels map[string]Tunnel `json:"tunnels,omitempty"`
}

// PeerPage is what changed of a node's peers: the guests of other nodes in networks that reach several nodes. Their
// records are those that [Guest.Peer] returns. A feed has its revisions of peers apart from those of guests, and nobody
// waits until a node has applied them.
type PeerPage struct {
	// Snapshot is true if Changes holds every peer.
	Snapshot bool `json:"snapshot"`
	// Revision is that of the peers once the page is applied.
	Revision int64        `json:"revision"`
	Changes  []FeedChange `json:"changes"`
}

// GuestEvent is one thing that a guest did, spooled by the guest plane and delivered at least once;
// (node, Seq) makes it unique.
type GuestEvent struct {
	// Seq grows by one per node and never repeats for one spool.
	Seq      int64      `json:"seq"`
	Instance InstanceID `json:"instance"`
	// Kind is "lease", "access", "user-data", "report" or "password".
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	// MAC, Addr and Until, the end of the lease, are set for lease.
	MAC   MAC        `json:"mac,omitzero"`
	Addr  netip.Addr `json:"addr,omitzero"`
	Until time.Time  `json:"until,omitzero"`
	// Method, Path, Status and Bytes are set for access and user-data. The report path is recorded
	// without its token.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	Status int    `json:"status,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	// Fields are what the guest posted, for report and password: names and values, clipped to 4 KiB
	// in all.
	Fields map[string]string `json:"fields,omitempty"`
	// Token is, for report, password and requests for user-data, the TokenDigest of the report token
	// that the guest had. A rebuild gives an instance another token, so what its former guest did can
	// be told. It is empty if it is not known. It is not stored.
	Token string `json:"token,omitempty"`
}

// OfUserData reports whether the event is a request for user-data, whatever its answer.
func (e GuestEvent) OfUserData() bool {
	path := strings.TrimSuffix(e.Path, "/")
	return e.Kind == GuestUserData || e.Kind == GuestAccess &&
		(strings.HasSuffix(path, "/user-data") || strings.HasSuffix(path, "/user_data"))
}

// TokenDigest returns the SHA-256 digest of a report token in hexadecimal; "none" for none.
func TokenDigest(token string) string {
	if token == "" {
		return "none"
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// The kinds of GuestEvent.
const (
	GuestLease    = "lease"
	GuestAccess   = "access"
	GuestUserData = "user-data"
	GuestReport   = "report"
	// GuestPassword: the guest posted its encrypted administrator password, once; Fields has
	// "password".
	GuestPassword = "password"
)

// Lease is a DHCP lease as last reported.
type Lease struct {
	MAC      MAC        `json:"mac"`
	Addr     netip.Addr `json:"addr"`
	Instance InstanceID `json:"instance"`
	Until    time.Time  `json:"until"`
}

// GuestPlaneState is everything that a node's guest plane serves at one revision of the feed. The
// feed's client hands it over as a whole; it stays usable and unchanged for as long as a receiver
// keeps it.
type GuestPlaneState struct {
	// Guests are the records of the node's instances, and Guest finds one of them. Each record is
	// unpacked when it is read; what it points to is shared and must not be changed.
	Guests   iter.Seq2[InstanceID, Guest]
	Guest    func(InstanceID) (Guest, bool)
	Networks []Network
	Groups   []SecurityGroup
	// TokenKey is the installation's 32-byte key for session tokens. Without it no token is issued
	// or accepted.
	TokenKey []byte
	// Blob finds a document by its lower-case SHA-256. Every document that Guests name is there.
	// The bytes must not be changed.
	Blob     func(sha256 string) ([]byte, bool)
	Revision int64
	// InSync is true once everything that the server had at the last contact is included.
	InSync bool
	Site   Site
	// Maintenance holds the maintenance events of the node, which are served to every guest.
	Maintenance []Maintenance
	// Peers are the guests of other nodes in networks that reach several nodes, as [Guest.Peer] returns them, and Peer
	// finds one of them. One may be among Guests as well for a moment, when it has come to this node.
	Peers iter.Seq2[InstanceID, Guest]
	Peer  func(InstanceID) (Guest, bool)
	// Nodes are the addresses of nodes, by name: where each gets the frames of overlays. Tunnels are those of the nodes that
	// encrypt them.
	Nodes   map[string]netip.Addr
	Tunnels map[string]Tunnel
	// Since and Changed say what is new. A receiver that serves the state of revision Since that came
	// before this one has every record but those of Changed, which were added, changed or removed, and every peer but
	// those of ChangedPeers. Since is -1 if everything may be new.
	Since        int64
	Changed      []InstanceID
	ChangedPeers []InstanceID
}

// MaxDocument bounds a user-data or vendor-data document whatever the configuration, because the
// guest plane keeps each in memory.
const MaxDocument = 16 * MiB

// The bounds of tags (Amazon's: 50 tags, keys of 128 and values of 256 characters).
const (
	MaxTags     = 50
	maxTagKey   = 128
	maxTagValue = 256
)

// CheckDocument returns ErrInvalid for a document larger than MaxDocument. The message calls it
// what.
func CheckDocument(what string, data []byte) error {
	if len(data) > int(MaxDocument) {
		return Errorf(ErrInvalid, "%s has %d bytes: expected at most %s", what, len(data), MaxDocument)
	}
	return nil
}

// CheckTags returns ErrInvalid for tags that cannot be served at tags/instance. A key is one
// element of a path, so it must not contain a slash or space, or be "." or ".." (EC2 user guide,
// "Access to instance tags in instance metadata"). A value is one line of text.
func CheckTags(tags map[string]string) error {
	if len(tags) > MaxTags {
		return Errorf(ErrInvalid, "there are %d tags: expected at most %d", len(tags), MaxTags)
	}
	for k, v := range tags {
		switch {
		case k == "" || utf8.RuneCountInString(k) > maxTagKey || !utf8.ValidString(k):
			return Errorf(ErrInvalid, "tag %q has no usable key: expected 1 to %d characters", Clip(k), maxTagKey)
		case k == "." || k == ".." || k == "_index" || strings.ContainsAny(k, "/ =") || strings.ContainsFunc(k, isControl):
			return Errorf(ErrInvalid,
				"tag %q has no usable key: expected one without slash, space and equals sign, other than \".\", \"..\" and \"_index\"", Clip(k))
		case utf8.RuneCountInString(v) > maxTagValue || !utf8.ValidString(v) || strings.ContainsFunc(v, isControl):
			return Errorf(ErrInvalid, "tag %s has no usable value: expected one line of at most %d characters", Clip(k), maxTagValue)
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// Maintenance is one announced event of an instance or of its node, with the fields of EC2's
// events/maintenance.
type Maintenance struct {
	// ID is "instance-event-" and 17 hexadecimal digits.
	ID string `json:"id"`
	// Code is instance-reboot, system-reboot, system-maintenance, instance-retirement or
	// instance-stop.
	Code        string    `json:"code"`
	Description string    `json:"description"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after,omitzero"`
	// State is active (scheduled), completed or canceled (history).
	State string `json:"state"`
}

// The states of a Maintenance.
const (
	MaintenanceActive    = "active"
	MaintenanceCompleted = "completed"
	MaintenanceCanceled  = "canceled"
)

// Spot is an interruption that the operator announces to an instance (EC2 spot/instance-action,
// spot/termination-time and events/recommendations/rebalance).
type Spot struct {
	// Action is terminate, stop or hibernate; empty when only Rebalance is set.
	Action string `json:"action,omitempty"`
	// Time is when the action will be taken.
	Time time.Time `json:"time,omitzero"`
	// Rebalance is when the risk was noticed; zero without a recommendation.
	Rebalance time.Time `json:"rebalance,omitzero"`
}

// The values of Guest.Action (EC2 instance-action).
const (
	ActionNone     = "none"
	ActionShutdown = "shutdown"
	ActionReboot   = "reboot"
)
