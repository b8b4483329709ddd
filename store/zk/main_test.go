package zk

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childMain replaces the tests in a process that a test started as a
// participant; the integration tests set it.
var childMain func()

// TestMain holds that every goroutine has ended once the tests have.
func TestMain(m *testing.M) {
	if childMain != nil && os.Getenv("SEEDBED_ZK_CHILD") != "" {
		childMain()
		return
	}
	goleak.VerifyTestMain(m)
}
