// Package config is the configuration that the three daemons share: one YAML
// file, every key optional, an unknown key fatal. Nothing else reads the file,
// and nothing is read from the environment.
package config

import (
	"net/netip"
	"time"

	"seedbed"
)

// DefaultPath is the file that the daemons read when no other is named; it
// need not exist.
const DefaultPath = "/etc/seedbed/seedbed.yaml"

// Config is a complete, valid configuration: Load has filled in what the file
// left out. Paths are absolute.
type Config struct {
	// Node is this host's name among the hypervisors; by default its host name.
	Node string `yaml:"node"`
	// DataDir holds secrets and state, RunDir the sockets. Paths of other keys
	// that are left out are below them.
	DataDir string `yaml:"data_dir"`
	RunDir  string `yaml:"run_dir"`
	// Group is the group that may use the sockets, besides their daemon's own
	// user; empty means that user's group.
	Group string `yaml:"group"`
	// Hypervisor reports whether guests run on this host; false for one that only controls others.
	Hypervisor bool `yaml:"hypervisor"`

	Store        Store        `yaml:"store"`
	API          API          `yaml:"api"`
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
	Log          Log          `yaml:"log"`
}

// API is where seedbedd serves the REST API.
type API struct {
	Listen    string `yaml:"listen"`     // TCP address; needs the token
	Socket    string `yaml:"socket"`     // unix socket; the file mode decides
	TokenFile string `yaml:"token_file"` // made at the first start, 0600
	TLS       APITLS `yaml:"tls"`
}

// APITLS are the PEM files of the API's TCP listener; without them it does not encrypt.
type APITLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Feed is where seedbedd serves the guest planes, and where they ask.
type Feed struct {
	Socket string `yaml:"socket"`
	// Group is the group that may use it; empty means Config.Group. The guest
	// plane faces strangers: with a group of its own it can open no other socket.
	Group string `yaml:"group"`
	// ClusterListen is where seedbedd serves other hosts' guest planes over TLS; empty for only the socket.
	ClusterListen string `yaml:"cluster_listen"`
	// Servers are the control hosts, host:port, that seedbed-metadata follows, one
	// at a time; empty for the socket.
	Servers []string `yaml:"servers"`
}

// Worker is where seedbed-worker serves seedbedd.
type Worker struct {
	Socket string `yaml:"socket"`
	Listen string `yaml:"listen"` // health and metrics, loopback only
	// ClusterListen is where control hosts are served over TLS; empty for only the socket.
	ClusterListen string `yaml:"cluster_listen"`
	// State is the directory of what the worker has mapped and must take back; below /run.
	State string `yaml:"state"`
	// Spool is the directory of files that are on their way into pools that have none of their own.
	Spool string `yaml:"spool"`
	// HooksDir is the directory of the scripts that hooks of stages name.
	HooksDir string `yaml:"hooks_dir"`
}

// Metadata is how seedbed-metadata serves guests.
type Metadata struct {
	// Listen is MetadataAddr, or MetadataRedirect when another program has port 80.
	Listen       string `yaml:"listen"`
	RedirectPort uint16 `yaml:"redirect_port"`
	State        string `yaml:"state"`  // directory of the feed's snapshot and the spool
	Health       string `yaml:"health"` // health and metrics, loopback only
	// What seedbedd puts into the records that are served:
	Region     string `yaml:"region"`
	Zone       string `yaml:"zone"`
	Domain     string `yaml:"domain"`
	Partition  string `yaml:"partition"`
	VendorData string `yaml:"vendor_data"` // a file; empty means none
	// MaxUserData bounds the user-data of one guest, as it is served.
	MaxUserData seedbed.Bytes `yaml:"max_user_data"`
}

// Identity is the key that signs instance identity documents, with its
// certificate; both empty for those that are made at the first start.
type Identity struct {
	Key         string `yaml:"key"`
	Certificate string `yaml:"certificate"`
}

// The values of Metadata.Listen.
const (
	// MetadataAddr is the address that cloud-init asks, and its port.
	MetadataAddr = "169.254.169.254:80"
	// MetadataRedirect has the kernel send what is for MetadataAddr to Metadata.RedirectPort.
	MetadataRedirect = "redirect"
)

// Port is the TCP port that the metadata server binds: 80, or the redirect port.
func (m Metadata) Port() uint16 {
	if m.Listen == MetadataRedirect {
		return m.RedirectPort
	}
	return 80
}

// Addr is the address that the metadata server binds on each bridge.
func (m Metadata) Addr() netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddrPort(MetadataAddr).Addr(), m.Port())
}

// Storage is where volumes and images are kept.
type Storage struct {
	Pools []Pool `yaml:"pools"`
	// MaxUpload bounds one file that is uploaded through the API.
	MaxUpload seedbed.Bytes `yaml:"max_upload"`
}

// Libvirt is the hypervisor.
type Libvirt struct {
	URI        string `yaml:"uri"`
	DomainType string `yaml:"domain_type"` // "auto", "kvm" or "qemu"
	ConsoleDir string `yaml:"console_dir"`
}

// Network is the managed bridge that is made at the first start.
type Network struct {
	Name   string       `yaml:"name"`
	Bridge string       `yaml:"bridge"`
	Prefix Prefix       `yaml:"prefix"`
	NAT    bool         `yaml:"nat"`
	DHCP   bool         `yaml:"dhcp"`
	DNS    []netip.Addr `yaml:"dns"`
}

// Prefix is an IPv4 subnet, or "auto" for a free one that is chosen at the
// first start and kept. The zero value is auto.
type Prefix struct{ netip.Prefix }

// Auto reports whether the subnet is to be chosen.
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

// Jobs is how the engine runs jobs.
type Jobs struct {
	Workers int `yaml:"workers"` // jobs at work at the same time
	// Lease is how long a silent owner keeps a job: the time after which a
	// crashed seedbedd's jobs are taken up again.
	Lease    time.Duration `yaml:"lease"`
	Poll     time.Duration `yaml:"poll"`     // how often the queue is looked at
	Attempts int           `yaml:"attempts"` // of one stage, before the job is undone
	// MaxQueued is how many jobs may wait before webhooks are put off; 0 is any number.
	MaxQueued int `yaml:"max_queued"`
	// PerNode and PerPool are how many jobs may run at the same time on one node and
	// on one pool, of all control hosts together; 0 is any number.
	PerNode int `yaml:"per_node"`
	PerPool int `yaml:"per_pool"`
	// Hooks are posted to endpoints, or are scripts, before and after stages.
	Hooks []seedbed.StageHook `yaml:"hooks"`
	// StageTimeout bounds one attempt of each stage, by stage name. It has every stage.
	StageTimeout map[string]time.Duration `yaml:"stage_timeout"`
}

// Cleanup is what is taken away without being asked.
type Cleanup struct {
	Mappings   Mappings `yaml:"mappings"`
	Deliveries Records  `yaml:"deliveries"`
	Access     Records  `yaml:"access"`
	Output     Records  `yaml:"output"`
	Audit      Records  `yaml:"audit"`
}

// Mappings is the cleanup of addresses whose domain is gone.
type Mappings struct {
	Schedule string        `yaml:"schedule"` // five cron fields, in UTC
	Grace    time.Duration `yaml:"grace"`
}

// Records is the cleanup of one kind of record.
type Records struct {
	Retention time.Duration `yaml:"retention"`
}

// Log is what the daemons say on stderr.
type Log struct {
	Level string `yaml:"level"` // "debug", "info", "warn" or "error"
}
