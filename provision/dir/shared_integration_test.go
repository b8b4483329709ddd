//go:build integration

package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"
)

// TestSharedContract is the contract of a pool, for one that another node has open too.
func TestSharedContract(t *testing.T) {
	t.Parallel()
	maps := mappings(t)
	both := func(t *testing.T, keep time.Duration) worker.Pool {
		c := Config{Path: filepath.Join(t.TempDir(), "pool"), Trash: keep, Mapper: maps, Shared: true, Node: "hv2"}
		openWith(t, c)
		c.Node = "hv1"
		return openWith(t, c)
	}
	drivertest.TestPool(t, drivertest.PoolDriver{
		Open:    func(t *testing.T) worker.Pool { return both(t, 0) },
		Keep:    func(t *testing.T, d time.Duration) worker.Pool { return both(t, d) },
		Devices: true,
		Foreign: func(t *testing.T, p worker.Pool, name string) func() bool {
			path := p.(*Pool).file(volumes, name)
			write(t, path, "a stranger's")
			return func() bool {
				b, err := os.ReadFile(path)
				return err == nil && string(b) == "a stranger's"
			}
		},
		Leftovers: func(t *testing.T, p worker.Pool) int {
			left := 0
			for _, dir := range []string{building + "-hv1", uploads + "-hv1"} {
				err := filepath.WalkDir(filepath.Join(p.(*Pool).path, dir), func(_ string, e fs.DirEntry, err error) error {
					if err == nil && !e.IsDir() && e.Name() != lockFile {
						left++
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			return left
		},
	})
}

// TestSharedNames: of two nodes that make a volume of the same name at the same
// time for two instances, one is refused.
func TestSharedNames(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	var nodes []*Pool
	for _, n := range []string{"hv1", "hv2"} {
		p, err := onNode(t, path, n)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, p)
	}
	for i := range 5 {
		var group sync.WaitGroup
		errs := make([]error, len(nodes))
		for n, p := range nodes {
			group.Go(func() {
				_, errs[n] = p.CloneVolume(t.Context(), "job",
					seedbed.VolumeSpec{Pool: "nfs", Name: fmt.Sprint("v", i), Instance: seedbed.NewInstanceID(), Size: seedbed.MiB})
			})
		}
		group.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), seedbed.ErrConflict) {
			t.Errorf("volume %d: %v", i, errs)
		}
	}
}
