package drivertest

import (
	"testing"

	"seedbed"
	"seedbed/provision/worker"
)

// testAdopt releases a volume, whose disk is then foreign, adopts it for another instance, and
// releases it again.
func testAdopt(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx := t.Context()
	_, spec, info := cloned(t, p)
	disk := seedbed.ForeignDisk{Target: "vda", Type: info.Disk.Type, Source: info.Disk.Source, Format: info.Disk.Format}
	_, err := p.Locate(ctx, disk)
	is(t, "locate a volume", err, seedbed.ErrConflict)
	was := seedbed.VolumeAdoption{Name: spec.Name, Instance: spec.Instance}
	is(t, "release another's volume",
		p.ReleaseVolume(ctx, seedbed.VolumeAdoption{Name: spec.Name, Instance: seedbed.NewInstanceID()}), seedbed.ErrConflict)
	for range 2 {
		ok(t, "release", p.ReleaseVolume(ctx, was))
	}
	if all, err := p.Volumes(ctx); err != nil || len(all) != 0 {
		t.Fatalf("volumes once released: %+v, %v", all, err)
	}
	is(t, "remove what is not a volume", p.RemoveVolume(ctx, spec.Name, spec.Instance), seedbed.ErrConflict)
	found, err := p.Locate(ctx, disk)
	if err != nil || found.Pool == "" || found.Size != info.Size || found.Image != spec.Image {
		t.Fatalf("located %+v, %v; want size %s and image %s", found, err, info.Size, spec.Image)
	}
	a := seedbed.VolumeAdoption{Name: "adopted-0", Instance: seedbed.NewInstanceID(), Project: "other", Source: disk.Source}
	job := seedbed.NewJobID()
	for range 2 {
		made, err := p.AdoptVolume(ctx, job, a)
		if err != nil || made.Name != a.Name || made.Instance != a.Instance || made.Project != "other" ||
			made.Job != job || made.Size != info.Size ||
			made.Disk.Source == disk.Source {
			t.Fatalf("adopted %+v, %v", made, err)
		}
	}
	if _, err := p.Locate(ctx, disk); err == nil {
		t.Error("the disk is where it was")
	}
	for range 2 {
		ok(t, "give back", p.ReleaseVolume(ctx, a))
	}
	if found, err := p.Locate(ctx, disk); err != nil || found.Size != info.Size {
		t.Fatalf("given back: %+v, %v", found, err)
	}
	again := seedbed.VolumeAdoption{Name: spec.Name, Instance: spec.Instance, Source: disk.Source}
	_, err = p.AdoptVolume(ctx, job, again) // under the name that it has
	ok(t, "adopt in place", err)
	ok(t, "remove", p.RemoveVolume(ctx, spec.Name, spec.Instance))
}

func testAdoptRefused(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx := t.Context()
	_, spec, info := cloned(t, p)
	second := clone(8 * seedbed.MiB)
	other, err := p.CloneVolume(ctx, seedbed.NewJobID(), second)
	ok(t, "clone", err)
	ok(t, "release", p.ReleaseVolume(ctx, seedbed.VolumeAdoption{Name: spec.Name, Instance: spec.Instance}))
	_, err = p.AdoptVolume(ctx, seedbed.NewJobID(),
		seedbed.VolumeAdoption{Name: second.Name, Instance: spec.Instance, Source: info.Disk.Source})
	is(t, "adopt under a name that is taken", err, seedbed.ErrConflict)
	_, err = p.AdoptVolume(ctx, seedbed.NewJobID(), seedbed.VolumeAdoption{Name: "x-0", Instance: spec.Instance, Source: other.Disk.Source})
	is(t, "adopt another's volume", err, seedbed.ErrConflict)
	_, err = p.Locate(ctx, seedbed.ForeignDisk{Target: "vda", Type: info.Disk.Type, Source: info.Disk.Source + "x"})
	is(t, "locate nothing", err, seedbed.ErrNotFound)
	if all, err := p.Volumes(ctx); err != nil || len(all) != 1 || all[0].Name != second.Name {
		t.Fatalf("volumes: %+v, %v", all, err)
	}
}

// testAdoptDomain adopts a foreign domain, and releases it.
func testAdoptDomain(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	id, name := spec.ID, spec.Name
	d.Foreign(t, id, name)
	found, err := h.ForeignDomain(ctx, name)
	if err != nil || found.ID != id || found.Name != name || found.State != seedbed.DomainOff {
		t.Fatalf("foreign domain: %+v, %v", found, err)
	}
	listed := func() bool {
		t.Helper()
		all, err := h.ForeignDomains(ctx)
		ok(t, "foreign domains", err)
		for _, f := range all {
			if f.ID == id {
				return true
			}
		}
		return false
	}
	if !listed() {
		t.Fatal("it is not listed")
	}
	_, err = h.ForeignDomain(ctx, name+"-absent")
	is(t, "a domain that is not there", err, seedbed.ErrNotFound)
	a := seedbed.DomainAdoption{ID: id, Name: name, Job: seedbed.NewJobID(), Profile: "adopted", Project: "acme"}
	is(t, "adopt under another name", h.AdoptDomain(ctx, seedbed.DomainAdoption{ID: id, Name: name + "x"}), seedbed.ErrConflict)
	is(t, "adopt with disks that it has not",
		h.AdoptDomain(ctx, seedbed.DomainAdoption{ID: id, Name: name, Sources: []string{"/x"}, Disks: []seedbed.Disk{{Source: "/y"}}}),
		seedbed.ErrConflict)
	for range 2 {
		ok(t, "adopt", h.AdoptDomain(ctx, a))
	}
	if got, err := h.DomainState(ctx, id); err != nil || got.Job != a.Job || got.Project != a.Project || got.State != seedbed.DomainOff {
		t.Fatalf("adopted: %+v, %v", got, err)
	}
	_, err = h.ForeignDomain(ctx, name)
	is(t, "look at an adopted domain", err, seedbed.ErrConflict)
	if listed() {
		t.Error("it is listed as another's")
	}
	for range 2 {
		ok(t, "release", h.ReleaseDomain(ctx, a))
	}
	_, err = h.DomainState(ctx, id)
	is(t, "state once released", err, seedbed.ErrNotFound)
	is(t, "destroy once released", h.DestroyDomain(ctx, id), seedbed.ErrConflict)
	ok(t, "release what is not there", h.ReleaseDomain(ctx, seedbed.DomainAdoption{ID: seedbed.NewInstanceID()}))
}
