package provision

import (
	"context"
	"testing"

	"seedbed"
	"seedbed/provision/worker/drivertest"

	"github.com/google/go-cmp/cmp"
)

// TestCommandOutput checks that the output of an effect's commands is stored as the output of its
// stage, in both directions.
func TestCommandOutput(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.pool.Fail(func(ctx context.Context, name string, at drivertest.Point) error {
		if at == drivertest.Before {
			seedbed.OutputOf(ctx)(seedbed.OutputLine{Stream: seedbed.OutputNote, Text: name + " runs"})
			seedbed.OutputOf(ctx)(seedbed.OutputLine{Stream: "stderr", Text: name + " complains"})
		}
		return nil
	})
	l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		if name == "StartDomain" && at == drivertest.Before {
			return seedbed.Errorf(seedbed.ErrForbidden, "refused")
		}
		return nil
	})
	id := l.create("web1")
	l.runUntil(id, seedbed.JobRolledBack)
	var got []string
	for _, o := range l.output(id) {
		got = append(got, o.Stage+" "+o.Stream+": "+o.Text)
	}
	want := []string{
		"volumes note: CloneVolume runs", "volumes stderr: CloneVolume complains",
		"volumes note: RemoveVolume runs", "volumes stderr: RemoveVolume complains",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
