package store_test

import (
	"testing"

	"seedbed/store"
	"seedbed/store/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, store.Fresh)
}
