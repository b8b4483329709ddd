//go:build integration && ceph

package ceph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/mapper"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"
)

// What seedbed-worker relies on.
var (
	_ worker.Pool    = (*Pool)(nil)
	_ worker.Checker = (*Pool)(nil)
)

var pools atomic.Int64

// config is a new Ceph pool in the cluster.
func config(t *testing.T, c *lab.CephCluster) Config {
	t.Helper()
	return Config{
		Name: "default", Pool: c.Pool(t, fmt.Sprintf("seedbed-test-%d", pools.Add(1))), ConfFile: c.Conf,
		User: lab.CephUser, Keyring: c.Keyring, Node: "node.one", Lock: filepath.Join(t.TempDir(), "lock"), Scratch: t.TempDir(),
		Timeout: 3 * time.Second, WatcherFor: 2 * time.Second, Reserve: seedbed.MiB,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func open(t *testing.T, cfg Config) *Pool {
	t.Helper()
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	t.Cleanup(func() {
		once.Do(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	})
	return p
}

// poolIn opens a new pool of the cluster, with a session of its own.
func poolIn(t *testing.T, c *lab.CephCluster) (*Pool, *session) {
	t.Helper()
	p := open(t, config(t, c))
	s, err := p.link.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.link.put(s, false) })
	return p, s
}

// names are all RBD images of the pool.
func names(t *testing.T, c *lab.CephCluster, pool string) []string {
	t.Helper()
	return strings.Fields(c.RBD(t, "ls", pool))
}

// empty removes everything from the pool, past the driver.
func empty(t *testing.T, p *Pool) {
	t.Helper()
	err := p.do(context.Background(), "empty the pool", "", func(ctx context.Context, s *session) error {
		trash, err := rbd.GetTrashList(s.io)
		for _, e := range trash {
			err = errors.Join(err, rbd.TrashRemove(s.io, e.Id, true))
		}
		if err != nil {
			return err
		}
		names, err := rbd.GetImageNames(s.io)
		slices.Reverse(names) // by name, so that volumes go before images
		for _, name := range names {
			err = errors.Join(err, p.dropSnapshot(s, name), p.delete(ctx, s, name))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	c := lab.Ceph(t)
	cfg, keep := config(t, c), config(t, c)
	maps, err := mapper.Open(mapper.Config{Dir: filepath.Join(t.TempDir(), "mappings"), Log: cfg.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(maps.Sweep(context.Background()), maps.Close()); err != nil {
			t.Error(err)
		}
	})
	cfg.Mapper, keep.Mapper = maps, maps
	opened := func(t *testing.T, cfg Config) worker.Pool {
		p := open(t, cfg)
		t.Cleanup(func() { empty(t, p) }) // a Ceph pool takes seconds to make
		return p
	}
	drivertest.TestPool(t, drivertest.PoolDriver{
		Devices: true,
		Changes: true,
		Open:    func(t *testing.T) worker.Pool { return opened(t, cfg) },
		Keep: func(t *testing.T, d time.Duration) worker.Pool {
			keep.Trash = d
			return opened(t, keep)
		},
		Foreign: func(t *testing.T, p worker.Pool, name string) func() bool {
			at := p.(*Pool).cfg.Pool + "/" + rbdOf(roleVolume, name)
			c.RBD(t, "create", "--size", "8M", at)
			before := c.RBD(t, "info", at)
			return func() bool { return c.RBD(t, "info", at) == before }
		},
		Leftovers: func(t *testing.T, p worker.Pool) int {
			n := 0
			for _, name := range names(t, c, p.(*Pool).cfg.Pool) {
				if strings.HasPrefix(name, building) {
					n++
				}
			}
			return n + len(strings.Fields(c.RBD(t, "trash", "ls", p.(*Pool).cfg.Pool)))
		},
	})
}
