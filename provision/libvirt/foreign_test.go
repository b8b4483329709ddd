package libvirt_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/provision/libvirt"
)

func foreignDoc(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("testdata/foreign.xml")
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

func bridges(network string) (string, error) {
	if network == "default" {
		return "virbr0", nil
	}
	return "", errors.New("no such network")
}

func TestParseForeign(t *testing.T) {
	t.Parallel()
	got, err := libvirt.ParseForeign(foreignDoc(t), bridges)
	if err != nil {
		t.Fatal(err)
	}
	want := seedbed.ForeignDomain{
		ID: "0f1e2d3c-1111-4222-8333-444455556666", Name: "old-web", VCPUs: 2, Memory: 2 * seedbed.GiB,
		Disks: []seedbed.ForeignDisk{
			{Target: "vda", Type: "file", Source: "/srv/vms/old-web.qcow2", Format: "qcow2"},
			{Target: "vdb", Type: "rbd", Source: "vms/old-web-data", Format: "raw"},
		},
		NICs: []seedbed.ForeignNIC{
			{MAC: seedbed.MAC{0x52, 0x54, 0, 0xab, 0xcd, 1}, Bridge: "virbr0"},
			{MAC: seedbed.MAC{0x52, 0x54, 0, 0xab, 0xcd, 2}, Bridge: "br7"},
		},
		Problems: []string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseForeignProblems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, replacement, says string }{
		"a block device": {"<source file='/srv/vms/old-web.qcow2'/>", "<source dev='/dev/sdb'/>", "disk vda is neither"},
		"a read-only disk": {"<target dev='vdb' bus='virtio'/>", "<target dev='vdb' bus='virtio'/><readonly/>",
			"disk vdb is shared or read-only"},
		"a shared disk": {"<target dev='vdb' bus='virtio'/>", "<target dev='vdb' bus='virtio'/><shareable/>",
			"disk vdb is shared or read-only"},
		"an unknown net": {"<source network='default'/>", "<source network='other'/>", "interface 1: no such network"},
		"a user interface": {"<interface type='network'>\n      <mac address='52:54:00:AB:CD:01'/>\n      <source network='default'/>",
			"<interface type='user'>\n      <mac address='52:54:00:AB:CD:01'/>", "is not on a bridge"},
		"an unusable name":  {"<name>old-web</name>", "<name>old web</name>", "virsh domrename"},
		"a name with slash": {"<name>old-web</name>", "<name>a/b</name>", "virsh domrename"},
		// It is that of the domain of instance x in project acme, should there be one.
		"a name with dot": {"<name>old-web</name>", "<name>x.acme</name>", "virsh domrename"},
	} {
		doc := strings.Replace(foreignDoc(t), test.old, test.replacement, 1)
		if test.says == "disk vda is neither" {
			doc = strings.Replace(doc, "<disk type='file' device='disk'>", "<disk type='block' device='disk'>", 1)
		}
		got, err := libvirt.ParseForeign(doc, bridges)
		if err != nil || !strings.Contains(strings.Join(got.Problems, "; "), test.says) {
			t.Errorf("%s: problems %q, %v; want one that says %q", name, got.Problems, err, test.says)
		}
	}
}

func adoption() seedbed.DomainAdoption {
	return seedbed.DomainAdoption{
		ID: "0f1e2d3c-1111-4222-8333-444455556666", Name: "old-web", Job: job, Profile: "p",
		Disks:   []seedbed.Disk{{Type: "file", Source: "/pool/volumes/x-0.qcow2"}, {Type: "rbd", Source: "vms/seedbed-volume.x-1"}},
		Sources: []string{"/srv/vms/old-web.qcow2", "vms/old-web-data"},
		NICs: []seedbed.DomainNIC{
			{Tap: "sb4", MAC: seedbed.MAC{0x52, 0x54, 0, 0xab, 0xcd, 1}, Bridge: "virbr0"},
			{Tap: "sb5", MAC: seedbed.MAC{0x52, 0x54, 0, 0xab, 0xcd, 2}, Bridge: "br7"},
		},
	}
}

// An adopted domain is what it was but for whose it is and where its disks and
// taps are; given back, those are as before.
func TestAdoptedXML(t *testing.T) {
	t.Parallel()
	a := adoption()
	doc, err := libvirt.AdoptedXML(foreignDoc(t), a, "/console")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<source file="/pool/volumes/x-0.qcow2">`, `name="vms/seedbed-volume.x-1"`, `<host name="192.0.2.1" port="3300">`,
		`<auth username="libvirt">`,
		`<source bridge="virbr0">`, `<target dev="sb4">`, `<target dev="sb5">`, `/srv/iso/debian.iso`, `passwd="hush"`, "libosinfo:libosinfo",
		`id="0f1e2d3c-1111-4222-8333-444455556666"`, `<log file="/console/0f1e2d3c-1111-4222-8333-444455556666.log"`, `machine="pc-q35-7.2"`,
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("%s is not in the adopted domain:\n%s", want, doc)
		}
	}
	if _, err := libvirt.AdoptedXML(doc, a, "/console"); err != nil {
		t.Errorf("adopt what was adopted: %v", err)
	}
	back, err := libvirt.GivenBackXML(doc, a, "/console")
	if err != nil {
		t.Fatal(err)
	}
	var was, is libvirtxml.Domain
	if err := errors.Join(was.Unmarshal(foreignDoc(t)), is.Unmarshal(back)); err != nil {
		t.Fatal(err)
	}
	was.Metadata, is.Metadata = nil, nil
	was.Devices.Interfaces[0].Source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: "virbr0"}}
	was.Devices.Interfaces[1].Target = nil
	if diff := cmp.Diff(was, is); diff != "" {
		t.Error(diff)
	}
}

func TestAdoptedXMLDiffers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*seedbed.DomainAdoption){
		"another disk":    func(a *seedbed.DomainAdoption) { a.Sources[0] = "/srv/other.qcow2" },
		"fewer disks":     func(a *seedbed.DomainAdoption) { a.Sources, a.Disks = a.Sources[:1], a.Disks[:1] },
		"another MAC":     func(a *seedbed.DomainAdoption) { a.NICs[0].MAC[5] = 9 },
		"another NIC yet": func(a *seedbed.DomainAdoption) { a.NICs = a.NICs[:1] },
	} {
		a := adoption()
		change(&a)
		if _, err := libvirt.AdoptedXML(foreignDoc(t), a, "/console"); !errors.Is(err, seedbed.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
	}
}
