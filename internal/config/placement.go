package config

import "seedbed"

// Placement configures how a node is chosen for an instance.
type Placement struct {
	// Selector is for instances whose system template names no selector.
	Selector string `yaml:"selector"`
	// MemoryOvercommit and VCPUOvercommit bound the memory and the vCPUs of a node's instances, as
	// multiples of the node's memory and CPUs. 0 means no bound.
	MemoryOvercommit float64 `yaml:"memory_overcommit"`
	VCPUOvercommit   float64 `yaml:"vcpu_overcommit"`
}

// mostOvercommit is more than any node can sustain.
const mostOvercommit = 1000

func (k *checker) placement(p Placement) {
	k.oneOf("placement.selector", p.Selector, seedbed.NodeSelectors()...)
	for key, v := range map[string]float64{"memory_overcommit": p.MemoryOvercommit, "vcpu_overcommit": p.VCPUOvercommit} {
		k.need(v == 0 || v >= 0.1 && v <= mostOvercommit, "placement."+key, v, "0 for no bound, or 0.1 to 1000")
	}
}
