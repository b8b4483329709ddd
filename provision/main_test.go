package provision

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that every goroutine has ended once the tests have.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
