package netcfg

import "time"

// Stats is a snapshot for metrics.
type Stats struct {
	// Ports and Networks are those that are applied on this host.
	Ports, Networks int
	// Applied is when the host's network was last made, or found to be, what the
	// state says; zero before the first time.
	Applied time.Time
}

// Stats tells what is applied. It does not wait for Apply.
func (m *Manager) Stats() Stats {
	if s := m.stats.Load(); s != nil {
		return *s
	}
	return Stats{}
}
