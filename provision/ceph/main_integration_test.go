//go:build integration && ceph

package ceph

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"seedbed/internal/lab"
)

// all is the lab.T of what lives as long as the test binary.
type all struct{ cleanups []func() }

// Helper implements lab.T.
func (*all) Helper() {}

// Fatal implements lab.T.
func (*all) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// Fatalf implements lab.T.
func (*all) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Cleanup implements lab.T.
func (a *all) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

var (
	tests all
	// shared is a cluster that no test stops or fills. A cluster takes many seconds to make.
	shared = sync.OnceValue(func() *lab.CephCluster { return lab.Ceph(&tests) })
)

// cluster is one cluster for all tests that use it as it is, each with pools of its own.
func cluster(t *testing.T) *lab.CephCluster {
	t.Helper()
	return shared()
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range slices.Backward(tests.cleanups) {
		f()
	}
	os.Exit(code)
}
