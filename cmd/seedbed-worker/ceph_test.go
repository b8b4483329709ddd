//go:build libvirt && ceph

package main

import (
	"path/filepath"
	"testing"

	"seedbed/internal/config"
)

// TestCephLock checks that root opens no file in a directory of another user.
func TestCephLock(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.RunDir, c.Worker.State = "/run/other", "/run/mine"
	lock := cephConfig(c, config.Pool{Name: "fast", Type: config.PoolCeph}, nil, nil).Lock
	if filepath.Dir(lock) != c.Worker.State {
		t.Errorf("the pool's lock is %s, want it in %s", lock, c.Worker.State)
	}
}
