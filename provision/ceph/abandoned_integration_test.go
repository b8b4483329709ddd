//go:build integration && ceph

package ceph

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/worker/drivertest"
)

// left leaves in the pool what node was making for job when it ended: an RBD image
// of a building name, half way to its final name, or that has it and is not ready.
func left(t *testing.T, p *Pool, node, where string, r role, name string, job seedbed.JobID) (from string) {
	t.Helper()
	from = buildingName(node)
	err := p.do(t.Context(), "leave "+name, "", func(_ context.Context, s *session) error {
		opts := rbd.NewRbdImageOptions()
		defer opts.Destroy()
		made := tag{Role: r, Name: name, State: stateBuilding, Node: node, Job: job, Instance: "i", Size: 16 << 20}
		if err := errors.Join(rbd.CreateImage(s.io, from, 16<<20, opts), s.setTag(from, made)); err != nil {
			return err
		}
		switch where {
		case "half":
			id := make([]byte, 256)
			n, err := s.io.Read(idObject+from, id, 0)
			if err != nil {
				return err
			}
			return s.io.Write(idObject+rbdOf(r, name), id[:n], 0)
		case "named":
			return rbd.GetImage(s.io, from).Rename(rbdOf(r, name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// TestNodeNeverReturns: what a node has left half way to a name, another makes that
// goes on with its job; the rest is free once it is abandoned, and not before.
func TestNodeNeverReturns(t *testing.T) {
	c := cluster(t)
	cfg := config(t, c)
	p := open(t, cfg)
	base(t, p)
	second := cfg
	second.Node, second.Lock = "node.two", cfg.Lock+".second"
	q := open(t, second)
	ctx := t.Context()
	path, _ := drivertest.BootableFile(t)
	for _, where := range []string{"half", "named"} {
		left(t, p, cfg.Node, where, roleImage, where, "moved")
		spec := seedbed.ImageSpec{Name: where, Path: path}
		if _, err := q.ImportImage(ctx, "other", spec, nil); !errors.Is(err, seedbed.ErrUnavailable) ||
			!strings.Contains(err.Error(), "by node node.one") {
			t.Errorf("%s, another job: %v", where, err)
		}
		if _, err := q.ImportImage(ctx, "moved", spec, nil); err != nil {
			t.Errorf("%s, the job that has moved: %v", where, err)
		}
		left(t, p, cfg.Node, where, roleImage, "gone-"+where, "moved")
		if err := q.RemoveImage(ctx, "moved", "gone-"+where); err != nil {
			t.Errorf("%s, removed: %v", where, err)
		}
	}
	want := func(extra ...string) {
		t.Helper()
		want := append([]string{rbdOf(roleImage, "base"), rbdOf(roleImage, "half"), rbdOf(roleImage, "named")}, extra...)
		got := names(t, c, cfg.Pool)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the pool has %v; want %v", got, want)
		}
	}
	want()

	used := left(t, p, cfg.Node, "made", roleVolume, "used", "gone")
	early := left(t, p, cfg.Node, "half", roleVolume, "early", "gone")
	idle := left(t, p, cfg.Node, "made", roleVolume, "idle", "gone")
	left(t, p, cfg.Node, "named", roleVolume, "late", "gone")
	if err := q.sweep(ctx); err != nil {
		t.Fatal(err)
	}
	want(used, early, idle, rbdOf(roleVolume, "late"))
	if _, err := q.CloneVolume(ctx, "job", volume("late")); !errors.Is(err, seedbed.ErrUnavailable) ||
		!strings.Contains(err.Error(), "24h0m0s after") {
		t.Errorf("a volume that may still come: %v", err)
	}

	s, err := p.link.get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer p.link.put(s, false)
	busy, err := rbd.OpenImage(s.io, used, rbd.NoSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	second.Lock, second.Abandoned = cfg.Lock+".third", time.Millisecond
	r := open(t, second) // sweeps
	want(used)
	if err := s.closeImage(busy); err != nil {
		t.Fatal(err)
	}
	if err := r.sweep(ctx); err != nil {
		t.Fatal(err)
	}
	want()
	left(t, p, cfg.Node, "half", roleVolume, "early", "gone")
	left(t, p, cfg.Node, "named", roleVolume, "late", "gone")
	for _, name := range []string{"early", "late"} {
		if _, err := r.CloneVolume(ctx, "job", volume(name)); err != nil {
			t.Errorf("%s cannot be made again: %v", name, err)
		}
	}
	want(rbdOf(roleVolume, "early"), rbdOf(roleVolume, "late"))
}

// TestSweptAgain: what Ceph makes for a call that has failed is removed even if it comes after the
// sweep that the call has asked for.
func TestSweptAgain(t *testing.T) {
	c := cluster(t)
	cfg := config(t, c)
	cfg.SweepAgain = 2 * time.Second
	p := open(t, cfg)
	gone := func() bool { return len(names(t, c, cfg.Pool)) == 0 }
	left(t, p, cfg.Node, "", roleVolume, "in-time", "job")
	p.soil()
	lab.Await(t, lab.Swept, "the first is removed", gone)
	left(t, p, cfg.Node, "", roleVolume, "too-late", "job")
	lab.Await(t, lab.Swept, "the second, of which the pool was not told, is removed too", gone)
}
