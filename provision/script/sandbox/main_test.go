package sandbox

import (
	"os"
	"testing"
)

// TestMain lets the test binary be the sandbox's own processes.
func TestMain(m *testing.M) {
	Init()
	os.Exit(m.Run())
}
