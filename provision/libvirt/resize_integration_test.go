//go:build integration && libvirt

package libvirt_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// TestDiskGrowsWhileTheGuestRuns holds that QEMU makes a disk larger that it has
// open, that once more changes nothing, and that no disk gets smaller.
func TestDiskGrowsWhileTheGuestRuns(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	d, disk := open(t, system), seedbed.Disk{Type: "file", Format: "qcow2", Source: blank(t)}
	spec := newSpec(t, base, disk)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	size := func() seedbed.Bytes {
		t.Helper()
		dom, err := base.LookupDomainByUUIDString(string(spec.ID))
		must("look up", err)
		defer dom.Free()
		info, err := dom.GetBlockInfo("vda", 0)
		must("size of the disk", err)
		return seedbed.Bytes(info.Capacity)
	}
	must("define", d.DefineDomain(t.Context(), spec))
	defer remove(t, d, spec.ID)
	must("resize the domain", d.ResizeDomain(t.Context(), spec.ID, 2, 256*seedbed.MiB))
	must("grow while it is off", d.ResizeDisk(t.Context(), spec.ID, disk, 32*seedbed.MiB))
	must("start", d.StartDomain(t.Context(), spec.ID))
	if got := size(); got != 16*seedbed.MiB {
		t.Fatalf("the driver has touched the disk of a domain that is off: %s", got)
	}
	for range 2 {
		must("grow", d.ResizeDisk(t.Context(), spec.ID, disk, 32*seedbed.MiB))
		if got := size(); got != 32*seedbed.MiB {
			t.Fatalf("the guest's disk has %s; want 32MiB", got)
		}
	}
	if err := d.ResizeDisk(t.Context(), spec.ID, disk, 16*seedbed.MiB); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("shrink: %v; want ErrInvalid", err)
	}
	if got := size(); got != 32*seedbed.MiB {
		t.Errorf("once refused it has %s", got)
	}
	dom, err := base.LookupDomainByUUIDString(string(spec.ID))
	must("look up", err)
	defer dom.Free()
	info, err := dom.GetInfo()
	must("ask", err)
	if info.NrVirtCpu != 2 || seedbed.Bytes(info.MaxMem)*seedbed.KiB != 256*seedbed.MiB {
		t.Errorf("it runs with %d vcpus and %d KiB", info.NrVirtCpu, info.MaxMem)
	}
}

