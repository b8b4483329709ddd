//go:build integration && ceph

package ceph

import (
	"os"
	"sync"
	"testing"

	"seedbed/internal/lab"
)

var (
	lasting lab.Lasting
	// shared is a cluster that no test stops or fills. A cluster takes many seconds to make.
	shared = sync.OnceValue(func() *lab.CephCluster { return lab.Ceph(&lasting) })
)

// cluster is one cluster for all tests that use it as it is, each with pools of its own.
func cluster(t *testing.T) *lab.CephCluster {
	t.Helper()
	return shared()
}

func TestMain(m *testing.M) {
	code := m.Run()
	lasting.End()
	os.Exit(code)
}
