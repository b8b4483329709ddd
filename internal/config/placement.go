package config

import "seedbed"

// Placement is how a node is chosen for an instance, where there are several.
type Placement struct {
	// Selector is that of instances whose system template names none.
	Selector string `yaml:"selector"`
	// MemoryOvercommit and VCPUOvercommit bound what the instances of a node are given
	// together, as multiples of its memory and of its CPUs; 0 is without bound.
	MemoryOvercommit float64 `yaml:"memory_overcommit"`
	VCPUOvercommit   float64 `yaml:"vcpu_overcommit"`
}

// mostOvercommit is more than any host bears.
const mostOvercommit = 1000

func (k *checker) placement(p Placement) {
	k.oneOf("placement.selector", p.Selector, seedbed.NodeSelectors()...)
	for key, v := range map[string]float64{"memory_overcommit": p.MemoryOvercommit, "vcpu_overcommit": p.VCPUOvercommit} {
		k.need(v == 0 || v >= 0.1 && v <= mostOvercommit, "placement."+key, v, "0 for no bound, or 0.1 to 1000")
	}
}