// TestVolumeIsAttachedWhileTheGuestRuns attaches volumes to running guests on each bus and of both machine types. A disk on virtio-scsi
// goes without its guest's help. One on PCI does not: this guest has no system that lets go of it.
func TestVolumeIsAttachedWhileTheGuestRuns(t *testing.T) {
	for _, machine := range []string{"pc", "q35"} {
		t.Run(machine, func(t *testing.T) {
			base := connect(t, system)
			withBridge(t)
			d := open(t, system)
			spec := newSpec(t, base, seedbed.Disk{Type: "file", Format: "qcow2", Source: blank(t)})
			must := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			must("define", d.DefineDomain(t.Context(), spec))
			defer remove(t, d, spec.ID)
			dom, err := base.LookupDomainByUUIDString(string(spec.ID))
			must("look up", err)
			defer dom.Free()
			if machine == "q35" {
				must("define as q35", asQ35(base, dom))
			}
			must("start", d.StartDomain(t.Context(), spec.ID))
			has := func(flags lv.DomainXMLFlags, serial string) bool {
				t.Helper()
				doc, err := dom.GetXMLDesc(flags)
				must("read", err)
				return strings.Contains(doc, "<serial>"+serial+"</serial>")
			}
			onPCI, onSCSI := attachedDisk(serial, seedbed.BusVirtio, "vdb"), attachedDisk(otherSerial, seedbed.BusSCSI, "sdb")
			onPCI.Source, onSCSI.Source = blank(t), blank(t)
			for _, disk := range []seedbed.AttachedDisk{onPCI, onSCSI, onPCI} {
				must("attach", d.AttachDisk(t.Context(), spec.ID, disk))
				if !has(0, disk.Serial) || !has(lv.DOMAIN_XML_INACTIVE, disk.Serial) {
					t.Errorf("the guest has disk %s: %v, and at its next start: %v", disk.Device, has(0, disk.Serial),
						has(lv.DOMAIN_XML_INACTIVE, disk.Serial))
				}
			}
			for _, disk := range []seedbed.AttachedDisk{onPCI, onSCSI} {
				must("grow", d.ResizeDisk(t.Context(), spec.ID, disk.Disk, 32*seedbed.MiB))
				if now, err := dom.GetBlockInfo(disk.Device, 0); err != nil || now.Capacity != uint64(32*seedbed.MiB) {
					t.Errorf("the guest's disk %s has %+v, %v", disk.Device, now, err)
				}
			}
			for _, l := range []seedbed.IOLimits{
				{IOPS: 500, ReadBandwidth: 2 * seedbed.MiB}, {ReadIOPS: 100, WriteIOPS: 50, Bandwidth: seedbed.MiB}, {}, {WriteBandwidth: seedbed.MiB},
			} {
				for _, disk := range []seedbed.AttachedDisk{onPCI, onSCSI} {
					must("limit", d.LimitDisk(t.Context(), spec.ID, disk.Serial, l))
					for _, at := range []lv.DomainModificationImpact{lv.DOMAIN_AFFECT_LIVE, lv.DOMAIN_AFFECT_CONFIG} {
						now, err := dom.GetBlockIoTune(disk.Device, at)
						must("read the limits", err)
						got := seedbed.IOLimits{IOPS: int64(now.TotalIopsSec), ReadIOPS: int64(now.ReadIopsSec), WriteIOPS: int64(now.WriteIopsSec),
							Bandwidth: seedbed.Bytes(now.TotalBytesSec), ReadBandwidth: seedbed.Bytes(now.ReadBytesSec),
							WriteBandwidth: seedbed.Bytes(now.WriteBytesSec)}
						if got != l {
							t.Errorf("disk %s has %+v (%d); want %+v", disk.Device, got, at, l)
						}
					}
				}
			}
			must("detach from the SCSI bus", d.DetachDisk(t.Context(), spec.ID, onSCSI.Serial))
			if has(0, onSCSI.Serial) || has(lv.DOMAIN_XML_INACTIVE, onSCSI.Serial) {
				t.Error("the disk on the SCSI bus is still there")
			}
			if machine == "pc" {
				if err := d.DetachDisk(t.Context(), spec.ID, onPCI.Serial); !errors.Is(err, seedbed.ErrInUse) || !has(0, onPCI.Serial) ||
					!has(lv.DOMAIN_XML_INACTIVE, onPCI.Serial) {
					t.Errorf("detach from a guest that does not let go: %v", err)
				}
			}
			must("destroy", d.DestroyDomain(t.Context(), spec.ID))
			must("detach", d.DetachDisk(t.Context(), spec.ID, onPCI.Serial))
			must("start without them", d.StartDomain(t.Context(), spec.ID))
			if has(0, onPCI.Serial) {
				t.Error("the guest has the disk again")
			}
		})
	}
}

// TestDiscOfAStartingGuest: the firmware of a guest that starts resets its drives, and QEMU then closes a tray that libvirt has opened. The
// guest gets the image at once or at its next start, and the driver says which.
func TestDiscOfAStartingGuest(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	d := open(t, system)
	spec := newSpec(t, base, seedbed.Disk{Type: "file", Format: "qcow2", Source: blank(t)})
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("define", d.DefineDomain(t.Context(), spec))
	defer remove(t, d, spec.ID)
	dom := lookup(t, base, spec.ID)
	defer dom.Free()
	has := func(image seedbed.Disk) bool {
		doc, err := dom.GetXMLDesc(0)
		must("read", err)
		return strings.Contains(doc, "<source file='"+image.Source+"'")
	}
	for range 5 {
		image := seedbed.Disk{Type: "file", Format: "qcow2", Source: blank(t)}
		pending, err := d.ChangeDomain(t.Context(), seedbed.DomainChange{ID: spec.ID, Drive: &seedbed.CDROMDrive{Disk: &image}})
		must("change", err)
		if runs, err := dom.IsActive(); err != nil || runs && has(image) == slices.Equal(pending, []string{"cdrom"}) {
			t.Errorf("pending %q, and the guest has the image: %v; %v", pending, has(image), err)
		}
		must("destroy", d.DestroyDomain(t.Context(), spec.ID))
		must("start", d.StartDomain(t.Context(), spec.ID))
		if !has(image) {
			t.Error("a guest that started after the change has not the image")
		}
	}
}

