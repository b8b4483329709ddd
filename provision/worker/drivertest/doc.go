// Package drivertest holds the contract of the worker's drivers: the suites TestPool and
// TestHypervisor, which every driver runs in its own tests. It also has the in-memory drivers Pool
// and Hypervisor, which pass them and serve the tests of the layers above the worker.
package drivertest

import (
	"errors"
	"testing"
)

func ok(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got error %v; want one that is %q", what, err, want)
	}
}
