package libvirt_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/provision/libvirt"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	id  = seedbed.InstanceID("ec2f1c5e-7b1a-4c3d-9e8f-0123456789ab")
	job = seedbed.JobID("0a1b2c3d-1111-4222-8333-444455556666")
)

func spec() seedbed.DomainSpec {
	return seedbed.DomainSpec{
		ID: id, Name: "web-1", VCPUs: 2, Memory: 1 * seedbed.GiB, Profile: "debian", Job: job,
		Disks: []seedbed.Disk{
			{
				Type: "file", Source: "/var/lib/seedbed-pools/default/" + string(id) + "-0.qcow2", Format: "qcow2",
				Backing: "/var/lib/seedbed-pools/default/images/debian.qcow2",
			},
		},
		NICs: []seedbed.DomainNIC{{Tap: "sb7", MAC: seedbed.MAC{0x52, 0x54, 0, 1, 2, 3}, Bridge: "seedbed0"}},
	}
}

func rbdDisk() seedbed.Disk {
	return seedbed.Disk{Type: "rbd", Source: "vms/seedbed-volume." + string(id) + "-0", Format: "raw", RBD: seedbed.RBDSource{
		Monitors: "192.0.2.1:3300,192.0.2.2:3300,[2001:db8::3]:3300", User: "seedbed", Secret: "9d7f6f86-0d0e-5e5c-9b8b-0123456789ab",
	}}
}

func host(domainType string) libvirt.Host {
	return libvirt.Host{
		DomainType: domainType, Arch: "x86_64", Emulator: "/usr/bin/qemu-system-x86_64", Machine: "pc",
		ConsoleDir: "/var/log/seedbed-console", CDROMDir: "/var/lib/seedbed-cdrom", Uplinks: map[string]string{"lan": "eno2"},
	}
}

