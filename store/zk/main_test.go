package zk

import (
	"os"
	"testing"

	"seedbed/internal/lab/leak"
)

// childMain runs instead of the tests in a process that a test started as a participant. The
// integration tests set it.
var childMain func()

// TestMain checks that every goroutine has ended after the tests.
func TestMain(m *testing.M) {
	if childMain != nil && os.Getenv("SEEDBED_ZK_CHILD") != "" {
		childMain()
		return
	}
	leak.Main(m)
}
