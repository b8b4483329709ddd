package drivertest

import (
	"context"
	"testing"

	"seedbed"
)

// testReport checks the number of running domains, and that the other numbers are plausible.
func testReport(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	running := func() int {
		t.Helper()
		r, err := h.Report(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if r.CPUs < 1 || r.Load < 0 || r.Memory < seedbed.MiB || r.MemoryFree < 0 || r.MemoryFree > r.Memory || r.Arch == "" ||
			r.Hypervisor == "" {
			t.Errorf("report %+v", r)
		}
		return r.Domains
	}
	before := running()
	ok(t, "define", h.DefineDomain(ctx, spec))
	if n := running(); n != before {
		t.Errorf("a domain that is off counts: %d, and %d before", n, before)
	}
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	if n := running(); n != before+1 {
		t.Errorf("%d domains run, and %d before", n, before)
	}
	ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
	ok(t, "undefine", h.UndefineDomain(ctx, spec.ID))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := h.Report(ended); err == nil {
		t.Error("a report after the call's end")
	}
}
