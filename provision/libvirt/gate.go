package libvirt

import (
	"time"

	"seedbed/internal/cgate"
)

// newGate returns the gate in front of libvirt's client. Its limit of concurrent calls is below
// libvirtd's limit of connections that are not authenticated yet (max_anonymous_clients, 20).
func newGate() *cgate.Gate {
	return cgate.New(cgate.Config{
		Library: "libvirt", Owner: "the libvirt driver", Subject: "domain",
		Hint:  "look at its log, or restart it (systemctl restart libvirtd)",
		Limit: 2 * time.Minute,
	})
}
