package libvirt

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"

	"seedbed"
)

const scriptedID = "ec200000-0000-4000-8000-000000000001"

// pvcDomain is what PVC's scripts put together from their schema.
const pvcDomain = `
<domain type='kvm'>
  <name>web1</name>
  <uuid>` + scriptedID + `</uuid>
  <description>PVC provisioner @ 2026, profile 'web'</description>
  <memory unit='MiB'>512</memory>
  <vcpu>2</vcpu>
  <cpu mode='host-model'><topology sockets='1' cores='2' threads='1'/></cpu>
  <os><type arch='x86_64' machine='pc-i440fx-2.7'>hvm</type><bootmenu enable='yes'/><boot dev='cdrom'/><boot dev='hd'/></os>
  <features><acpi/><apic/><pae/></features>
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>restart</on_crash>
  <devices>
    <disk type='network' device='disk'>
      <driver name='qemu' discard='unmap' cache='none'/><target dev='sda' bus='scsi'/>
      <auth username='libvirt'><secret type='ceph' uuid='00000000-0000-0000-0000-000000000000'/></auth>
      <source protocol='rbd' name='default/web1_sda'><host name='mon1' port='3300'/></source>
    </disk>
    <disk type='block' device='disk'><source dev='/dev/rbd/ceph/web1_sdb'/><target dev='sdb' bus='scsi'/></disk>
    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/dev/shm/vhostmd0'/><target dev='sdz' bus='usb'/><readonly/></disk>
    <interface type='bridge'><mac address='52:54:01:00:10:00'/><source bridge='seedbed0'/><model type='virtio'/></interface>
    <emulator>/usr/bin/kvm</emulator>
    <controller type='usb' index='0'/>
    <controller type='pci' index='0' model='pci-root'/>
    <rng model='virtio'><rate period='1000' bytes='2048'/><backend model='random'>/dev/random</backend></rng>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <serial type='pty'><log file='/var/log/libvirt/web1.log' append='on'/></serial><console type='pty'/>
    <graphics type='vnc' port='5900' autoport='yes' listen='127.0.0.1'/>
    <controller type='scsi' index='0' model='virtio-scsi'/>
  </devices>
</domain>`

func scriptedSpec(doc string) seedbed.DomainSpec {
	return seedbed.DomainSpec{
		ID: scriptedID, Name: "web1", VCPUs: 2, Memory: 512 * seedbed.MiB, Profile: "web", Job: "11111111-1111-4111-8111-111111111111",
		NICs: []seedbed.DomainNIC{{Tap: "sb7", MAC: seedbed.MAC{0x52, 0x54, 1, 0, 0x10, 0}, Bridge: "seedbed0"}},
		Disks: []seedbed.Disk{
			{Type: "file", Source: "/pools/default/volumes/web1_sda.qcow2", Format: "qcow2"},
			{
				Type: "rbd", Source: "vms/web1_sdb", Format: "raw",
				RBD: seedbed.RBDSource{Monitors: "10.0.0.1:3300", User: "seedbed", Secret: scriptedID},
			},
		},
		Script: &seedbed.DomainScript{XML: doc, Volumes: []string{"default/web1_sda", "ceph/web1_sdb"}},
	}
}

var scriptedHost = Host{
	DomainType: TypeQEMU, Arch: "x86_64", Emulator: "/usr/bin/qemu-system-x86_64", Machine: "pc", ConsoleDir: "/console",
}

