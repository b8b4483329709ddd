package seedbed

// Member is one running seedbedd of an installation, as the others see it.
type Member struct {
	Node    string `json:"node"`    // its host's name among the hypervisors
	Version string `json:"version"` // its release
	// CPUs and Memory are what its host has in all.
	CPUs   int   `json:"cpus"`
	Memory Bytes `json:"memory"`
}
