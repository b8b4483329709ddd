//go:build integration && ceph

package ceph

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"seedbed"
)

// TestParentGoes: an image that is removed while it is cloned either stays,
// because the clone was first, or is gone, and then there is no clone, or one
// that can be read from what waits for it in RBD's trash. What a stranger takes
// from it is a clear error.
func TestParentGoes(t *testing.T) {
	c := cluster(t)
	p := open(t, config(t, c))
	for n := range 6 {
		base(t, p)
		name := fmt.Sprint("v", n)
		var cloned, removed error
		var both sync.WaitGroup
		both.Go(func() { _, cloned = p.CloneVolume(t.Context(), "job", volume(name)) })
		both.Go(func() { removed = p.RemoveImage(t.Context(), "job", "base") })
		both.Wait()
		switch {
		case cloned == nil && (removed == nil || errors.Is(removed, seedbed.ErrInUse)):
			c.RBD(t, "export", p.cfg.Pool+"/"+rbdOf(roleVolume, name), filepath.Join(t.TempDir(), name)) // it can be read
			if err := p.RemoveVolume(t.Context(), name, "i"); err != nil {
				t.Error(err)
			}
			if removed == nil {
				break
			}
			if err := p.RemoveImage(t.Context(), "job", "base"); err != nil {
				t.Error(err)
			}
		case removed == nil && (errors.Is(cloned, seedbed.ErrNotFound) || errors.Is(cloned, seedbed.ErrUnavailable)):
			if all, err := p.Volumes(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("volumes of an image that is gone: %v, %v", all, err)
			}
		default:
			t.Fatalf("clone: %v, remove: %v", cloned, removed)
		}
	}
	base(t, p)
	rbdName := p.cfg.Pool + "/" + rbdOf(roleImage, "base")
	c.RBD(t, "snap", "unprotect", rbdName+"@"+snapshot)
	c.RBD(t, "snap", "rm", rbdName+"@"+snapshot)
	_, err := p.CloneVolume(t.Context(), "job", volume("late"))
	if !errors.Is(err, seedbed.ErrNotFound) || !strings.Contains(err.Error(), `"base"`) {
		t.Errorf("clone of an image without its snapshot: %v", err)
	}
	if left := names(t, c, p.cfg.Pool); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}
