//go:build integration && ceph

package provision

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	engines "seedbed/internal/lab"
	"seedbed/internal/run"
	"seedbed/provision/ceph"
	"seedbed/provision/engine"
	"seedbed/provision/fleet"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"
)

// onCeph returns a lab whose engine uses a real worker over its socket. The worker has the
// cluster's pool of that name.
func onCeph(t *testing.T, c *engines.CephCluster, name string) *lab {
	t.Helper()
	l := newLab(t)
	l.patience = engines.Swept
	log := slog.New(slog.DiscardHandler)
	pool, err := ceph.Open(t.Context(), ceph.Config{
		Name: "default", Pool: c.Pool(t, name), ConfFile: c.Conf, User: engines.CephUser, Keyring: c.Keyring, Node: testNode,
		Lock: filepath.Join(t.TempDir(), "lock"), Scratch: t.TempDir(), Timeout: time.Second,
		WatcherFor: 2 * time.Second, Reserve: seedbed.MiB, Log: log,
	})
	l.ok(err)
	socket := filepath.Join(t.TempDir(), "w.sock")
	ln, err := run.Socket{Path: socket, Mode: 0o660}.Listen(t.Context())
	l.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	server := worker.New(worker.Config{Node: testNode, Pools: map[string]worker.Pool{"default": pool}, Hypervisor: l.hv, Log: log})
	go func() { done <- server.Serve(ctx, ln) }()
	l.watch.stored = pool
	t.Cleanup(func() {
		l.lookedAtLast() // the pool is closed from here on
		cancel()
		if err := errors.Join(<-done, pool.Close()); err != nil {
			t.Error(err)
		}
	})
	l.worker = fleet.NewClient(socket)
	return l.withProfile(seedbed.ReadyStarted)
}

// volumes returns the RBD images in an onCeph pool of that name, except the profile's image.
func volumes(t *testing.T, c *engines.CephCluster, pool string) (all []string) {
	t.Helper()
	for _, name := range strings.Fields(c.RBD(t, "ls", pool)) {
		if !strings.Contains(name, "debian") {
			all = append(all, name)
		}
	}
	return all
}

// nothingLeft waits until the pool holds no volume. What a call has begun that was given up has a
// name that no volume has, and the pool's sweep removes it. On a busy computer a call is given up
// also while the cluster answers.
func nothingLeft(t *testing.T, c *engines.CephCluster, pool string) {
	t.Helper()
	if left := slices.DeleteFunc(volumes(t, c, pool), unfinished); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	engines.Await(t, engines.Swept, "the pool is swept", func() bool { return len(volumes(t, c, pool)) == 0 })
}

// unfinished reports whether an RBD image has the name of one that is being made.
func unfinished(image string) bool { return strings.Contains(image, "building") }

// TestCephStopsWhileUndoing checks what happens to a rollback while the cluster does not answer. A
// short time only delays it. After a long time the job reports what is left, and the cleanup
// removes that once the cluster answers.
func TestCephStopsWhileUndoing(t *testing.T) {
	c := engines.Ceph(t)
	for _, test := range []struct {
		name string
		undo time.Duration // time limit of a stage's undo
		ends seedbed.JobState
	}{{"short", time.Minute, seedbed.JobRolledBack}, {"long", 5 * time.Second, seedbed.JobIncomplete}} {
		t.Run(test.name, func(t *testing.T) {
			name := "undo-" + test.name
			l := onCeph(t, c, name)
			var freeze, thaw sync.Once
			defer thaw.Do(func() { c.Thaw(t) })
			l.hv.Fail(func(_ context.Context, effect string, at drivertest.Point) error {
				switch {
				case effect == "StartDomain" && at == drivertest.Before:
					return seedbed.Errorf(seedbed.ErrForbidden, "no")
				case effect == "UndefineDomain" && at == drivertest.After:
					freeze.Do(func() { c.Freeze(t) })
				}
				return nil
			})
			l.tune = func(_ *engine.Config, p *engine.Intervals) { p.Undo, p.RetryMax = test.undo, time.Second }
			id := l.create("web1")
			p := l.start()
			l.eventually("the removal to be in vain", func() bool {
				h := l.history(id)
				return strings.Contains(h, "remove volume") && (strings.Contains(h, "trying again") || strings.Contains(h, "undo:"))
			})
			if test.ends == seedbed.JobRolledBack {
				thaw.Do(func() { c.Thaw(t) })
			}
			job := l.wait(id, test.ends)
			p.stop()
			thaw.Do(func() { c.Thaw(t) })
			l.invariants(id)
			if test.ends == seedbed.JobIncomplete {
				if h := l.history(id); job.Error != "stage start: start domain web1: no" ||
					!strings.Contains(h, "left behind: volumes: remove volume") {
					t.Errorf("error %q, history:\n%s", job.Error, h)
				}
				l.stageStates(id, map[string]seedbed.StageState{
					"volumes": seedbed.StageOrphans, "define": seedbed.StageUndone, "publish": seedbed.StageUndone, "start": seedbed.StageUndone,
				})
				l.hv.Fail(nil)
				if got := l.orphans(); len(got) != 1 || !strings.HasPrefix(got[0], "web1 volumes volume default ") {
					t.Errorf("left behind: %q", got)
				}
				if got := l.cleanAfter(11*time.Minute, false); len(got) != 1 {
					t.Errorf("the cleanup has undone %q", got)
				}
				l.runUntil(id, seedbed.JobRolledBack)
				if got := l.orphans(); got != nil {
					t.Errorf("left behind at last: %q", got)
				}
			}
			nothingLeft(t, c, name)
		})
	}
}
