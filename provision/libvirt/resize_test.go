package libvirt_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/libvirt"
)

// lines are those of a document, without their indentation.
func lines(doc string) (all []string) {
	for line := range strings.Lines(doc) {
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

func TestResizedXML(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"kvm.xml", "system.xml", "foreign.xml"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile("testdata/" + file)
			if err != nil {
				t.Fatal(err)
			}
			same, changed, err := libvirt.ResizedXML(string(b), 0, 0)
			if err != nil || changed {
				t.Fatalf("changed %v, %v", changed, err)
			}
			got, changed, err := libvirt.ResizedXML(string(b), 6, 3*seedbed.GiB)
			if err != nil || !changed {
				t.Fatalf("changed %v, %v", changed, err)
			}
			left := map[string]int{} // the lines that one has and the other has not
			for _, line := range lines(got) {
				left[line]++
			}
			for _, line := range lines(same) {
				left[line]--
			}
			for line, n := range left {
				if n != 0 && !strings.Contains(line, "vcpu") && !strings.Contains(line, "emory") && !strings.Contains(line, "topology") {
					t.Errorf("%+d of %q", n, line)
				}
			}
			for _, want := range []string{`>6</vcpu>`, `<memory unit="KiB">3145728</memory>`, `<currentMemory unit="KiB">3145728</currentMemory>`} {
				if !strings.Contains(got, want) {
					t.Errorf("no %s in\n%s", want, got)
				}
			}
			if strings.Contains(got, "<topology") && !strings.Contains(got, `sockets="1" dies="1" cores="6" threads="1"`) {
				t.Errorf("the topology is not that of 6 cores:\n%s", got)
			}
			if again, changed, err := libvirt.ResizedXML(got, 6, 3*seedbed.GiB); err != nil || changed {
				t.Errorf("the same size once more: %v, %v\n%s", changed, err, cmp.Diff(got, again))
			}
		})
	}
}

func TestResizedXMLRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		doc    string
		vcpus  int
		memory seedbed.Bytes
	}{
		{"no document", "<domain", 1, 0},
		{"vcpus", "<domain/>", 1000, 0},
		{"memory", "<domain/>", 0, 3 * seedbed.KiB},
	} {
		if _, _, err := libvirt.ResizedXML(c.doc, c.vcpus, c.memory); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}

func TestDiskTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		disk seedbed.Disk
		want string
		ok   bool
	}{
		{"file", seedbed.Disk{Type: "file", Source: "/srv/vms/old-web.qcow2"}, "vda", true},
		{"rbd", seedbed.Disk{Type: "rbd", Source: "vms/old-web-data"}, "vdb", true},
		{"other type", seedbed.Disk{Type: "file", Source: "vms/old-web-data"}, "", false},
		{"none", seedbed.Disk{}, "", false},
	} {
		if got, ok, err := libvirt.DiskTarget(foreignDoc(t), c.disk); err != nil || got != c.want || ok != c.ok {
			t.Errorf("%s: got %q, %v, %v", c.name, got, ok, err)
		}
	}
}

const (
	serial      = "5e0123456789abcdef01"
	otherSerial = "5e0123456789abcdef02"
)

func attachedDisk(serial, bus, device string) seedbed.AttachedDisk {
	return seedbed.AttachedDisk{Disk: seedbed.Disk{Type: "file", Source: "/pool/" + serial + ".qcow2", Format: "qcow2"}, Serial: serial,
		Bus: bus, Device: device}
}