// asQ35 gives a domain that is off the machine type q35, as one that was adopted may have.
func asQ35(base *lv.Connect, dom *lv.Domain) error {
	doc, err := dom.GetXMLDesc(lv.DOMAIN_XML_INACTIVE)
	if err != nil {
		return err
	}
	if err := dom.Undefine(); err != nil {
		return err
	}
	places := regexp.MustCompile(`(?s)<address type='pci'[^>]*/>|<controller type='(pci|ide|usb)'.*?(/>|</controller>)`)
	doc = places.ReplaceAllString(doc, "")
	again, err := base.DomainDefineXML(regexp.MustCompile(`machine='[^']*'`).ReplaceAllString(doc, "machine='q35'"))
	if err != nil {
		return err
	}
	return again.Free()
}

// TestNICIsAttachedWhileTheGuestRuns attaches NICs to running guests of both machine types, which are in their bridge then. This guest
// has no system that lets go of one, so that one is detached once the domain is off.
func TestNICIsAttachedWhileTheGuestRuns(t *testing.T) {
	for _, machine := range []string{"pc", "q35"} {
		t.Run(machine, func(t *testing.T) {
			base := connect(t, system)
			withBridge(t)
			d := open(t, system)
			spec := newSpec(t, base, seedbed.Disk{})
			must := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			must("define", d.DefineDomain(t.Context(), spec))
			defer remove(t, d, spec.ID)
			dom, err := base.LookupDomainByUUIDString(string(spec.ID))
			must("look up", err)
			defer dom.Free()
			if machine == "q35" {
				must("define as q35", asQ35(base, dom))
			}
			must("start", d.StartDomain(t.Context(), spec.ID))
			has := func(flags lv.DomainXMLFlags, nic seedbed.DomainNIC) bool {
				t.Helper()
				doc, err := dom.GetXMLDesc(flags)
				must("read", err)
				return strings.Contains(doc, "<mac address='"+nic.MAC.String()+"'/>")
			}
			plugged := func(nic seedbed.DomainNIC) bool {
				_, err := os.Stat(filepath.Join("/sys/class/net", bridge, "brif", nic.Tap))
				return err == nil
			}
			one, two := newSpec(t, base, seedbed.Disk{}).NICs[0], newSpec(t, base, seedbed.Disk{}).NICs[0]
			for _, nic := range []seedbed.DomainNIC{one, two, one} {
				must("attach", d.AttachNIC(t.Context(), spec.ID, nic))
				if !has(0, nic) || !has(lv.DOMAIN_XML_INACTIVE, nic) || !plugged(nic) {
					t.Errorf("the guest has NIC %s: %v, at its next start: %v, in the bridge: %v", nic.MAC, has(0, nic),
						has(lv.DOMAIN_XML_INACTIVE, nic), plugged(nic))
				}
			}
			moved := one
			moved.Tap = two.Tap
			if err := d.AttachNIC(t.Context(), spec.ID, moved); !errors.Is(err, seedbed.ErrConflict) {
				t.Errorf("attach with another tap: %v", err)
			}
			if machine == "pc" {
				if err := d.DetachNIC(t.Context(), spec.ID, one.MAC); !errors.Is(err, seedbed.ErrInUse) || !has(0, one) ||
					!has(lv.DOMAIN_XML_INACTIVE, one) || !plugged(one) {
					t.Errorf("detach from a guest that does not let go: %v", err)
				}
			}
			must("destroy", d.DestroyDomain(t.Context(), spec.ID))
			for range 2 {
				must("detach", d.DetachNIC(t.Context(), spec.ID, one.MAC))
			}
			must("start without it", d.StartDomain(t.Context(), spec.ID))
			if has(0, one) || plugged(one) || !has(0, two) || !plugged(two) {
				t.Error("the guest has the NIC again, or not the other")
			}
		})
	}
}

// TestMostNICs holds that a domain starts with as many NICs as an instance may have, and takes no other.
func TestMostNICs(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	d := open(t, system)
	spec := newSpec(t, base, seedbed.Disk{Type: "file", Format: "qcow2", Source: blank(t)})
	for len(spec.NICs) < seedbed.MaxNICs {
		spec.NICs = append(spec.NICs, newSpec(t, base, seedbed.Disk{}).NICs[0])
	}
	if err := d.DefineDomain(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	defer remove(t, d, spec.ID)
	if err := d.StartDomain(t.Context(), spec.ID); err != nil {
		t.Fatal(err)
	}
	err := d.AttachNIC(t.Context(), spec.ID, newSpec(t, base, seedbed.Disk{}).NICs[0])
	if !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), "at most 16") {
		t.Errorf("one more: %v", err)
	}
}