func TestDomainXMLGolden(t *testing.T) {
	t.Parallel()
	big := spec()
	big.VCPUs, big.Memory = 8, 3*seedbed.GiB+1
	big.Disks = append(big.Disks, seedbed.Disk{Type: "file", Source: "/srv/a & b/<data>.raw", Format: "raw"})
	big.NICs = append(big.NICs, seedbed.DomainNIC{Tap: "sb2147483647", MAC: seedbed.MAC{0x52, 0x54, 0, 0xff, 0xfe, 0xfd}, Bridge: "br.42"})
	big.Profile = `a "quoted" <profile> & more`
	rbd := spec()
	rbd.Disks = []seedbed.Disk{rbdDisk()}
	system := spec()
	system.Firmware = seedbed.FirmwareUEFI
	secure := spec()
	secure.Firmware, secure.System = seedbed.FirmwareSecure, &seedbed.System{Serial: true, TPM: true}
	system.System = &seedbed.System{
		Serial: true, VNC: true, VNCBind: "192.0.2.7", Autostart: true, MigrationMethod: "live", MigrationMaxDowntime: 300,
	}
	scsi := spec()
	scsi.Disks = append(scsi.Disks, rbdDisk())
	scsi.System = &seedbed.System{Serial: true, DiskBus: seedbed.BusSCSI}
	screen := spec() // and no serial console
	screen.System = &seedbed.System{VNC: true}
	bare := spec()
	bare.Disks, bare.NICs = nil, nil
	cdrom := spec()
	cdrom.CDROM, cdrom.Datasource = true, seedbed.DatasourceNoCloud
	cdromOnSCSI := scsi
	cdromOnSCSI.CDROM, cdromOnSCSI.Datasource = true, seedbed.DatasourceNoCloud
	direct := cdrom
	direct.NICs = []seedbed.DomainNIC{{MAC: spec().NICs[0].MAC, Uplink: "eth1", Mode: seedbed.DirectBridge},
		{MAC: spec().NICs[0].MAC, Uplink: "lan", Mode: seedbed.DirectPassthrough}}
	function := cdrom
	function.NICs = []seedbed.DomainNIC{{MAC: spec().NICs[0].MAC, Uplink: "eth1", Mode: seedbed.DirectSRIOV},
		{MAC: spec().NICs[0].MAC, Uplink: "lan", Mode: seedbed.DirectSRIOV, VLAN: 12}}
	network := spec()
	network.Disks = append(network.Disks, rbdDisk())
	network.NICs = append(network.NICs, seedbed.DomainNIC{Tap: "sb2", MAC: spec().NICs[0].MAC, Bridge: "lab0"})
	network.NICs[0].Boot = true
	directNetwork := direct
	directNetwork.NICs = slices.Clone(direct.NICs)
	directNetwork.NICs[0].Boot = true
	drive := spec()
	drive.Disks[0].Backing = ""
	drive.System = &seedbed.System{Serial: true, BootFrom: seedbed.BootCDROM}
	drive.Drive = &seedbed.CDROMDrive{
		Disk: &seedbed.Disk{Type: "file", Source: "/var/lib/seedbed-pools/default/images/iso.qcow2", Format: "qcow2"},
	}
	driveOnQ35 := spec()
	iso := rbdDisk()
	driveOnQ35.Drive = &seedbed.CDROMDrive{Disk: &iso}
	q35 := host(libvirt.TypeKVM)
	q35.Machine = "q35"
	announcing := func(d seedbed.Datasource) seedbed.DomainSpec {
		s := spec()
		s.Datasource = d
		return s
	}
	for _, c := range []struct {
		name string
		spec seedbed.DomainSpec
		host libvirt.Host
	}{
		{"openstack", announcing(seedbed.DatasourceOpenStack), host(libvirt.TypeKVM)},
		{"nocloud", announcing(seedbed.DatasourceNoCloud), host(libvirt.TypeKVM)},
		{"cdrom", cdrom, host(libvirt.TypeKVM)},
		{"drive", drive, host(libvirt.TypeKVM)},
		{"driveq35", driveOnQ35, q35},
		{"cdromscsi", cdromOnSCSI, host(libvirt.TypeKVM)},
		{"macvtap", direct, host(libvirt.TypeKVM)},
		{"sriov", function, host(libvirt.TypeKVM)},
		{"network", network, host(libvirt.TypeKVM)},
		{"directnetwork", directNetwork, host(libvirt.TypeKVM)},
		{"none", announcing(seedbed.DatasourceNone), host(libvirt.TypeKVM)},
		{"kvm", spec(), host(libvirt.TypeKVM)},
		{"qemu", spec(), host(libvirt.TypeQEMU)},
		{"many", big, host(libvirt.TypeQEMU)},
		{"system", system, host(libvirt.TypeKVM)},
		{"secure", secure, host(libvirt.TypeKVM)},
		{"scsi", scsi, host(libvirt.TypeKVM)},
		{"screen", screen, host(libvirt.TypeKVM)},
		{"rbd", rbd, host(libvirt.TypeKVM)},
		{"test", bare, libvirt.Host{DomainType: libvirt.TypeTest, Arch: "i686", ConsoleDir: "/c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := libvirt.DomainXML(c.spec, c.host)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", c.name+".xml")
			if *update {
				if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got+"\n", "\n")); diff != "" {
				t.Errorf("%s differs (-want +got; if this is right, write it with -update):\n%s", file, diff)
			}
		})
	}
}