func TestScriptedXML(t *testing.T) {
	t.Parallel()
	doc, notes, err := ScriptedXML(scriptedSpec(pvcDomain), scriptedHost)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"the disk /dev/shm/vhostmd0 is left out: this host does not provide vhostmd metrics"}, notes); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	var d libvirtxml.Domain
	if err := d.Unmarshal(doc); err != nil {
		t.Fatal(err)
	}
	type disk struct{ File, RBD, Secret, Format, Target, Bus string }
	var disks []disk
	for _, v := range d.Devices.Disks {
		one := disk{Format: v.Driver.Type, Target: v.Target.Dev, Bus: v.Target.Bus}
		if v.Source.File != nil {
			one.File = v.Source.File.File
		}
		if n := v.Source.Network; n != nil {
			one.RBD, one.Secret = n.Name, n.Auth.Secret.UUID
		}
		disks = append(disks, one)
	}
	want := []disk{
		{File: "/pools/default/volumes/web1_sda.qcow2", Format: "qcow2", Target: "sda", Bus: "scsi"},
		{RBD: "vms/web1_sdb", Secret: scriptedID, Format: "raw", Target: "sdb", Bus: "scsi"},
	}
	if diff := cmp.Diff(want, disks); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	nic := d.Devices.Interfaces[0]
	if nic.Target.Dev != "sb7" || nic.MAC.Address != "52:54:01:00:10:00" || nic.Source.Bridge.Bridge != "seedbed0" || nic.ROM == nil {
		t.Errorf("NIC %+v", nic)
	}
	for _, want := range []string{
		`type="qemu"`, `machine="pc"`, "/usr/bin/qemu-system-x86_64", `file="/console/` + scriptedID, `<entry name="serial">` + scriptedID,
		Namespace, `mode="maximum"`, "PVC provisioner @ 2026", "org.qemu.guest_agent.0", "/dev/urandom", `model="virtio-scsi"`,
		`listen="127.0.0.1"`, "<backingStore></backingStore>",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("without %s:\n%s", want, doc)
		}
	}
	for _, not := range []string{"vhostmd", "/var/log/libvirt", "/usr/bin/kvm", "2.7"} {
		if strings.Contains(doc, not) {
			t.Errorf("with %s:\n%s", not, doc)
		}
	}
}

// A machine has a serial console where its script says one.
func TestScriptedMute(t *testing.T) {
	t.Parallel()
	const serial = "<serial type='pty'><log file='/var/log/libvirt/web1.log' append='on'/></serial><console type='pty'/>"
	for said, want := range map[string]bool{serial: true, "<serial type='pty'/>": true, "<console type='pty'/>": true, "": false} {
		doc, _, err := ScriptedXML(scriptedSpec(strings.Replace(pvcDomain, serial, said, 1)), scriptedHost)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(doc, `file="/console/`+scriptedID) && strings.Contains(doc, "<serial "); got != want {
			t.Errorf("%q: a serial console is %t; want %t", said, got, want)
		}
	}
}

