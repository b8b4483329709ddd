package feed

import (
	"testing"

	"seedbed"
)

// TestEverythingArrives: both documents, what is the installation's, what is the node's, and what
// has changed; and all of it from the disk as well.
func TestEverythingArrives(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	g := guest(1)
	g.VendorData = m.keep([]byte("vendor"))
	m.site = seedbed.Site{Domain: "example.org", Certificate: []byte{1, 2}}
	m.publish(g, []byte("user"))
	m.publish(guest(2), nil)
	stopServer := runServer(t, m, socketIn(dir))
	r := &recorder{}
	stopClient := background(t, newClient(t, socketIn(dir), dir, r).Run)
	eventually(t, "the snapshot is acknowledged", m.ackedAt(2))
	if s := r.last(); s.Since != -1 || s.Changed != nil {
		t.Errorf("the snapshot is since %d, with %v changed", s.Since, s.Changed)
	}
	m.mu.Lock()
	m.upkeep = []seedbed.Maintenance{{ID: "instance-event-1", Code: "system-reboot", State: seedbed.MaintenanceActive}}
	m.mu.Unlock()
	m.publish(guest(3), nil)
	eventually(t, "the change is acknowledged", m.ackedAt(3))
	check := func(s seedbed.GuestPlaneState) {
		t.Helper()
		got, ok := s.Guest(g.ID)
		if !ok || got.VendorData == nil {
			t.Fatalf("guest %+v, %v", got, ok)
		}
		if b, _ := s.Blob(got.VendorData.SHA256); string(b) != "vendor" || userData(t, s, g.ID) != "user" {
			t.Errorf("vendor-data %q", b)
		}
		if s.Site.Domain != "example.org" || len(s.Site.Certificate) != 2 || len(s.Maintenance) != 1 || len(all(s)) != 3 {
			t.Errorf("site %+v, maintenance %+v, %d guests", s.Site, s.Maintenance, len(all(s)))
		}
		if _, ok := s.Guest(instance(9)); ok {
			t.Error("an instance that there is not was found")
		}
	}
	s := r.last()
	check(s)
	if s.Since != 2 || len(s.Changed) != 1 || s.Changed[0] != instance(3) {
		t.Errorf("the change is since %d, with %v changed", s.Since, s.Changed)
	}
	stopClient()
	stopServer()
	r = &recorder{}
	background(t, newClient(t, socketIn(dir), dir, r).Run)
	eventually(t, "the disk is applied", func() bool { return r.count() == 1 })
	check(r.last())
}