// TestAttachedXML checks that only the attached volume, and the controller that it needs, come into a document, and that only it goes.
func TestAttachedXML(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/kvm.xml")
	if err != nil {
		t.Fatal(err)
	}
	once, changed, err := libvirt.AttachedXML(string(b), attachedDisk(serial, seedbed.BusVirtio, "vdb"))
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	for _, want := range []string{
		`<target dev="vdb" bus="virtio"></target>`, `<serial>` + serial + `</serial>`, `<backingStore></backingStore>`,
	} {
		if !strings.Contains(once, want) {
			t.Errorf("no %s in\n%s", want, once)
		}
	}
	if strings.Count(once, `<boot order`) != 1 || strings.Contains(once, `type="scsi"`) {
		t.Errorf("the guest may boot from it:\n%s", once)
	}
	if _, changed, err := libvirt.AttachedXML(once, attachedDisk(serial, seedbed.BusVirtio, "vdc")); err != nil || changed {
		t.Errorf("once more: %v, %v", changed, err)
	}
	if _, _, err := libvirt.AttachedXML(once, attachedDisk(otherSerial, seedbed.BusVirtio, "vdb")); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("a name that is taken: %v", err)
	}
	both, changed, err := libvirt.AttachedXML(once, attachedDisk(otherSerial, seedbed.BusSCSI, "sdb"))
	if err != nil || !changed || !strings.Contains(both, `<controller type="scsi" model="virtio-scsi"></controller>`) {
		t.Fatalf("on the other bus: %v, %v\n%s", changed, err, both)
	}
	left, changed, err := libvirt.DetachedXML(once, serial)
	if err != nil || !changed || strings.Contains(left, serial) || strings.Count(left, "<disk ") != 1 {
		t.Errorf("detached: %v, %v\n%s", changed, err, left)
	}
	if _, changed, err := libvirt.DetachedXML(left, serial); err != nil || changed {
		t.Errorf("detached once more: %v, %v", changed, err)
	}
	for _, bad := range []seedbed.AttachedDisk{attachedDisk("x' y", seedbed.BusVirtio, "vdb"), attachedDisk(serial, "ide", "hdb"),
		attachedDisk(serial, seedbed.BusVirtio, "../vdb"), {Disk: seedbed.Disk{Type: "file", Source: "relative", Format: "raw"}, Serial: serial,
			Bus: seedbed.BusVirtio, Device: "vdb"}} {
		if _, _, err := libvirt.AttachedXML(string(b), bad); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%+v: %v; want ErrInvalid", bad, err)
		}
	}
}

// TestDefinedWithVolumes checks that a domain is defined with its attached volumes, whether a script made its document or not.
func TestDefinedWithVolumes(t *testing.T) {
	t.Parallel()
	s := spec()
	s.Attached = []seedbed.AttachedDisk{attachedDisk(serial, seedbed.BusVirtio, "vdb"), attachedDisk(otherSerial, seedbed.BusSCSI, "sdc")}
	doc, err := libvirt.DomainXML(s, host(libvirt.TypeKVM))
	if err != nil || strings.Count(doc, "<disk ") != 3 || !strings.Contains(doc, otherSerial) || !strings.Contains(doc, "virtio-scsi") {
		t.Errorf("%v\n%s", err, doc)
	}
	s.Attached = append(s.Attached, make([]seedbed.AttachedDisk, 14)...)
	if _, err := libvirt.DomainXML(s, host(libvirt.TypeKVM)); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("too many disks: %v", err)
	}
}

// TestRoomyXML checks that a domain of type q35 has room for eight further disks and four NICs, and that others are not changed.
func TestRoomyXML(t *testing.T) {
	t.Parallel()
	const q35 = `<domain type='kvm'><name>a</name><os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os><devices>
		<controller type='pci' index='0' model='pcie-root'/>
		<controller type='pci' index='1' model='pcie-root-port'>
			<address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/></controller>
		<controller type='pci' index='2' model='pcie-root-port'>
			<address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x1'/></controller>
		<memballoon model='virtio'><address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></memballoon>
		</devices></domain>`
	doc, changed, err := libvirt.RoomyXML(q35)
	if err != nil || !changed || strings.Count(doc, `model="pcie-root-port"`) != 13 {
		t.Errorf("changed %v, %v\n%s", changed, err, doc)
	}
	for _, same := range []string{doc, strings.Replace(q35, "pc-q35-7.2", "pc-i440fx-7.2", 1)} {
		if _, changed, err := libvirt.RoomyXML(same); err != nil || changed {
			t.Errorf("changed %v, %v\n%s", changed, err, same)
		}
	}
}