// What reaches for anything but the instance's own is refused.
func TestScriptedRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ from, to, want string }{
		"another name":     {"<name>web1", "<name>web2", `its name is "web2"`},
		"another UUID":     {"<uuid>ec2", "<uuid>fc2", "its uuid is"},
		"another's volume": {"default/web1_sda", "default/db1_sda", "the volume default/db1_sda is not one that the script has made"},
		"a snapshot":       {"default/web1_sda", "default/web1_sda@x", "is not one that the script has made"},
		"twice":            {"/dev/rbd/ceph/web1_sdb", "/dev/rbd/default/web1_sda", "is used by two of its disks"},
		"a host's device":  {"/dev/rbd/ceph/web1_sdb", "/dev/sda", "disk 1 is not on a volume of the instance"},
		"a host's file":    {"/dev/shm/vhostmd0", "/etc/shadow", "disk 2 is not on a volume of the instance"},
		"a way out":        {"/dev/rbd/ceph/web1_sdb", "/dev/rbd/../sda", "is not one that the script has made"},
		"another network":  {"<source bridge='seedbed0'/>", "<source bridge='br0'/>", `interface 0 is on bridge "br0"`},
		"too many NICs":    {"<emulator>", "<interface type='bridge'><source bridge='seedbed0'/></interface><emulator>", "interface 1"},
		"a host's NIC":     {"<interface type='bridge'>", "<interface type='direct'>", "interface 0 is on bridge"},
		"command line": {"<domain type='kvm'>",
			"<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:commandline><qemu:arg value='-S'/></qemu:commandline>",
			"QEMUCommandline"},
		"kernel": {"<boot dev='hd'/>", "<kernel>/etc/shadow</kernel>", "kernel in <os>"},
		"loader": {"<boot dev='hd'/>", "<loader>/etc/shadow</loader>", "loader in <os>"},
		"file system": {"<emulator>", "<filesystem type='mount'><source dir='/'/><target dir='x'/></filesystem><emulator>",
			"filesystem in <devices>"},
		"host device":        {"<emulator>", "<hostdev mode='subsystem' type='usb'/><emulator>", "hostdev in <devices>"},
		"shared memory":      {"<emulator>", "<shmem name='x'/><emulator>", "shmem in <devices>"},
		"security label":     {"<devices>", "<seclabel type='none'/><devices>", "seclabel in <domain>"},
		"memory from a file": {"<devices>", "<memoryBacking><source type='file'/></memoryBacking><devices>", "memoryBacking in <domain>"},
		"a socket":           {"<graphics type='vnc'", "<graphics type='vnc' socket='/run/x'", "<graphics> listens on"},
		"spice": {"<graphics type='vnc' port='5900' autoport='yes' listen='127.0.0.1'/>", "<graphics type='spice'/>",
			"is not of type vnc"},
		"a channel to a pipe": {"<channel type='unix'>", "<channel type='pipe'><source path='/run/x'/>", "a <channel> is not of type unix"},
		"randomness":          {"/dev/random", "/dev/sda", "<rng> reads from"},
		"a host's mouse":      {"<emulator>", "<input type='evdev'><source dev='/dev/input/event0'/></input><emulator>", "<input> is a"},
		"a CD": {"<emulator>",
			"<disk type='file' device='cdrom'><source file='/etc/shadow'/><target dev='hdc' bus='ide'/></disk><emulator>",
			"disk 3 is not on a volume"},
		"a far channel":  {"org.qemu.guest_agent.0", "../../../../../../../etc/shadow", `a <channel> has the name "../..`},
		"a near channel": {"org.qemu.guest_agent.0", "x/y", `a <channel> has the name "x/y"`},
		"a dot channel":  {"org.qemu.guest_agent.0", "..", `a <channel> has the name ".."`},
		"a long channel": {"org.qemu.guest_agent.0", "x&#10;", `a <channel> has the name`},
		"a lost channel": {" name='org.qemu.guest_agent.0'", "", `a <channel> has the name ""`},

		"a password":        {"listen='127.0.0.1'", "listen='0.0.0.0' passwd='hush'", "<graphics> has a passwd"},
		"a dump at a crash": {"<on_crash>restart", "<on_crash>coredump-restart", `<on_crash> is "coredump-restart"`},
		"a dump at the end": {"<on_poweroff>destroy", "<on_poweroff>coredump-destroy", `<on_poweroff> is "coredump-destroy"`},
		"a dump by itself": {"<emulator>", "<watchdog model='i6300esb' action='dump'/><emulator>",
			`the action of <watchdog> is "dump"`},
		"many threads":     {"<devices>", "<iothreads>100000</iothreads><devices>", "it has 100000 iothreads"},
		"memory by cells":  {"</cpu>", "<numa><cell id='0' cpus='0-1' memory='64' unit='GiB'/></numa></cpu>", "numa in <cpu>"},
		"memory by screen": {"<emulator>", "<video><model type='qxl' vram='1048576'/></video><emulator>", "<video> has 0 heads"},
		"a far screen":     {"<emulator>", "<video><model type='vhostuser'/></video><emulator>", `<video> has the model "vhostuser"`},
		"ACPI tables":      {"<boot dev='hd'/>", "<acpi><table type='slic'>/etc/shadow</table></acpi>", "acpi in <os>"},
		"a zone's file": {"<clock offset='utc'/>", "<clock offset='timezone' timezone=':/etc/shadow'/>",
			`the timezone of <clock> is ":/etc/shadow"`},
		"a keyboard's file": {"<graphics type='vnc'", "<graphics type='vnc' keymap='/etc/shadow'",
			`the keymap of <graphics> is "/etc/shadow"`},
		"many devices": {"<emulator>", strings.Repeat("<hub type='usb'/>", 5) + "<emulator>", "it has 5 of <hub>"},

		"nothing":    {pvcDomain, "", "not the XML of a libvirt domain"},
		"no end":     {"</domain>", "", "not the XML of a libvirt domain"},
		"no devices": {pvcDomain, "<domain><name>web1</name><uuid>" + scriptedID + "</uuid></domain>", "it has no <devices>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(pvcDomain, test.from) {
				t.Fatalf("there is no %q", test.from)
			}
			doc, _, err := ScriptedXML(scriptedSpec(strings.Replace(pvcDomain, test.from, test.to, 1)), scriptedHost)
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v; want %q\n%s", err, test.want, doc)
			}
		})
	}
}

// An interface without a bridge gets no NIC of the instance that has none, which is one in a direct network.
func TestScriptedDirect(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"network", "bridge"} {
		spec := scriptedSpec(strings.Replace(pvcDomain, "<emulator>", "<interface type='"+kind+"'/><emulator>", 1))
		spec.NICs = append(spec.NICs, seedbed.DomainNIC{MAC: seedbed.MAC{2, 0, 0, 0, 0, 7}, Uplink: "eth1", Mode: seedbed.DirectBridge})
		doc, _, err := ScriptedXML(spec, scriptedHost)
		if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), `interface 1 is on bridge ""`) {
			t.Errorf("%s: got %v\n%s", kind, err, doc)
		}
	}
}

