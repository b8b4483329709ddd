package seedbed

import "time"

// Counts counts the objects of an installation.
type Counts struct {
	Instances []InstanceCounts `json:"instances"`
	// Volumes is the number of volumes of the instances, and Disks their total size.
	Volumes int   `json:"volumes"`
	Disks   Bytes `json:"disks"`
	// Jobs counts the jobs that have not ended, by state. Failed counts those that have ended
	// without success since Since.
	Jobs   map[JobState]int `json:"jobs"`
	Failed int              `json:"failed"`
	Since  time.Time        `json:"since"`
	// The objects of the catalogue.
	Images   int `json:"images"`
	Profiles int `json:"profiles"`
	Networks int `json:"networks"`
}

// InstanceCounts counts the instances of one node in one state.
type InstanceCounts struct {
	Node   string        `json:"node"`
	State  InstanceState `json:"state"`
	Count  int           `json:"count"`
	VCPUs  int           `json:"vcpus"`
	Memory Bytes         `json:"memory"`
}

// Total returns the instances of all nodes in the given states, or in all states if none is given.
func (c Counts) Total(states ...InstanceState) (n InstanceCounts) {
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
