package seedbed

import (
	"net/url"
	"strings"
	"time"
)

// Node is one hypervisor of the installation: a host with a seedbed-worker and
// a seedbed-metadata.
type Node struct {
	Name string `json:"name"`
	// Worker is where its seedbed-worker serves control hosts, such as
	// https://hv2.example:7375; empty for the worker on the socket of the control host of that name.
	Worker string `json:"worker"`
	// Cordoned nodes keep what they have and are given no new instances.
	Cordoned bool      `json:"cordoned"`
	Created  time.Time `json:"created,omitzero"`
	// Report is what its worker said last, and Seen when, by the clock of the process that
	// has the Node; zero for one that never answered.
	Report NodeReport `json:"report,omitzero"`
	Seen   time.Time  `json:"seen,omitzero"`
	// Problem is why it did not answer when it was asked last; empty when it did.
	Problem string `json:"problem,omitempty"`
}

// Check refuses, with ErrInvalid, a name or an address of the worker that is of no use.
func (n Node) Check() error {
	if err := CheckName("node", n.Name); err != nil {
		return err
	}
	return CheckWorkerURL(n.Worker)
}

// CheckWorkerURL refuses, with ErrInvalid, what is no address of a seedbed-worker:
// https, a host and a port alone. Empty is the socket of the control host.
func CheckWorkerURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > 300 || u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.Host != strings.TrimPrefix(s, "https://") {
		return Errorf(ErrInvalid, "worker %q is no address of a seedbed-worker: want https, a host and a port, such as https://hv2.example:7375", Clip(s))
	}
	return nil
}

// Pool is the pool of that name as the node reported it; false for one that it does not have.
func (n Node) Pool(name string) (PoolInfo, bool) {
	for _, p := range n.Report.Pools {
		if p.Name == name {
			return p, true
		}
	}
	return PoolInfo{}, false
}

// NodeReport is what a hypervisor has, as its worker says.
type NodeReport struct {
	// CPUs are the threads that run guests, and Load is the load average over a minute.
	CPUs int     `json:"cpus"`
	Load float64 `json:"load"`
	// Memory is all of it, and MemoryFree what could be given to guests now (MemAvailable).
	Memory     Bytes `json:"memory"`
	MemoryFree Bytes `json:"memory_free"`
	// Domains are the running ones, of Seedbed and of others.
	Domains int `json:"domains"`
	// Arch is the machine's, such as x86_64, and Hypervisor what runs the guests, such as "QEMU 7.2.0 (kvm)".
	Arch       string     `json:"arch"`
	Hypervisor string     `json:"hypervisor"`
	Pools      []PoolInfo `json:"pools"`
}

// The selectors: by what one of several nodes is chosen (PVC's manual, "Node selectors").
const (
	SelectMem     = "mem"     // the most memory that is free
	SelectMemProv = "memprov" // the most memory that no instance was promised
	SelectVCPUs   = "vcpus"   // the fewest vCPUs of instances
	SelectLoad    = "load"    // the lowest load
	SelectVMs     = "vms"     // the fewest machines
)

// NodeSelectors are all of them.
func NodeSelectors() []string {
	return []string{SelectMem, SelectMemProv, SelectVCPUs, SelectLoad, SelectVMs}
}

// NodeUse is what the instances of a node take, whatever their state.
type NodeUse struct {
	Node      string `json:"node"`
	Instances int    `json:"instances"`
	Running   int    `json:"running"`
	VCPUs     int    `json:"vcpus"`
	Memory    Bytes  `json:"memory"`
	// ComingVCPUs and ComingMemory are of those that are being made, or were just now:
	// they do not show in the node's report yet.
	ComingVCPUs  int   `json:"coming_vcpus"`
	ComingMemory Bytes `json:"coming_memory"`
}

// NodeState is whether a node takes instances.
type NodeState string

// The states of a node.
const (
	NodeReady    NodeState = "ready"
	NodeCordoned NodeState = "cordoned"
	NodeAway     NodeState = "away" // its worker does not answer
)

// NodeStatus is a node as the API shows it.
type NodeStatus struct {
	Node
	State NodeState `json:"state"`
	// Control is whether the seedbedd that answers runs there.
	Control bool `json:"control"`
	// What its instances take, whatever their state.
	Instances int   `json:"instances"`
	Running   int   `json:"running"`
	VCPUs     int   `json:"vcpus"`
	Memory    Bytes `json:"memory"`
}

// NodeSilence is how long the worker of a node that is ready may have said nothing.
const NodeSilence = time.Minute

// State is the node's at that moment of the clock that Seen is by.
func (n Node) State(now time.Time) NodeState {
	switch {
	case n.Problem != "" || now.Sub(n.Seen) > NodeSilence:
		return NodeAway
	case n.Cordoned:
		return NodeCordoned
	}
	return NodeReady
}

// Placement is why a node was chosen for an instance, or was not.
type Placement struct {
	Node   string `json:"node"`
	Chosen bool   `json:"chosen"`
	// Refused is why it cannot take the instance; empty for one that can.
	Refused string `json:"refused,omitempty"`
	// Reason is what it was weighed by, such as "mem: 12.0GiB free".
	Reason string `json:"reason,omitempty"`
}
