// Package config is the configuration that the three daemons share. It is one YAML file, in which
// every key is optional and an unknown key is an error. Only this package reads the file, and no
// setting comes from the environment.
package config

import (
	"net/netip"
	"time"

	"seedbed"
)

// DefaultPath is the file that the daemons read by default. It need not exist.
const DefaultPath = "/etc/seedbed/seedbed.yaml"

// Config is a complete and valid configuration, in which Load has filled in the defaults. Paths are
// absolute.
type Config struct {
	// Node is this host's name as a node. The default is its host name.
	Node string `yaml:"node"`
	// DataDir holds secrets and state, RunDir the sockets. The default paths of other keys are
	// below them.
	DataDir string `yaml:"data_dir"`
	RunDir  string `yaml:"run_dir"`
	// Group is the group that may use the sockets, in addition to the daemon's own user. Empty
	// means that user's group.
	Group string `yaml:"group"`
	// Hypervisor reports whether instances run on this host. It is false for a host that only
	// controls others.
	Hypervisor bool `yaml:"hypervisor"`

	Store        Store        `yaml:"store"`
	API          API          `yaml:"api"`
	OIDC         OIDC         `yaml:"oidc"`
	Webhook      Webhook      `yaml:"webhook"`
	Feed         Feed         `yaml:"feed"`
	Worker       Worker       `yaml:"worker"`
	Metadata     Metadata     `yaml:"metadata"`
	Identity     Identity     `yaml:"identity"`
	Storage      Storage      `yaml:"storage"`
	Libvirt      Libvirt      `yaml:"libvirt"`
	Scripts      Scripts      `yaml:"scripts"`
	Network      Network      `yaml:"network"`
	Jobs         Jobs         `yaml:"jobs"`
	Cleanup      Cleanup      `yaml:"cleanup"`
	Cluster      Cluster      `yaml:"cluster"`
	Coordination Coordination `yaml:"coordination"`
	Placement    Placement    `yaml:"placement"`
	Fencing      Fencing      `yaml:"fencing"`
	Log          Log          `yaml:"log"`
}

// API configures seedbedd's REST API.
type API struct {
	Listen    string `yaml:"listen"`     // TCP address; callers need a token
	Socket    string `yaml:"socket"`     // Unix socket; its file mode decides who may connect
	TokenFile string `yaml:"token_file"` // created at the first start, 0600
	TLS       APITLS `yaml:"tls"`
}

// APITLS holds the PEM files of the API's TCP listener. Without them, the listener does not use
// TLS.
type APITLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Feed configures where seedbedd serves the feed, and which servers the guest plane follows.
type Feed struct {
	Socket string `yaml:"socket"`
	// Group is the group that may use the socket. Empty means Config.Group. The guest plane faces
	// untrusted guests: with a group of its own, it can open no other socket.
	Group string `yaml:"group"`
	// ClusterListen is the TLS address for other hosts' guest planes. If it is empty, only the
	// socket is served.
	ClusterListen string `yaml:"cluster_listen"`
	// Servers are the control hosts, as host:port, of which seedbed-metadata follows one at a time.
	// If it is empty, seedbed-metadata uses the socket.
	Servers []string `yaml:"servers"`
}

// Worker configures where seedbed-worker serves seedbedd, and where it keeps files.
type Worker struct {
	Socket string `yaml:"socket"`
	Listen string `yaml:"listen"` // health and metrics, loopback only
	// ClusterListen is the TLS address for control hosts. If it is empty, only the socket is
	// served.
	ClusterListen string `yaml:"cluster_listen"`
	// State is the directory that records what the worker has mapped and must unmap. It is below
	// /run.
	State string `yaml:"state"`
	// DataDir is the directory of what the worker knows across restarts of the host: the marks of
	// its directory pools.
	DataDir string `yaml:"data_dir"`
	// Spool is the directory for files that are being received for pools without a directory of
	// their own.
	Spool string `yaml:"spool"`
	// HooksDir is the directory of the scripts that stage hooks name.
	HooksDir string `yaml:"hooks_dir"`
	// FenceDir is the directory of the scripts that are fence agents.
	FenceDir string `yaml:"fence_dir"`
}

