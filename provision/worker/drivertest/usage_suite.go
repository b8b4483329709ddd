package drivertest

import (
	"slices"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker"
)

// testDomainUsage looks twice at a domain that runs, and once at it when it is off. Foreign domains are not told of.
func testDomainUsage(t *testing.T, d HypervisorDriver) {
	h, spec, foreign := d.Open(t), d.Spec(t), d.Spec(t)
	d.Foreign(t, foreign.ID, foreign.Name)
	of := func(id seedbed.InstanceID) *seedbed.DomainUsage {
		all, err := h.DomainUsage(t.Context())
		ok(t, "usage", err)
		if i := slices.IndexFunc(all, func(u seedbed.DomainUsage) bool { return u.ID == id }); i >= 0 {
			return &all[i]
		}
		return nil
	}
	ok(t, "define", h.DefineDomain(t.Context(), spec))
	if u := of(spec.ID); u != nil {
		t.Fatalf("a domain that never ran has used %+v", u)
	}
	ok(t, "start", h.StartDomain(t.Context(), spec.ID))
	if d.NoUsage {
		if u := of(spec.ID); u != nil {
			t.Fatalf("%+v of a hypervisor without figures", u)
		}
		return
	}
	first, again := awaitUsage(t, h, spec.ID), awaitUsage(t, h, spec.ID)
	if first.CPU <= 0 || again.CPU < first.CPU || first.VCPUs != spec.VCPUs || first.Memory != spec.Memory || first.Resident <= 0 {
		t.Fatalf("%+v and then %+v, of %d vCPUs and %s", first, again, spec.VCPUs, spec.Memory)
	}
	if u := of(foreign.ID); u != nil {
		t.Fatalf("a foreign domain is told of: %+v", u)
	}
	ok(t, "destroy", h.DestroyDomain(t.Context(), spec.ID))
	if u := of(spec.ID); u != nil {
		t.Fatalf("a domain that is off has used %+v", u)
	}
}

// awaitUsage returns the usage of a domain that runs.
func awaitUsage(t *testing.T, h worker.Inspector, id seedbed.InstanceID) (u seedbed.DomainUsage) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) { // between two looks
		all, err := h.DomainUsage(t.Context())
		ok(t, "usage", err)
		if i := slices.IndexFunc(all, func(u seedbed.DomainUsage) bool { return u.ID == id }); i >= 0 {
			return all[i]
		}
		if time.Now().After(deadline) {
			t.Fatalf("the domain %s runs, and what it has used is not known", id)
		}
	}
}
