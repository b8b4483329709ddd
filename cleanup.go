package seedbed

// CleanupReport is what one run of the cleanup did, or in a dry run would do.
type CleanupReport struct {
	// Items are what went, or would go.
	Items []CleanupItem `json:"tasks"`
	// Refused is why nothing was done; empty when the run went through.
	Refused string `json:"refused"`
	// Skipped is why nothing was done of what is on some of the nodes.
	Skipped []string `json:"skipped"`
}

// CleanupItem is one thing that the cleanup took away.
type CleanupItem struct {
	Task    string `json:"name"`    // mappings, leases, deliveries, outgoing, access, output, audit, trash or orphans
	Action  string `json:"action"`  // release, delete, purge or undo
	Subject string `json:"subject"` // an instance's name, a MAC address, or how many records
	Detail  string `json:"detail"`
}
