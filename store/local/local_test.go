package local_test

import (
	"testing"

	"go.uber.org/goleak"

	"seedbed/store/coordtest"
	"seedbed/store/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	t.Parallel()
	coordtest.Run(t, func(*testing.T) func(*testing.T) coordtest.Coordination {
		c := local.New() // one process
		return func(*testing.T) coordtest.Coordination { return c }
	})
}