// Fencing configures when seedbedd has a lost node switched off.
type Fencing struct {
	// After is for how long neither its worker nor its guest plane answers; 0 for never.
	After time.Duration `yaml:"after"`
	// Share is how many percent of the nodes may be fenced at the same time.
	Share int `yaml:"share"`
	// KeyFile has the key that seals the secrets of fence agents. It is made at the first start. All control hosts have the same.
	KeyFile string `yaml:"key_file"`
}

// MinFencing is the shortest fencing.after. Workers start no guest when they have not heard of a control host for half a minute.
const MinFencing = 40 * time.Second

// Metadata configures how seedbed-metadata serves guests.
type Metadata struct {
	// Listen is MetadataAddr, or MetadataRedirect if another program uses port 80.
	Listen       string `yaml:"listen"`
	RedirectPort uint16 `yaml:"redirect_port"`
	// TrackedConnections bounds the connections of one NIC that the kernel tracks.
	TrackedConnections int `yaml:"tracked_connections"`
	// FragmentRate bounds the fragments of one NIC that the kernel puts together, in a second; 0 is no
	// bound.
	FragmentRate int    `yaml:"fragment_rate"`
	State        string `yaml:"state"`  // directory of the feed's snapshot and the spool
	Health       string `yaml:"health"` // health and metrics, loopback only
	// The following keys are seedbedd's, for the records that are served.
	Region     string `yaml:"region"`
	Zone       string `yaml:"zone"`
	Domain     string `yaml:"domain"`
	Partition  string `yaml:"partition"`
	VendorData string `yaml:"vendor_data"` // a file; empty means none
	// MaxUserData bounds the user-data of one guest, in the form that is served.
	MaxUserData seedbed.Bytes `yaml:"max_user_data"`
}

// Identity is the key that signs instance identity documents, and its certificate. If both are
// empty, they are created at the first start.
type Identity struct {
	Key         string `yaml:"key"`
	Certificate string `yaml:"certificate"`
}

// These are the values of Metadata.Listen.
const (
	// MetadataAddr is the address and port from which cloud-init reads metadata.
	MetadataAddr = "169.254.169.254:80"
	// MetadataRedirect makes the kernel redirect MetadataAddr to Metadata.RedirectPort.
	MetadataRedirect = "redirect"
)

// Port returns the TCP port that the metadata server binds: 80, or the redirect port.
func (m Metadata) Port() uint16 {
	if m.Listen == MetadataRedirect {
		return m.RedirectPort
	}
	return 80
}

// Addr returns the address that the metadata server binds on each bridge.
func (m Metadata) Addr() netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddrPort(MetadataAddr).Addr(), m.Port())
}

// Storage configures where volumes and images are kept.
type Storage struct {
	Pools []Pool `yaml:"pools"`
	// MaxUpload bounds the size of one upload through the API.
	MaxUpload seedbed.Bytes `yaml:"max_upload"`
	// ImportDirs are the directories of workers' hosts from which images may be imported; if there
	// are none, files that every user may read.
	ImportDirs []string `yaml:"import_dirs"`
	// BackupDirs are the directories of workers' hosts in which backups may be, or below which.
	BackupDirs []string `yaml:"backup_dirs"`
	// BackupCommands are the commands that workers may run before and after a place of backups is used.
	BackupCommands []string `yaml:"backup_commands"`
}

// Libvirt configures the connection to libvirt.
type Libvirt struct {
	URI        string `yaml:"uri"`
	DomainType string `yaml:"domain_type"` // "auto", "kvm" or "qemu"
	ConsoleDir string `yaml:"console_dir"`
	CDROMDir   string `yaml:"cdrom_dir"`
	// Migration is how guests that run come to this node; see seedbed.MigrationTarget.
	Migration Migration `yaml:"migration"`
}

// Migration is how the libvirt of other nodes reaches that of this one.
type Migration struct {
	URI     string `yaml:"uri"`
	DataURI string `yaml:"data_uri"`
	TLS     bool   `yaml:"tls"`
}

