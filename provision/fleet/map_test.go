package fleet_test

import (
	"errors"
	"testing"

	"seedbed"
	"seedbed/provision/effects"
)

// TestStartWhileMapped checks that a domain whose volume is mapped does not start: both would
// write.
func TestStartWhileMapped(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	spec := volume()
	_, err := effects.CloneVolume.Do(ctx, l, call(1), spec)
	must(t, "clone", err)
	must(t, "define", effects.DefineDomain.Do(ctx, l, call(1), seedbed.DomainSpec{ID: spec.Instance, Name: "guest", Job: call(1).Job}))
	_, err = l.pool.MapVolume(ctx, call(1).Job, spec.Name, spec.Instance)
	must(t, "map", err)
	if err := effects.StartDomain.Do(ctx, l, call(1), effects.DomainRef{ID: spec.Instance}); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("start while it is mapped: %v", err)
	}
	must(t, "unmap", l.pool.UnmapVolume(ctx, spec.Name, spec.Instance))
	must(t, "start", effects.StartDomain.Do(ctx, l, call(1), effects.DomainRef{ID: spec.Instance}))
}
