package record

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
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
	for name, doc := range map[string]string{
		"no document":        "<domain",
		"other disks by now": "<domain><devices><disk><source name='default/old'/><target dev='sda'/></disk></devices></domain>",
	} {
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

// TestNamed checks that only the name of the domain itself is another one.
func TestNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ doc, want string }{
		"first": {"<domain>\n  <name>web1</name>\n  <uuid>1</uuid></domain>", "<domain>\n  <name>web2</name>\n  <uuid>1</uuid></domain>"},
		"not that of an element": {"<domain><metadata><name>a</name></metadata><name> web1 </name></domain>",
			"<domain><metadata><name>a</name></metadata><name>web2</name></domain>"},
		"none":    {"<domain><uuid>1</uuid></domain>", "<domain><uuid>1</uuid></domain>"},
		"not XML": {"<domain><name>", "<domain><name>"},
	} {
		if got := Named(c.doc, "web2"); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}
