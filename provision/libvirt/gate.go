package libvirt

import (
	"time"

	"seedbed/internal/cgate"
)

// newGate is the gate in front of libvirt's client. Its calls at once stay below
// what libvirtd takes of connections that it does not know yet
// (max_anonymous_clients, 20).
func newGate() *cgate.Gate {
	return cgate.New(cgate.Config{
		Library: "libvirt", Owner: "the libvirt driver", Subject: "domain",
		Hint:  "look at its log, or restart it (systemctl restart libvirtd)",
		Limit: 2 * time.Minute,
	})
}
