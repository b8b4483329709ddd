package local_test

import (
	"testing"

	"seedbed/internal/lab/leak"
	"seedbed/store/coordtest"
	"seedbed/store/local"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestContract(t *testing.T) {
	t.Parallel()
	coordtest.Run(t, func(*testing.T) func(*testing.T) coordtest.Coordination {
		c := local.New() // one process
		return func(*testing.T) coordtest.Coordination { return c }
	})
}
