package seedbed

import (
	"net/netip"
	"time"
)

// Guest is an instance as the guest plane serves it: a record of the feed.
type Guest struct {
	ID       InstanceID `json:"id"`
	Name     string     `json:"name"`
	Profile  string     `json:"profile"`
	Image    string     `json:"image"`
	VCPUs    int        `json:"vcpus"`
	Memory   Bytes      `json:"memory"`
	NICs     []GuestNIC `json:"nics"`
	SSHKeys  []string   `json:"ssh_keys,omitempty"`
	UserData *Blob      `json:"user_data,omitempty"`
	// ReportToken is the secret last element of the one-time phone-home path; empty when there is none.
	ReportToken string    `json:"report_token,omitempty"`
	Created     time.Time `json:"created"`
	// Node is the hypervisor that it runs on.
	Node string `json:"node"`
}

// GuestNIC is a NIC as the guest plane sees it.
type GuestNIC struct {
	ID      NICID      `json:"id"`
	MAC     MAC        `json:"mac"`
	Network string     `json:"network"`
	Addr    netip.Addr `json:"addr"`
}

// Blob names a document by its content.
type Blob struct {
	// SHA256 is the lower-case hexadecimal digest.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// FeedChange is one record of the feed; Guest is nil when the instance is no longer served.
type FeedChange struct {
	Revision int64      `json:"revision"`
	Instance InstanceID `json:"instance"`
	Guest    *Guest     `json:"guest,omitempty"`
}

// FeedPage is one answer of the feed.
type FeedPage struct {
	// Snapshot is true when Changes is everything that is served, and what is not in it must go.
	Snapshot bool `json:"snapshot"`
	// Revision is the node's revision once the page is applied.
	Revision int64 `json:"revision"`
	// Generation changes when the database was replaced; a client with another starts from a snapshot.
	Generation string       `json:"generation"`
	Changes    []FeedChange `json:"changes"`
	Networks   []Network    `json:"networks"`
	// TokenKey is the installation's 32-byte key for IMDSv2 session tokens.
	TokenKey []byte `json:"token_key"`
}

// GuestEvent is one thing that a guest did, spooled by the guest plane and
// delivered at least once; (node, Seq) makes it unique.
type GuestEvent struct {
	// Seq grows by one per node and never repeats for one spool.
	Seq      int64      `json:"seq"`
	Instance InstanceID `json:"instance"`
	// Kind is "lease", "access", "user-data" or "report".
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	// MAC and Addr are set for lease, with Until its end.
	MAC   MAC        `json:"mac,omitzero"`
	Addr  netip.Addr `json:"addr,omitzero"`
	Until time.Time  `json:"until,omitzero"`
	// Method, Path, Status and Bytes are set for access and user-data. The report path is recorded without its token.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	Status int    `json:"status,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	// Fields are what the guest posted, for report: names and values, clipped to 4 KiB in all.
	Fields map[string]string `json:"fields,omitempty"`
}

// The kinds of GuestEvent.
const (
	GuestLease    = "lease"
	GuestAccess   = "access"
	GuestUserData = "user-data"
	GuestReport   = "report"
)

// Lease is a DHCP lease as last reported.
type Lease struct {
	MAC      MAC        `json:"mac"`
	Addr     netip.Addr `json:"addr"`
	Instance InstanceID `json:"instance"`
	Until    time.Time  `json:"until"`
}
