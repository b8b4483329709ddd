package ceph

import (
	"time"

	"seedbed/internal/cgate"
)

// newGate returns the gate in front of librados and librbd. An import is one long call.
func newGate() *cgate.Gate {
	return cgate.New(cgate.Config{
		Library: "Ceph", Owner: "the pool", Subject: "name",
		Hint:  "look at the cluster's health (ceph -s), or restart seedbed-worker",
		Limit: 30 * time.Minute,
	})
}
