package seedbed

// Member is one running seedbedd of an installation, as the others see it.
type Member struct {
	Node    string `json:"node"`    // the name of its host among the nodes
	Version string `json:"version"` // its release
	// CPUs and Memory are the totals of its host.
	CPUs   int   `json:"cpus"`
	Memory Bytes `json:"memory"`
}
