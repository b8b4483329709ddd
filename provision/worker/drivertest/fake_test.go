package drivertest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"
)

func TestPoolInMemory(t *testing.T) {
	drivertest.TestPool(t, drivertest.PoolDriver{
		Open: func(*testing.T) worker.Pool { return drivertest.NewPool() },
		Keep: func(_ *testing.T, d time.Duration) worker.Pool {
			p := drivertest.NewPool()
			p.SetTrash(d)
			return p
		},
		Foreign: func(_ *testing.T, p worker.Pool, name string) func() bool {
			pool := p.(*drivertest.Pool)
			pool.AddForeign(name)
			return func() bool {
				_, err := pool.CloneVolume(context.Background(), "", seedbed.VolumeSpec{Name: name, Instance: "x", Size: 1})
				return errors.Is(err, seedbed.ErrConflict)
			}
		},
	})
}

func TestHypervisorInMemory(t *testing.T) {
	h := drivertest.NewHypervisor()
	drivertest.TestHypervisor(t, drivertest.HypervisorDriver{
		Open: func(*testing.T) worker.Hypervisor { return h },
		Spec: func(*testing.T) seedbed.DomainSpec {
			id := seedbed.NewInstanceID()
			return seedbed.DomainSpec{ID: id, Name: "g" + string(id[24:]), VCPUs: 1, Memory: 64 * seedbed.MiB, Job: seedbed.NewJobID()}
		},
		Foreign: func(t *testing.T, id seedbed.InstanceID, name string) {
			h.AddForeign(id, name)
			t.Cleanup(func() { h.Forget(id) })
		},
	})
}

func TestFailpoints(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, point := range []drivertest.Point{drivertest.Before, drivertest.After} {
		p := drivertest.NewPool()
		p.Fail(func(_ context.Context, effect string, at drivertest.Point) error {
			if effect == "CloneVolume" && at == point {
				return boom
			}
			return nil
		})
		_, err := p.CloneVolume(t.Context(), "", seedbed.VolumeSpec{Name: "v", Instance: "i", Size: 1})
		if !errors.Is(err, boom) {
			t.Fatalf("%s: got %v", point, err)
		}
		all, err := p.Volumes(t.Context())
		if err != nil || len(all) == 1 != (point == drivertest.After) {
			t.Fatalf("%s: volumes %v, %v", point, all, err)
		}
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	p := drivertest.NewPool()
	p.SetFull(true)
	_, err := p.CloneVolume(t.Context(), "", seedbed.VolumeSpec{Name: "v", Instance: "i", Size: 1})
	if !errors.Is(err, seedbed.ErrFull) {
		t.Fatalf("got %v", err)
	}
}
