package worker_test

import (
	"errors"
	"testing"

	"seedbed"
)

// A domain whose volume is mapped does not start: both would write.
func TestStartWhileMapped(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	spec := volume()
	_, err := l.CloneVolume(ctx, call(1), spec)
	must(t, "clone", err)
	must(t, "define", l.DefineDomain(ctx, call(1), seedbed.DomainSpec{ID: spec.Instance, Name: "guest", Job: call(1).Job}))
	_, err = l.pool.MapVolume(ctx, call(1).Job, spec.Name, spec.Instance)
	must(t, "map", err)
	if err := l.StartDomain(ctx, call(1), spec.Instance); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("start while it is mapped: %v", err)
	}
	must(t, "unmap", l.pool.UnmapVolume(ctx, spec.Name, spec.Instance))
	must(t, "start", l.StartDomain(ctx, call(1), spec.Instance))
}
