package seedbed

import "time"

// Census is how much there is of everything.
type Census struct {
	Instances []NodeCensus `json:"instances"`
	// Volumes are those of the instances, and Disks their size together.
	Volumes int   `json:"volumes"`
	Disks   Bytes `json:"disks"`
	// Jobs are those that have not ended, by state; Failed is how many did not succeed since a moment.
	Jobs   map[JobState]int `json:"jobs"`
	Failed int              `json:"failed"`
	Since  time.Time        `json:"since"`
	// The catalogue.
	Images   int `json:"images"`
	Profiles int `json:"profiles"`
	Networks int `json:"networks"`
}

// NodeCensus is the instances of one node in one state.
type NodeCensus struct {
	Node   string        `json:"node"`
	State  InstanceState `json:"state"`
	Count  int           `json:"count"`
	VCPUs  int           `json:"vcpus"`
	Memory Bytes         `json:"memory"`
}

// Total is the instances of all nodes in the states that are given, or in all.
func (c Census) Total(states ...InstanceState) (n NodeCensus) {
	for _, each := range c.Instances {
		wanted := len(states) == 0
		for _, s := range states {
			wanted = wanted || s == each.State
		}
		if wanted {
			n.Count, n.VCPUs, n.Memory = n.Count+each.Count, n.VCPUs+each.VCPUs, n.Memory+each.Memory
		}
	}
	return n
}