// What is not kept is said, once for each name, and a screen that all can see too.
func TestScriptedNotes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ from, to, want string }{
		"an MTU":           {"<model type='virtio'/>", "<mtu size='68'/>", ": devices/interface/mtu"},
		"a queue":          {"cache='none'", "cache='none' queues='4'", ": devices/disk/driver/@queues"},
		"a feature":        {"<pae/>", "<pae/><pmu state='on'/><hap/>", ": features/pmu, features/hap"},
		"unknown":          {"<devices>", "<future a='1'><b/></future><future/><devices>", ": future"},
		"inside":           {"<rng model='virtio'>", "<rng model='virtio'><driver iommu='on'/>", ": devices/rng/driver"},
		"processors' pins": {"<vcpu>", "<vcpu cpuset='0'>", ": vcpu/@cpuset"},
		"metadata":         {"<devices>", "<metadata><x:y xmlns:x='z'/></metadata><devices>", ": metadata/y"},
		"a crowd":          {"<emulator>", crowd(maxLeftOut+1) + "<emulator>", "devices/e19 and more"},
		"an open screen":   {"listen='127.0.0.1'", "listen='0.0.0.0'", "the screen listens on 0.0.0.0 without a password"},
		"one by element": {"listen='127.0.0.1'/>", "><listen type='address' address='::'/></graphics>",
			"the screen listens on :: without a password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(pvcDomain, test.from) {
				t.Fatalf("there is no %q", test.from)
			}
			doc, notes, err := ScriptedXML(scriptedSpec(strings.Replace(pvcDomain, test.from, test.to, 1)), scriptedHost)
			said := strings.Join(notes, ": ") + ": "
			if err != nil || len(notes) != 2 || !strings.Contains(said, test.want+":") {
				t.Errorf("%q, %v; want %q\n%s", notes, err, test.want, doc)
			}
			if strings.Contains(doc, "<mtu") {
				t.Errorf("it has an MTU:\n%s", doc)
			}
		})
	}
}

// crowd is n elements that libvirt does not know.
func crowd(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf("<e%d/>", i)
	}
	return text
}

// Before there are volumes, a document may name those that it will make.
func TestScriptedEarly(t *testing.T) {
	t.Parallel()
	for volume, ok := range map[string]bool{"default/web1_sda": true, "default/web1_any": true, "other/web1_sda": false,
		"default/web2_sda": false, "default/web1_../x": false, "default": false} {
		spec := scriptedSpec(strings.Replace(pvcDomain, "default/web1_sda", volume, 1))
		spec.Disks, spec.Script.Volumes, spec.Script.Early = nil, []string{"default", "ceph"}, true
		if _, _, err := ScriptedXML(spec, scriptedHost); (err == nil) != ok {
			t.Errorf("%s: %v", volume, err)
		}
	}
}

// TestScreenOfAProject checks that the script of a project makes no screen that other hosts can reach.
func TestScreenOfAProject(t *testing.T) {
	t.Parallel()
	spec := scriptedSpec(strings.Replace(pvcDomain, "listen='127.0.0.1'", "listen='0.0.0.0'", 1))
	spec.Project = "acme"
	doc, notes, err := ScriptedXML(spec, scriptedHost)
	if err != nil || strings.Contains(doc, "0.0.0.0") || !strings.Contains(doc, `listen="127.0.0.1"`) ||
		!strings.Contains(strings.Join(notes, "\n"), "the screen listens on 127.0.0.1 and not on 0.0.0.0") {
		t.Errorf("%q, %v\n%s", notes, err, doc)
	}
}

func FuzzScriptedXML(f *testing.F) {
	f.Add(pvcDomain)
	f.Add("<domain/>")
	f.Fuzz(func(t *testing.T, doc string) {
		out, _, err := ScriptedXML(scriptedSpec(doc), scriptedHost)
		if err != nil {
			return
		}
		var d libvirtxml.Domain
		if err := d.Unmarshal(out); err != nil {
			t.Fatal(err)
		}
		if d.Name != "web1" || d.UUID != scriptedID || len(d.Devices.Hostdevs)+len(d.Devices.Filesystems) > 0 || d.QEMUCommandline != nil {
			t.Errorf("made %s", out)
		}
	})
}