// TestFarSCSIDisk checks that a disk beyond those whose units libvirt derives from their names is on the same controller.
func TestFarSCSIDisk(t *testing.T) {
	t.Parallel()
	for device, unit := range map[string]string{"sdo": "", "sdp": `unit="16"`, "sdq": `unit="17"`, "sdab": `unit="28"`} {
		doc, _, err := libvirt.AttachedXML("<domain><name>web1</name></domain>", seedbed.AttachedDisk{
			Disk:   seedbed.Disk{Type: "file", Format: "qcow2", Source: "/srv/x"},
			Serial: strings.Repeat("a", 20), Bus: seedbed.BusSCSI, Device: device})
		if err != nil || strings.Contains(doc, "<address") != (unit != "") || !strings.Contains(doc, unit) {
			t.Errorf("%s: %v\n%s", device, err, doc)
		}
	}
}

// TestPluggedXML checks that a document gets a NIC once, loses only that, and takes no NIC that another place or the limit forbids.
func TestPluggedXML(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"kvm.xml", "system.xml", "foreign.xml"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile("testdata/" + file)
			if err != nil {
				t.Fatal(err)
			}
			host := libvirt.Host{DomainType: "kvm"}
			nic := seedbed.DomainNIC{Tap: "sb4711", MAC: seedbed.MAC{0x52, 0x54, 0, 0xab, 0xcd, 0xef}, Bridge: "sbnet1", MTU: 1450}
			before, changed, err := libvirt.UnpluggedXML(string(b), nic.MAC)
			if err != nil || changed {
				t.Fatalf("without the NIC: changed %v, %v", changed, err)
			}
			doc, changed, err := libvirt.PluggedXML(before, nic, host)
			if err != nil || !changed {
				t.Fatalf("plugged: changed %v, %v", changed, err)
			}
			for _, want := range []string{`<mac address="52:54:00:ab:cd:ef">`, `<source bridge="sbnet1">`, `<target dev="sb4711">`,
				`<mtu size="1450">`} {
				if strings.Count(doc, want) != 1 {
					t.Errorf("%d of %s in\n%s", strings.Count(doc, want), want, doc)
				}
			}
			upper := strings.Replace(doc, "52:54:00:ab:cd:ef", "52:54:00:AB:CD:EF", 1)
			for _, same := range []string{doc, upper} {
				if _, changed, err := libvirt.PluggedXML(same, nic, host); err != nil || changed {
					t.Errorf("plugged again: changed %v, %v", changed, err)
				}
			}
			for _, moved := range []seedbed.DomainNIC{{Tap: nic.Tap, MAC: nic.MAC, Bridge: "sbnet2"},
				{Tap: "sb4712", MAC: nic.MAC, Bridge: nic.Bridge},
				{MAC: nic.MAC, Uplink: "eth1", Mode: "bridge"}} {
				if _, _, err := libvirt.PluggedXML(doc, moved, host); !errors.Is(err, seedbed.ErrConflict) {
					t.Errorf("plugged elsewhere as %+v: %v", moved, err)
				}
			}
			bare, changed, err := libvirt.UnpluggedXML(upper, nic.MAC)
			if err != nil || !changed {
				t.Fatalf("unplugged: changed %v, %v", changed, err)
			}
			if same, _, err := libvirt.ResizedXML(before, 0, 0); err != nil || !cmp.Equal(lines(same), lines(bare)) {
				t.Errorf("%v, and (-before +after):\n%s", err, cmp.Diff(lines(same), lines(bare)))
			}
			for full, n := bare, strings.Count(bare, "<interface "); ; n++ {
				one := seedbed.DomainNIC{Tap: fmt.Sprintf("sb%d", n), MAC: seedbed.MAC{0x52, 0x54, 0, 1, 1, byte(n)}, Bridge: "sbnet1"}
				if full, _, err = libvirt.PluggedXML(full, one, host); err == nil {
					continue
				}
				if n != seedbed.MaxNICs || !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), "at most 16") {
					t.Errorf("NIC %d: %v", n, err)
				}
				break
			}
		})
	}
	if _, _, err := libvirt.PluggedXML("<domain><name>a</name></domain>", seedbed.DomainNIC{Tap: "vnet1", MAC: seedbed.NewMAC(), Bridge: "b"},
		libvirt.Host{}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a name that libvirt takes for its own: %v", err)
	}
}
