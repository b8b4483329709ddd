package seedbed

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Node is one node of the installation: a host that runs seedbed-worker and seedbed-metadata.
type Node struct {
	Name string `json:"name"`
	// Worker is the URL where its seedbed-worker serves control hosts, such as
	// https://hv2.example:7375. Empty means the worker at the local socket of the control host of
	// that name.
	Worker string `json:"worker"`
	// Cordoned nodes keep their instances but do not get new ones.
	Cordoned bool      `json:"cordoned"`
	Created  time.Time `json:"created,omitzero"`
	// Report is the last report of its worker. Seen is when it came, by the clock of the process
	// that holds the Node. Both are zero if the worker never answered.
	Report NodeReport `json:"report,omitzero"`
	Seen   time.Time  `json:"seen,omitzero"`
	// Problem is why it did not answer the last request; empty if it did.
	Problem string  `json:"problem,omitempty"`
	Fencing Fencing `json:"fencing,omitzero"`
}

// Fencing is how a node is switched off when it is lost, and whether that was done.
type Fencing struct {
	// Agent is the program that the workers of other nodes run for it: one of fence-agents, or a script of worker.fence_dir. Empty means none.
	Agent string `json:"agent,omitempty"`
	// Options are what it is told, by name. Sealed are further options with secrets, encrypted.
	Options map[string]string `json:"options,omitempty"`
	Sealed  []byte            `json:"-"`
	// Fenced is when the node was switched off, or an operator confirmed that it is; zero from when it is back.
	Fenced time.Time `json:"fenced,omitzero"`
	// Incarnation grows with each fence. A worker does nothing for jobs before it was told of it.
	Incarnation int64 `json:"incarnation,omitempty"`
	// Problem is why the last fence failed; empty if it did not.
	Problem string `json:"problem,omitempty"`
	// Boot is the boot of the node since which its instances were started again, as NodeReport has it; empty before its first report.
	Boot string `json:"-"`
}

// JobFailover fences a node, and starts instances of it elsewhere.
const JobFailover JobKind = "failover"

// FailoverSpec is the input of a JobFailover.
type FailoverSpec struct {
	// Lost is set if the installation itself found the node lost, and Confirmed if an operator says that it is off, so that its agent
	// is not run.
	Lost      bool `json:"lost,omitempty"`
	Confirmed bool `json:"confirmed,omitempty"`
	// Share is how many percent of the nodes may be fenced at a time, for Lost.
	Share int `json:"share,omitempty"`
}

// FailoverOf returns the acceptance of a job that fences a node.
func FailoverOf(node string, spec FailoverSpec) Acceptance {
	input, _ := json.Marshal(spec) // it has no member that cannot be encoded
	return Acceptance{Job: Job{ID: NewJobID(), Kind: JobFailover, State: JobQueued, Subject: node, Spec: input}}
}

// FenceCall asks a worker to run a fence agent, by the protocol of fence-agents.
type FenceCall struct {
	Agent string `json:"agent"`
	// Options and Secrets are sent on its standard input. Only the former may be logged.
	Options map[string]string `json:"options,omitempty"`
	Secrets map[string]string `json:"secrets,omitempty"`
}

// The limits of a FenceCall.
const (
	maxFenceOptions = 64
	maxFenceOption  = 4 * KiB
)

// CheckFence returns ErrInvalid for an agent or options that no worker takes. Options must not name programs or files.
func CheckFence(agent string, options map[string]string) error {
	if err := CheckName("fence agent", agent); err != nil {
		return err
	}
	if len(options) > maxFenceOptions {
		return Errorf(ErrInvalid, "the fence agent has %d options: expected at most %d", len(options), maxFenceOptions)
	}
	for name, value := range options {
		switch {
		case !fenceOption.MatchString(name):
			return Errorf(ErrInvalid, "%q is not the name of an option of a fence agent: expected small letters, digits and _", Clip(name))
		case name == "action" || strings.HasSuffix(name, "_path") || strings.HasSuffix(name, "_script") || strings.HasPrefix(name, "debug") ||
			strings.HasPrefix(name, "verbose"):
			return Errorf(ErrInvalid, "option %s of a fence agent cannot be set: it says what is done, runs a program, or logs secrets", name)
		case len(value) > int(maxFenceOption) || strings.ContainsAny(value, "\n\r\x00"):
			return Errorf(ErrInvalid, "option %s of the fence agent is not one line of at most %s", name, maxFenceOption)
		}
	}
	return nil
}