// TestDiscIsChangedWhileTheGuestRuns changes the image in the CD-ROM drive of running guests of both machine types, which the firmware
// tries first, and what these get only at their next start.
func TestDiscIsChangedWhileTheGuestRuns(t *testing.T) {
	for _, machine := range []string{"pc", "q35"} {
		t.Run(machine, func(t *testing.T) {
			base := connect(t, system)
			withBridge(t)
			d := open(t, system)
			spec := newSpec(t, base, seedbed.Disk{Type: "file", Format: "qcow2", Source: blank(t)})
			first := seedbed.Disk{Type: "file", Format: "qcow2", Source: blank(t)}
			second := seedbed.Disk{Type: "file", Format: "qcow2", Source: blank(t)}
			change := func(c seedbed.DomainChange, want ...string) {
				t.Helper()
				c.ID = spec.ID
				for range 2 {
					pending, err := d.ChangeDomain(t.Context(), c)
					if err != nil || !slices.Equal(pending, want) {
						t.Fatalf("%+v: the guest gets %v later, %v; want %v", c, pending, err, want)
					}
				}
			}
			must := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			must("define", d.DefineDomain(t.Context(), spec))
			defer remove(t, d, spec.ID)
			dom, err := base.LookupDomainByUUIDString(string(spec.ID))
			must("look up", err)
			defer dom.Free()
			if machine == "q35" {
				must("define as q35", asQ35(base, dom))
			}
			in := func(disk seedbed.Disk, flags lv.DomainXMLFlags) bool {
				t.Helper()
				doc, err := dom.GetXMLDesc(flags)
				must("read", err)
				return strings.Contains(doc, "<source file='"+disk.Source+"'")
			}
			must("start", d.StartDomain(t.Context(), spec.ID))
			change(seedbed.DomainChange{Drive: &seedbed.CDROMDrive{Disk: &first}}, "cdrom") // it has no drive
			must("destroy", d.DestroyDomain(t.Context(), spec.ID))
			cdrom, disk, yes := seedbed.BootCDROM, seedbed.BootDisk, true
			change(seedbed.DomainChange{BootFrom: &cdrom})
			must("start with the drive", d.StartDomain(t.Context(), spec.ID))
			until(t, "the firmware has found the drives", func() bool {
				stats, err := dom.BlockStats("")
				must("read statistics", err)
				return stats.RdReq > 0
			})
			if !in(first, 0) {
				t.Error("the guest has no drive with the image")
			}
			change(seedbed.DomainChange{Drive: &seedbed.CDROMDrive{Disk: &second}})
			if in(first, 0) || !in(second, 0) || !in(second, lv.DOMAIN_XML_INACTIVE) {
				t.Error("the guest still has the first image")
			}
			change(seedbed.DomainChange{Drive: &seedbed.CDROMDrive{}})
			if in(second, 0) || in(second, lv.DOMAIN_XML_INACTIVE) {
				t.Error("the guest still has the second image")
			}
			change(seedbed.DomainChange{Drive: &seedbed.CDROMDrive{Disk: &first}, Force: true})
			change(seedbed.DomainChange{BootFrom: &disk, VNC: &yes, Autostart: &yes}, "boot_from", "vnc")
			must("destroy", d.DestroyDomain(t.Context(), spec.ID))
			must("start again", d.StartDomain(t.Context(), spec.ID))
			change(seedbed.DomainChange{BootFrom: &disk, VNC: &yes, Drive: &seedbed.CDROMDrive{Disk: &first}})
			if on, err := dom.GetAutostart(); err != nil || !on {
				t.Errorf("autostart: %v, %v", on, err)
			}
			for _, image := range []seedbed.Disk{first, second} { // it is shared, and stays root's
				st, err := os.Stat(image.Source)
				must("look", err)
				if owner := st.Sys().(*syscall.Stat_t).Uid; owner != 0 {
					t.Errorf("the image has the owner %d", owner)
				}
			}
		})
	}
}
