//go:build integration && ceph

package ceph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/cgate"
	"seedbed/internal/lab"
	"seedbed/provision/worker/drivertest"
)

// inTime is when a call must have come back that a cluster does not answer: far more than a few
// timeouts of one operation, because other tests keep the machine busy.
const inTime = time.Minute

// atOnce is when what is cancelled must have come back, also in the middle of a long copy. That is
// far more than it takes, too.
const atOnce = 30 * time.Second

func base(t *testing.T, p *Pool) {
	t.Helper()
	path, _ := drivertest.BootableFile(t)
	if _, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Path: path}, nil); err != nil {
		t.Fatal(err)
	}
}

func volume(name string) seedbed.VolumeSpec {
	return seedbed.VolumeSpec{Name: name, Instance: "i", Image: "base", Size: 16 * seedbed.MiB}
}

// only fails the test unless the pool holds the image base, those volumes, and nothing else.
func only(t *testing.T, c *lab.CephCluster, p *Pool, volumes ...string) {
	t.Helper()
	want := []string{rbdOf(roleImage, "base")}
	for _, v := range volumes {
		want = append(want, rbdOf(roleVolume, v))
	}
	slices.Sort(want)
	var got []string
	lab.Await(t, lab.Swept, fmt.Sprintf("the pool holds %v", want), func() bool {
		got = names(t, c, p.cfg.Pool)
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// TestMonitorStops: the monitor goes in the middle of clones and comes back.
// What cannot be made says so in time and leaves nothing, and works when asked again.
func TestMonitorStops(t *testing.T) {
	t.Parallel()
	c := lab.Ceph(t)
	p := open(t, config(t, c))
	base(t, p)
	const n = 12
	stopped := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if i >= n/2 {
				<-stopped
			}
			begin := time.Now()
			_, err := p.CloneVolume(t.Context(), "job", volume(fmt.Sprint("v", i)))
			if err != nil && !errors.Is(err, seedbed.ErrUnavailable) {
				t.Errorf("clone %d: %v", i, err)
			}
			if took := time.Since(begin); took > inTime {
				t.Errorf("clone %d took %s", i, took)
			}
		})
	}
	c.StopMon(t)
	close(stopped)
	wg.Wait()
	if checks := p.Health(t.Context()); checks[0].OK || checks[0].Hint == "" {
		t.Errorf("health without a monitor: %+v", checks[0])
	}
	c.StartMon(t)
	var all []string
	for i := range n {
		name := fmt.Sprint("v", i)
		again(t, func() error {
			_, err := p.CloneVolume(t.Context(), "job", volume(name))
			return err
		})
		all = append(all, name)
	}
	only(t, c, p, all...)
	if checks := p.Health(t.Context()); !checks[0].OK {
		t.Errorf("health with the monitor: %+v", checks[0])
	}
}