// fenceOption matches the names of options of fence agents.
var fenceOption = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// Check returns ErrInvalid unless the name and the URL of the worker are valid.
func (n Node) Check() error {
	if err := CheckName("node", n.Name); err != nil {
		return err
	}
	return CheckWorkerURL(n.Worker)
}

// CheckWorkerURL returns ErrInvalid unless s is the URL of a seedbed-worker: only https, a host and
// a port. The empty string is valid and means the socket of the control host.
func CheckWorkerURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > 300 || u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" ||
		u.Host != strings.TrimPrefix(s, "https://") {
		return Errorf(ErrInvalid,
			"worker %q is not the URL of a seedbed-worker: expected https, a host and a port, such as https://hv2.example:7375", Clip(s))
	}
	return nil
}

// Pool returns the pool of that name as the node reported it, and whether the node has it.
func (n Node) Pool(name string) (PoolInfo, bool) {
	for _, p := range n.Report.Pools {
		if p.Name == name {
			return p, true
		}
	}
	return PoolInfo{}, false
}

// NodeReport is what a node has, as its worker reports it.
type NodeReport struct {
	// CPUs is the number of hardware threads, and Load the load average over a minute.
	CPUs int     `json:"cpus"`
	Load float64 `json:"load"`
	// Memory is the total, and MemoryFree what guests could get now (MemAvailable).
	Memory     Bytes `json:"memory"`
	MemoryFree Bytes `json:"memory_free"`
	// Domains is the number of running domains, of Seedbed and of others.
	Domains int `json:"domains"`
	// Arch is the architecture of the node, such as x86_64. Hypervisor is what runs the guests,
	// such as "QEMU 7.2.0 (kvm)".
	Arch       string     `json:"arch"`
	Hypervisor string     `json:"hypervisor"`
	Pools      []PoolInfo `json:"pools"`
	// PrivilegedScripts is whether the node runs privileged scripts (scripts.privileged).
	PrivilegedScripts bool `json:"privileged_scripts,omitempty"`
	// HighestNIC is the highest number that an interface of a guest has on the node, or 0. New NICs
	// get higher numbers, also if the database is older than the guests.
	HighestNIC NICID `json:"highest_nic,omitempty"`
	// Address is where other nodes send the frames of overlays (network.address), and AddressMTU the MTU of the interface
	// that has it, or 0. It is the zero Addr if the node has none.
	Address    netip.Addr `json:"address,omitzero"`
	AddressMTU int        `json:"address_mtu,omitempty"`
	// Tunnel is set if the node encrypts what it sends other nodes of overlays (network.overlay.encryption). It has no key while
	// the node does not know it.
	Tunnel Tunnel `json:"tunnel,omitzero"`
	// LeftOut are the networks that the node does not have, by their qualified names, and why.
	LeftOut map[string]string `json:"left_out,omitempty"`
	// Migration is how guests that run come to it (libvirt.migration).
	Migration MigrationTarget `json:"migration,omitzero"`
	// Incarnation is that of the node which its worker was told last.
	Incarnation int64 `json:"incarnation,omitempty"`
	// Boot is another text each time the node is started.
	Boot string `json:"boot,omitempty"`
}

// OverlayOverhead returns how many bytes a frame of an overlay grows by on its way to other nodes.
func (r NodeReport) OverlayOverhead() int {
	if r.Tunnel != (Tunnel{}) {
		return TunnelOverhead(r.Address) + VXLANOverhead(r.Tunnel.Key.Addr())
	}
	return VXLANOverhead(r.Address)
}