// TestDomainXMLIdentity holds what cloud-init's ds-identify looks at.
func TestDomainXMLIdentity(t *testing.T) {
	t.Parallel()
	doc, err := libvirt.DomainXML(spec(), host(libvirt.TypeQEMU))
	if err != nil {
		t.Fatal(err)
	}
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(doc); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{"domain": dom.UUID, "mode": dom.OS.SMBios.Mode}
	for _, e := range dom.SysInfo[0].SMBIOS.System.Entry {
		got[e.Name] = e.Value
	}
	want := map[string]string{
		"domain": string(id), "uuid": string(id), "serial": string(id), "mode": "sysinfo",
		"manufacturer": "Seedbed", "product": "Seedbed Instance", "family": "Virtual Machine",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDomainXMLRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*seedbed.DomainSpec)
	}{
		{"no UUID", func(s *seedbed.DomainSpec) { s.ID = "../../etc/passwd" }},
		{"no host name", func(s *seedbed.DomainSpec) { s.Name = "Web_1" }},
		{"no project", func(s *seedbed.DomainSpec) { s.Name = "web1." }},
		{"no project name", func(s *seedbed.DomainSpec) { s.Name = "web1.Acme" }},
		{"two projects", func(s *seedbed.DomainSpec) { s.Name = "web1.acme.example" }},
		{"the default project", func(s *seedbed.DomainSpec) { s.Name = "web1.default" }},
		{"no vcpu", func(s *seedbed.DomainSpec) { s.VCPUs = 0 }},
		{"too many vcpus", func(s *seedbed.DomainSpec) { s.VCPUs = 256 }},
		{"no memory", func(s *seedbed.DomainSpec) { s.Memory = 0 }},
		{"negative memory", func(s *seedbed.DomainSpec) { s.Memory = -seedbed.GiB }},
		{"control character", func(s *seedbed.DomainSpec) { s.Profile = "a\x00b" }},
		{"no UTF-8", func(s *seedbed.DomainSpec) { s.Profile = "a\xff" }},
		{"disk type", func(s *seedbed.DomainSpec) { s.Disks[0].Type = "nbd" }},
		{"rbd without a cluster", func(s *seedbed.DomainSpec) { s.Disks[0] = rbdDisk(); s.Disks[0].RBD = seedbed.RBDSource{} }},
		{"rbd without a pool", func(s *seedbed.DomainSpec) { s.Disks[0] = rbdDisk(); s.Disks[0].Source = "image" }},
		{"rbd in qcow2", func(s *seedbed.DomainSpec) { s.Disks[0] = rbdDisk(); s.Disks[0].Format = "qcow2" }},
		{"rbd options in the name", func(s *seedbed.DomainSpec) { s.Disks[0] = rbdDisk(); s.Disks[0].Source += ":conf=/x" }},
		{"rbd monitor without a port", func(s *seedbed.DomainSpec) { s.Disks[0] = rbdDisk(); s.Disks[0].RBD.Monitors = "192.0.2.1" }},
		{"rbd secret", func(s *seedbed.DomainSpec) { s.Disks[0] = rbdDisk(); s.Disks[0].RBD.Secret = "key" }},
		{"disk format", func(s *seedbed.DomainSpec) { s.Disks[0].Format = "vmdk" }},
		{"relative path", func(s *seedbed.DomainSpec) { s.Disks[0].Source = "x.qcow2" }},
		{"too many disks", func(s *seedbed.DomainSpec) { s.Disks = make([]seedbed.Disk, 17) }},
		{"too many NICs", func(s *seedbed.DomainSpec) { s.NICs = make([]seedbed.DomainNIC, 9) }},
		{"reserved tap", func(s *seedbed.DomainSpec) { s.NICs[0].Tap = "vnet3" }},
		{"pattern as tap", func(s *seedbed.DomainSpec) { s.NICs[0].Tap = "sb%d" }},
		{"long tap", func(s *seedbed.DomainSpec) { s.NICs[0].Tap = "sb12345678901234" }},
		{"no tap", func(s *seedbed.DomainSpec) { s.NICs[0].Tap = "" }},
		{"no bridge", func(s *seedbed.DomainSpec) { s.NICs[0].Bridge = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := spec()
			c.change(&s)
			if doc, err := libvirt.DomainXML(s, host(libvirt.TypeQEMU)); !errors.Is(err, seedbed.ErrInvalid) {
				t.Errorf("got %q, %v; want ErrInvalid", doc, err)
			}
		})
	}
}

func TestTag(t *testing.T) {
	t.Parallel()
	of := spec()
	of.Project = "acme"
	doc, err := libvirt.DomainXML(of, host(libvirt.TypeQEMU))
	if err != nil {
		t.Fatal(err)
	}
	var dom struct {
		Metadata struct {
			XML string `xml:",innerxml"`
		} `xml:"metadata"`
	}
	if err := xml.Unmarshal([]byte(doc), &dom); err != nil {
		t.Fatal(err)
	}
	old := libvirt.Tag{Version: 1, Instance: id, Job: job, Profile: "debian"} // of a release without projects
	want := old
	want.Project = "acme"
	for _, c := range []struct {
		name, doc string
		want      libvirt.Tag
	}{
		{"as written", dom.Metadata.XML, want},
		{"namespace declared elsewhere", strings.ReplaceAll(dom.Metadata.XML, ` xmlns:seedbed="urn:seedbed:domain"`, ""), want},
		{
			"as libvirt 9 returns it",
			`<instance version="1" id="` + string(id) + `" job="` + string(job) + `" profile="debian" project="acme"/>`, want,
		},
		{
			"default namespace",
			`<instance xmlns="urn:seedbed:domain" version="1" id="` + string(id) + `" job="` + string(job) + `" profile="debian"/>`, old,
		},
	} {
		got, err := libvirt.ParseTag(c.doc)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	for _, bad := range []string{"", "<x/>", `<instance xmlns="urn:other" version="1"/>`, `<seedbed:instance version="x"/>`} {
		if got, err := libvirt.ParseTag(bad); err == nil {
			t.Errorf("ParseTag(%q): %+v; want an error", bad, got)
		}
	}
}
