package provision

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/worker/drivertest"
)

// TestAsScripted checks that a guest is told of its disks by the names of its script's domain, and
// keeps them when its record is rendered again.
func TestAsScripted(t *testing.T) {
	t.Parallel()
	inst := seedbed.Instance{Volumes: []seedbed.Volume{
		{Pool: "default", Name: "web1_sda", Size: 1}, {Pool: "fast", Name: "web1_sdb", Size: 2}, {Pool: "default", Name: "web1_sdc", Size: 3},
	}}
	const doc = `<domain><devices>
		<disk type='block'><source dev='/dev/rbd/fast/web1_sdb'/><target dev='vdb'/></disk>
		<disk type='network'><source protocol='rbd' name='default/web1_sda'><host name='m'/></source><target dev='sda' bus='scsi'/></disk>
		<disk device='cdrom'><target dev='hdc'/></disk></devices></domain>`
	want := []seedbed.GuestDisk{{Device: "sda", Size: 1}, {Device: "vdb", Size: 2}, {Size: 3}}
	got := AsScripted(Renderer{}.Of(inst, seedbed.Guest{}), inst, doc)
	if d := cmp.Diff(want, got.Disks); d != "" {
		t.Errorf("disks (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, Renderer{}.Of(inst, got).Disks); d != "" {
		t.Errorf("disks of the record made anew (-want +got):\n%s", d)
	}
	native := Renderer{}.Of(inst, seedbed.Guest{})
	for name, doc := range map[string]string{"no document": "<domain", "other disks by now": "<domain><devices><disk><source name='default/old'/><target dev='sda'/></disk></devices></domain>"} {
		if d := cmp.Diff(native, AsScripted(native, inst, doc)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func FuzzAsScripted(f *testing.F) {
	f.Add("<domain><devices><disk><source name='p/v'/><target dev='sda'/></disk></devices></domain>")
	f.Add("<!DOCTYPE x [<!ENTITY a 'b'>]><domain>&a;</domain>")
	inst := seedbed.Instance{Volumes: []seedbed.Volume{{Pool: "p", Name: "v"}}}
	f.Fuzz(func(t *testing.T, doc string) {
		if g := AsScripted(Renderer{}.Of(inst, seedbed.Guest{}), inst, doc); len(g.Disks) != 1 {
			t.Errorf("%q gives %v", doc, g.Disks)
		}
	})
}

// TestRebuildOfScripted checks that an instance that a script has made is rebuilt like one of a
// native profile, and has the script's domain again if that fails.
func TestRebuildOfScripted(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	ctx := t.Context()
	l.runUntil(l.compose("web1", true), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(ctx, "web1")
	l.ok(err)
	devices := func() (names []string) {
		t.Helper()
		page, err := l.db.FeedPage(ctx, testNode, 0, "")
		l.ok(err)
		for _, d := range feedtest.Changes(t, page)[0].Guest.Disks {
			names = append(names, d.Device)
		}
		return names
	}
	rebuild := func() seedbed.JobID {
		t.Helper()
		return l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Profile: "small"}, nil))
	}
	l.failEffect("StartDomain", drivertest.Before, seedbed.Errorf(seedbed.ErrFull, "boom"))
	l.runUntil(rebuild(), seedbed.JobIncomplete)
	l.hv.Fail(nil)
	spec, _ := l.hv.Spec(inst.ID)
	if d := cmp.Diff([]string{"sda", ""}, devices()); d != "" || spec.Script == nil {
		t.Errorf("after a rebuild that failed, of a script: %t; disks (-want +got):\n%s", spec.Script != nil, d)
	}
	l.runUntil(rebuild(), seedbed.JobSucceeded)
	spec, _ = l.hv.Spec(inst.ID)
	if d := cmp.Diff([]string{"vda"}, devices()); d != "" || spec.Script != nil {
		t.Errorf("after the rebuild, of a script: %t; disks (-want +got):\n%s", spec.Script != nil, d)
	}
}