// TunnelPort is the UDP port at which a node gets encrypted frames of overlays, unless network.overlay.port names another.
const TunnelPort = 51820

// TunnelKey is the public key of a node that encrypts the frames of overlays. Its text is that of wg(8).
type TunnelKey [32]byte

// String returns the key in base64.
func (k TunnelKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// MarshalText implements encoding.TextMarshaler.
func (k TunnelKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It returns ErrInvalid for what is not a key.
func (k *TunnelKey) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.Strict().DecodeString(string(text))
	if err != nil || len(b) != len(k) {
		return Errorf(ErrInvalid, "%.80q is not a key of WireGuard: expected 32 bytes in base64", text)
	}
	*k = TunnelKey(b)
	return nil
}

// Addr returns the address of the node inside of the tunnels. It follows from the key, so that nobody has to give it out: a
// local IPv6 address (RFC 4193) of 120 bits of a digest.
func (k TunnelKey) Addr() netip.Addr {
	sum := sha256.Sum256(append([]byte("seedbed tunnel\n"), k[:]...))
	return netip.AddrFrom16([16]byte(append([]byte{0xfd}, sum[:15]...)))
}

// Tunnel is how the other nodes send a node encrypted frames of overlays: by WireGuard, to a port of its address.
type Tunnel struct {
	Key  TunnelKey `json:"key,omitzero"`
	Port uint16    `json:"port"`
}

// Keyed reports whether the key is known.
func (t Tunnel) Keyed() bool { return t.Key != TunnelKey{} }

// TunnelOverhead returns how many bytes a packet grows by in a tunnel to the address of a node: a WireGuard and a UDP header,
// and the IP header of the family of the address.
func TunnelOverhead(node netip.Addr) int {
	if node.Is6() {
		return 32 + 8 + 40
	}
	return 32 + 8 + 20
}

// The selectors say how one of several nodes is chosen (PVC's manual, "Node selectors").
const (
	SelectMem     = "mem"     // the most free memory
	SelectMemProv = "memprov" // the most memory that is not promised to instances
	SelectVCPUs   = "vcpus"   // the fewest vCPUs of instances
	SelectLoad    = "load"    // the lowest load
	SelectVMs     = "vms"     // the fewest instances
)

// NodeSelectors returns all selectors.
func NodeSelectors() []string {
	return []string{SelectMem, SelectMemProv, SelectVCPUs, SelectLoad, SelectVMs}
}

// NodeUse is what the instances of a node use, whatever their state.
type NodeUse struct {
	Node      string `json:"node"`
	Instances int    `json:"instances"`
	Running   int    `json:"running"`
	VCPUs     int    `json:"vcpus"`
	Memory    Bytes  `json:"memory"`
	// ComingVCPUs and ComingMemory are those of instances that are being made or were just made.
	// The node's report does not include them yet.
	ComingVCPUs  int   `json:"coming_vcpus"`
	ComingMemory Bytes `json:"coming_memory"`
	// Restarts is the memory of those that are started on other nodes once the node was fenced.
	Restarts Bytes `json:"restarts"`
}

// PoolUse is what the volumes of a node's instances may grow to in a pool.
type PoolUse struct {
	Node, Pool string
	Size       Bytes
}

// NodeState says whether a node accepts instances.
type NodeState string

// The states of a node.
const (
	NodeReady    NodeState = "ready"
	NodeCordoned NodeState = "cordoned"
	NodeAway     NodeState = "away"   // its worker does not answer
	NodeFenced   NodeState = "fenced" // it was switched off, and is not back
)

// Gone reports whether nothing can be asked of the node at now.
func (n Node) Gone(now time.Time) bool { s := n.State(now); return s == NodeAway || s == NodeFenced }

// Leaves reports whether the instances of the node are to be on others: it is cordoned, or was fenced.
func (n Node) Leaves() bool { return n.Cordoned || !n.Fencing.Fenced.IsZero() }

// NodeStatus is a node as the API shows it.
type NodeStatus struct {
	Node
	State NodeState `json:"state"`
	// Control is true if the seedbedd that answers runs there.
	Control bool `json:"control"`
	// What its instances use, whatever their state.
	Instances int   `json:"instances"`
	Running   int   `json:"running"`
	VCPUs     int   `json:"vcpus"`
	Memory    Bytes `json:"memory"`
}

// NodeSilence is how long the worker of a ready node may be silent.
const NodeSilence = time.Minute

// State returns the state of the node at now, by the clock of Seen.
func (n Node) State(now time.Time) NodeState {
	switch {
	case !n.Fencing.Fenced.IsZero():
		return NodeFenced
	case n.Problem != "" || now.Sub(n.Seen) > NodeSilence:
		return NodeAway
	case n.Cordoned:
		return NodeCordoned
	}
	return NodeReady
}

// Placement says why a node was or was not chosen for an instance.
type Placement struct {
	Node   string `json:"node"`
	Chosen bool   `json:"chosen"`
	// Refused is why it cannot accept the instance; empty if it can.
	Refused string `json:"refused,omitempty"`
	// Reason is what it was ranked by, such as "mem: 12.0GiB free".
	Reason string `json:"reason,omitempty"`
}

// Member is one running seedbedd of an installation, as the others see it.
type Member struct {
	Node    string `json:"node"`    // the name of its host among the nodes
	Version string `json:"version"` // its release
	// CPUs and Memory are the totals of its host.
	CPUs   int   `json:"cpus"`
	Memory Bytes `json:"memory"`
}

// DomainUsage is what a running domain has used since it was started.
type DomainUsage struct {
	ID InstanceID `json:"id"`
	// CPU is the processor time, of all vCPUs and of the hypervisor for it.
	CPU time.Duration `json:"cpu"`
	// VCPUs is how many it has now, and Memory what it has of it.
	VCPUs  int   `json:"vcpus"`
	Memory Bytes `json:"memory"`
	// Resident is how much of the host's memory its process has now. Used is how much of its memory the guest uses by its own word,
	// which only guests with a balloon driver give; 0 without it.
	Resident Bytes `json:"resident"`
	Used     Bytes `json:"used,omitempty"`
	// DiskRead and DiskWritten are of all disks, and Reads and Writes how many requests that took.
	DiskRead    Bytes `json:"disk_read"`
	DiskWritten Bytes `json:"disk_written"`
	Reads       int64 `json:"reads"`
	Writes      int64 `json:"writes"`
	// Received and Sent are of all NICs, as the guest sees it.
	Received Bytes `json:"received"`
	Sent     Bytes `json:"sent"`
}

// NodeUsage is what the domains of a node have used, or the problem for which it is not known.
type NodeUsage struct {
	Node string `json:"node"`
	// At is when they had used it, by the clock of seedbedd.
	At      time.Time     `json:"at"`
	Problem string        `json:"problem,omitempty"`
	Domains []DomainUsage `json:"domains"`
}

// Rebalancing suggests which instances to take to other nodes, so that these are loaded more alike.
type Rebalancing struct {
	Moves []RebalanceMove `json:"moves"`
	// Loads are the nodes that take instances, sorted by name.
	Loads []NodeLoad `json:"loads"`
}

// RebalanceMove suggests to take an instance to another node. Method is as [Instance.LeavesBy] has it.
type RebalanceMove struct {
	Project string `json:"project"`
	Name    string `json:"name"`
	From    string `json:"from"`
	To      string `json:"to"`
	Method  string `json:"method,omitempty"`
	VCPUs   int    `json:"vcpus"`
	Memory  Bytes  `json:"memory"`
}

// NodeLoad is how much of a node its instances were given, in percent of what it may give: now, and after the moves.
type NodeLoad struct {
	Node   string  `json:"node"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// What instances are moved by.
const (
	BalanceMemory = "memory"
	BalanceVCPUs  = "vcpus"
)

// MaxRebalance is the largest number of moves that are suggested at a time.
const MaxRebalance = 100