// Network is the managed bridge that is created at the first start.
type Network struct {
	Name   string       `yaml:"name"`
	Bridge string       `yaml:"bridge"`
	Prefix Prefix       `yaml:"prefix"`
	NAT    bool         `yaml:"nat"`
	DHCP   bool         `yaml:"dhcp"`
	DNS    []netip.Addr `yaml:"dns"`
	// ProjectPrefixes are the prefixes in which projects other than the default one may make networks. Guests of a
	// network take its addresses from the nodes, so without any, only administrators of the installation make some.
	ProjectPrefixes []netip.Prefix `yaml:"project_prefixes"`
	// Forwarders are the resolvers that this node asks what guests want to know of other networks; if there are none, those of
	// /etc/resolv.conf.
	Forwarders []netip.Addr `yaml:"forwarders"`
	// Uplinks are the interfaces of this node for uplinks of bridged networks that have another name here.
	Uplinks map[string]string `yaml:"uplinks"`
	// Address is where other nodes send the frames of overlays; by default, the address from which this one reaches other
	// networks.
	Address netip.Addr `yaml:"address"`
	// Overlay is how the frames of overlays cross the wire between this node and the others.
	Overlay Overlay `yaml:"overlay"`
	// PVCUplink is the uplink of the bridged networks that PVC's clients make, whose VLAN is their VNI.
	PVCUplink string `yaml:"pvc_uplink"`
}

// Overlay configures how the frames of overlays cross the wire between this node and the others.
type Overlay struct {
	Encryption string `yaml:"encryption"` // "none" or "wireguard"
	// Port is the UDP port of encrypted frames.
	Port uint16 `yaml:"port"`
	// Group is the multicast group that gets the frames for all nodes; without one, each node gets a copy.
	Group netip.Addr `yaml:"group"`
	// EVPN is whether a daemon of the site's own tells the kernel where guests of other nodes are.
	EVPN bool `yaml:"evpn"`
}

// The values of Overlay.Encryption.
const (
	EncryptionNone      = "none"
	EncryptionWireGuard = "wireguard"
)

// Encrypted reports whether the node encrypts the frames of overlays.
func (o Overlay) Encrypted() bool { return o.Encryption == EncryptionWireGuard }

// Prefix is an IPv4 subnet, or "auto" for a free one that is chosen at the first start and then
// kept. The zero value is auto.
type Prefix struct{ netip.Prefix }

// Auto reports whether a free subnet is chosen.
func (p Prefix) Auto() bool { return !p.IsValid() }

// MarshalText implements encoding.TextMarshaler.
func (p Prefix) MarshalText() ([]byte, error) {
	if p.Auto() {
		return []byte("auto"), nil
	}
	return p.Prefix.MarshalText()
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Prefix) UnmarshalText(b []byte) error {
	if string(b) == "auto" {
		*p = Prefix{}
		return nil
	}
	v, err := netip.ParsePrefix(string(b))
	if err != nil {
		return err
	}
	p.Prefix = v
	return nil
}

// Jobs configures how the engine runs jobs.
type Jobs struct {
	Workers int `yaml:"workers"` // slots: jobs that may run concurrently
	// Lease is how long an engine owns a job without renewing its lease. After that, another engine
	// takes over the jobs of a crashed seedbedd.
	Lease    time.Duration `yaml:"lease"`
	Poll     time.Duration `yaml:"poll"`     // how often the queue is read
	Attempts int           `yaml:"attempts"` // of one stage, before the job is undone
	// MaxQueued is how many jobs may wait before webhooks are refused. 0 means no limit.
	MaxQueued int `yaml:"max_queued"`
	// PerNode and PerPool limit the jobs that run concurrently on one node and on one pool, over
	// all control hosts. 0 means no limit.
	PerNode int `yaml:"per_node"`
	PerPool int `yaml:"per_pool"`
	// Hooks are endpoints or scripts that are called before and after stages.
	Hooks []seedbed.StageHook `yaml:"hooks"`
	// StageTimeout bounds one attempt of each stage, by stage name. It has an entry for every
	// stage.
	StageTimeout map[string]time.Duration `yaml:"stage_timeout"`
}

// Cleanup configures what is removed automatically.
type Cleanup struct {
	Mappings   Mappings `yaml:"mappings"`
	Deliveries Records  `yaml:"deliveries"`
	Access     Records  `yaml:"access"`
	Output     Records  `yaml:"output"`
	Audit      Records  `yaml:"audit"`
	Backups    Records  `yaml:"backups"`
}

// Mappings configures the cleanup of addresses whose domain no longer exists.
type Mappings struct {
	Schedule string        `yaml:"schedule"` // five cron fields, in UTC
	Grace    time.Duration `yaml:"grace"`
}

// Records configures the cleanup of one kind of record.
type Records struct {
	Retention time.Duration `yaml:"retention"`
}

// Log configures the daemons' log on stderr.
type Log struct {
	Level string `yaml:"level"` // "debug", "info", "warn" or "error"
}