// again repeats what is refused as unavailable, as a stage does.
func again(t *testing.T, do func() error) {
	t.Helper()
	lab.Await(t, lab.Patience, "it works when asked again", func() bool {
		err := do()
		if err != nil && !errors.Is(err, seedbed.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// TestDeadCluster: every call gives ErrUnavailable in time, also when many are
// made, and all works when the cluster lives again.
func TestDeadCluster(t *testing.T) {
	t.Parallel()
	c := lab.Ceph(t)
	p := open(t, config(t, c))
	base(t, p)
	c.Freeze(t)
	thawed := false
	defer func() {
		if !thawed {
			c.Thaw(t)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			begin := time.Now()
			ctx := ctx
			if i%2 == 0 { // one that has time, whom Ceph's own timeouts end
				ctx = t.Context()
			}
			_, err := p.CloneVolume(ctx, "job", volume(fmt.Sprint("v", i)))
			if !errors.Is(err, seedbed.ErrUnavailable) {
				t.Errorf("clone %d: %v", i, err)
			}
			if took := time.Since(begin); took > 2*inTime {
				t.Errorf("clone %d took %s", i, took)
			}
		})
	}
	wg.Wait()
	if n := p.gate.Stuck(); n > cgate.MaxStuck+cgate.MaxCalls {
		t.Errorf("%d calls are stuck", n)
	}
	c.Thaw(t)
	thawed = true
	again(t, func() error {
		_, err := p.CloneVolume(t.Context(), "job", volume("v"))
		return err
	})
	only(t, c, p, "v")
}

// TestStartWithoutCluster: the worker starts, and the pool works when the cluster comes.
func TestStartWithoutCluster(t *testing.T) {
	t.Parallel()
	c := lab.Ceph(t)
	cfg := config(t, c)
	c.StopMon(t)
	p := open(t, cfg)
	begin := time.Now()
	if _, err := p.Volumes(t.Context()); !errors.Is(err, seedbed.ErrUnavailable) || time.Since(begin) > inTime {
		t.Errorf("list: %v after %s", err, time.Since(begin))
	}
	c.StartMon(t)
	again(t, func() error { _, err := p.Volumes(t.Context()); return err })
}

// TestLeftovers: what a process left at any step of the making is swept when its
// node opens the pool again, and what other nodes make is left alone.
func TestLeftovers(t *testing.T) {
	c := cluster(t)
	cfg := config(t, c)
	p := open(t, cfg)
	base(t, p)
	ctx := t.Context()
	var others string
	err := p.do(ctx, "leave things behind", "", func(_ context.Context, s *session) error {
		clone := func(node string) string {
			opts := rbd.NewRbdImageOptions()
			defer opts.Destroy()
			name := buildingName(node)
			if err := errors.Join(opts.SetUint64(rbd.ImageOptionCloneFormat, 2),
				rbd.CloneImage(s.io, rbdOf(roleImage, "base"), snapshot, s.io, name, opts)); err != nil {
				t.Fatal(err)
			}
			return name
		}
		clone(cfg.Node) // cloned, with the image's tag still
		others = clone("node.two")
		tagged, early, late, whole := clone(cfg.Node), clone(cfg.Node), clone(cfg.Node), clone(cfg.Node)
		set := func(at, name string, st state) {
			if err := s.setTag(at, tag{Role: roleVolume, Name: name, State: st, Node: cfg.Node, Instance: "i", Image: "base",
				Size: 16 << 20}); err != nil {
				t.Fatal(err)
			}
		}
		set(tagged, "tagged", stateBuilding)
		// Cut off in the middle of the rename: the new name has its object, the directory has the
		// old one.
		set(early, "early", stateBuilding)
		id := make([]byte, 256)
		n, err := s.io.Read(idObject+early, id, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.io.Write(idObject+rbdOf(roleVolume, "early"), id[:n], 0); err != nil {
			t.Fatal(err)
		}
		// Cut off after it.
		set(late, "late", stateBuilding)
		set(whole, "whole", stateBuilding)
		for at, to := range map[string]string{late: "late", whole: "whole"} {
			if err := rbd.GetImage(s.io, at).Rename(rbdOf(roleVolume, to)); err != nil {
				t.Fatal(err)
			}
		}
		set(rbdOf(roleVolume, "whole"), "whole", stateReady)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A retry in the same process finds the way free, too.
	spec := volume("late")
	if _, err := p.CloneVolume(ctx, "job", spec); err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveVolume(ctx, "late", "i"); err != nil {
		t.Fatal(err)
	}
	p.stop()
	p.wg.Wait()
	again := cfg
	again.Lock += ".second"
	q := open(t, again)
	want := []string{rbdOf(roleImage, "base"), others, rbdOf(roleVolume, "whole")}
	slices.Sort(want)
	got := names(t, c, cfg.Pool)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("left: %v; want %v", got, want)
	}
	for _, name := range []string{"tagged", "early", "late"} {
		if _, err := q.CloneVolume(ctx, "job", volume(name)); err != nil {
			t.Errorf("%s cannot be made again: %v", name, err)
		}
	}
	if _, err := Open(ctx, again); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("a second process opens the pool: %v", err)
	}
}

// TestTogether: calls for many names and for the same name at once.
func TestTogether(t *testing.T) {
	c := cluster(t)
	cfg := config(t, c)
	p := open(t, cfg)
	other := cfg
	other.Node, other.Lock = "node.two", cfg.Lock+".two"
	q := open(t, other) // another node's worker
	base(t, p)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			name := fmt.Sprint("v", i%8)
			for pool := range slices.Values([]*Pool{p, q}) {
				again(t, func() error {
					_, err := pool.CloneVolume(t.Context(), "job", volume(name))
					return err
				})
			}
		})
	}
	wg.Wait()
	if err := p.RemoveImage(t.Context(), "job", "base"); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("remove an image with clones: %v", err)
	}
	all, err := q.Volumes(t.Context())
	if err != nil || len(all) != 8 {
		t.Errorf("%d volumes, %v", len(all), err)
	}
	for _, v := range all {
		wg.Go(func() {
			if err := p.RemoveVolume(t.Context(), v.Name, "i"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	only(t, c, p)
}

// TestWatcher: a removal waits for an image's user, and says who it is when it stays.
func TestWatcher(t *testing.T) {
	c := cluster(t)
	p := open(t, config(t, c))
	base(t, p)
	if _, err := p.CloneVolume(t.Context(), "job", volume("v")); err != nil {
		t.Fatal(err)
	}
	_, leave := used(t, p)
	if err := p.RemoveVolume(t.Context(), "v", "i"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("remove a volume in use: %v", err)
	}
	only(t, c, p, "v")
	p.cfg.WatcherFor = lab.Patience // the user leaves late on a busy machine
	removed := make(chan error, 1)
	go func() { removed <- p.RemoveVolume(t.Context(), "v", "i") }()
	leave()
	if err := <-removed; err != nil {
		t.Errorf("remove a volume that its user leaves: %v", err)
	}
	only(t, c, p)
}
