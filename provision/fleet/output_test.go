package fleet_test

import (
	"context"
	"fmt"
	"testing"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/worker/drivertest"

	"github.com/google/go-cmp/cmp"
)

// TestOutputOverTheWire checks that the output of an effect's commands on the worker's host reaches
// the sink of the caller's context, all of it before the effect's end.
func TestOutputOverTheWire(t *testing.T) {
	t.Parallel()
	l := start(t)
	l.pool.Fail(func(ctx context.Context, name string, at drivertest.Point) error {
		if at == drivertest.Before {
			for n := range 3 {
				seedbed.OutputOf(ctx)(seedbed.OutputLine{Stream: "stderr", Text: fmt.Sprintf("%s %d", name, n)})
			}
		}
		return nil
	})
	var all []string
	ctx := seedbed.WithOutput(t.Context(), func(line seedbed.OutputLine) { all = append(all, line.Stream+": "+line.Text) })
	_, err := effects.CloneVolume.Do(ctx, l, call(1), volume())
	must(t, "clone", err)
	want := []string{"stderr: CloneVolume 0", "stderr: CloneVolume 1", "stderr: CloneVolume 2"}
	if d := cmp.Diff(want, all); d != "" {
		t.Error(d)
	}
	_, err = effects.CloneVolume.Do(t.Context(), l, call(1), volume()) // without a listener
	must(t, "clone again", err)
	if len(all) != 3 {
		t.Errorf("got %q", all)
	}
}
