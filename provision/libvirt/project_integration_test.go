//go:build integration && libvirt

package libvirt_test

import (
	"bytes"
	"testing"

	"seedbed"
)

// TestOneNameInTwoProjects: the domains of two instances of one name, each in a project, run side by
// side with consoles of their own, and the removal of one leaves the other.
func TestOneNameInTwoProjects(t *testing.T) {
	base, dir := connect(t, system), t.TempDir()
	withBridge(t)
	d := openIn(t, system, dir)
	ours := newSpec(t, base, seedbed.Disk{Type: "file", Format: "raw", Source: bootable(t, sayHello)})
	theirs := newSpec(t, base, seedbed.Disk{Type: "file", Format: "raw", Source: bootable(t, sayHello)})
	theirs.Name = seedbed.Named("acme", ours.Name).String()
	for _, s := range []seedbed.DomainSpec{ours, theirs} {
		if err := d.DefineDomain(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := d.StartDomain(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []seedbed.DomainSpec{ours, theirs} {
		dom, err := base.LookupDomainByName(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := dom.GetUUIDString(); err != nil || id != string(s.ID) {
			t.Errorf("domain %s is %s, %v; want %s", s.Name, id, err, s.ID)
		}
		dom.Free()
		until(t, "the guest speaks on its console", func() bool {
			text, err := d.Console(t.Context(), s.ID, seedbed.KiB)
			return err == nil && bytes.Count(text, []byte("seedbed says hello")) == 1
		})
	}
	remove(t, d, theirs.ID)
	wantState(t, d, ours.ID, seedbed.DomainRunning)
	if text, err := d.Console(t.Context(), ours.ID, seedbed.KiB); err != nil || !bytes.Contains(text, []byte("seedbed says hello")) {
		t.Errorf("the console after the other's removal: %q, %v", text, err)
	}
	remove(t, d, ours.ID)
}
