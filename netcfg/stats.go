package netcfg

import "time"

// Stats is a snapshot for metrics.
type Stats struct {
	// Ports and Networks count what is applied on this node.
	Ports, Networks int
	// Applied is when the network was last made to match the state, or found to match it; zero
	// before the first time.
	Applied time.Time
}

// Stats returns what is applied. It does not wait for Apply.
func (m *Manager) Stats() Stats {
	if s := m.stats.Load(); s != nil {
		return *s
	}
	return Stats{}
}
