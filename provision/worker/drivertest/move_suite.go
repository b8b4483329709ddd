package drivertest

import (
	"bytes"
	"testing"

	"seedbed"
)

// testMove takes a domain from a hypervisor and gives it back, as to another one.
func testMove(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	_, err := h.CopyDomain(ctx, spec.ID)
	is(t, "copy of an absent domain", err, seedbed.ErrNotFound)
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	was, err := h.DomainState(ctx, spec.ID)
	ok(t, "state", err)
	c, err := h.CopyDomain(ctx, spec.ID)
	ok(t, "copy", err)
	c.Console = []byte("as it was\n")
	other := c
	other.ID = seedbed.NewInstanceID()
	is(t, "receive the copy of another domain", h.ReceiveDomain(ctx, other), seedbed.ErrInvalid)
	is(t, "receive what is not a definition", h.ReceiveDomain(ctx, seedbed.DomainCopy{ID: other.ID, XML: "<x/>"}), seedbed.ErrInvalid)
	ok(t, "undefine", h.UndefineDomain(ctx, spec.ID))
	for range 2 {
		ok(t, "receive", h.ReceiveDomain(ctx, c))
		now, err := h.DomainState(ctx, spec.ID)
		if err != nil || now != was {
			t.Fatalf("received %+v, %v; want %+v", now, err, was)
		}
		text, err := h.Console(ctx, spec.ID, console)
		if err != nil || !bytes.Equal(text, c.Console) {
			t.Fatalf("console %q, %v; want %q", text, err, c.Console)
		}
	}
	ok(t, "resize", h.ResizeDomain(ctx, spec.ID, spec.VCPUs+1, spec.Memory)) // as what another job has left behind
	ok(t, "receive what is off", h.ReceiveDomain(ctx, c))
	again, err := h.CopyDomain(ctx, spec.ID)
	if err != nil || again.XML != c.XML || !bytes.Equal(again.Console, c.Console) {
		t.Fatalf("copied again: %+v, %v; want %+v", again, err, c)
	}
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	ok(t, "receive what runs", h.ReceiveDomain(ctx, c))
	ok(t, "destroy", h.DestroyDomain(ctx, spec.ID))
	ok(t, "undefine", h.UndefineDomain(ctx, spec.ID))
	if got, err := h.Console(ctx, spec.ID, console); err == nil {
		t.Fatalf("the console of what is gone: %q", got)
	}
}

// testMigrateRefused migrates what cannot be.
func testMigrateRefused(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	m := seedbed.Migration{ID: spec.ID, MigrationTarget: seedbed.MigrationTarget{URI: "qemu+unix:///system?socket=/nonexistent"}}
	is(t, "migrate an absent domain", h.MigrateDomain(ctx, m, nil), seedbed.ErrNotFound)
	ok(t, "stop what is absent", h.StopMigration(ctx, spec.ID))
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	is(t, "migrate a domain that is off", h.MigrateDomain(ctx, m, nil), seedbed.ErrConflict)
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	if err := h.MigrateDomain(ctx, m, nil); err == nil {
		t.Fatal("it migrated to a hypervisor that does not exist")
	}
	ok(t, "stop what does not migrate", h.StopMigration(ctx, spec.ID))
	if got, err := h.DomainState(ctx, spec.ID); err != nil || got.State != seedbed.DomainRunning {
		t.Fatalf("after a migration that failed: %+v, %v; want it running", got, err)
	}
	foreign := seedbed.NewInstanceID()
	d.Foreign(t, foreign, "foreign-"+string(foreign[24:]))
	m.ID = foreign
	is(t, "migrate a foreign domain", h.MigrateDomain(ctx, m, nil), seedbed.ErrConflict)
	is(t, "stop a foreign domain", h.StopMigration(ctx, foreign), seedbed.ErrConflict)
}
