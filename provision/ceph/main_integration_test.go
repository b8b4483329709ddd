//go:build integration && ceph

package ceph

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"seedbed/internal/lab"
)

var (
	lasting lab.Lasting
	// shared is a cluster that no test stops or fills. A cluster takes many seconds to make.
	shared = sync.OnceValue(func() *lab.CephCluster { return lab.Ceph(&lasting) })
)

// cluster is one cluster for all tests that use it as it is, each with pools of its own. They run side by side.
func cluster(t *testing.T) *lab.CephCluster {
	t.Helper()
	t.Parallel()
	return shared()
}

// together is how many tests run at the same time, unless a flag says otherwise: most of the time they wait for Ceph's timeouts.
const together = 3

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := f.Value.Set(strconv.Itoa(together)); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	lasting.End()
	os.Exit(code)
}
