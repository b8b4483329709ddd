package libvirt

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// driveTarget is the name of the CD-ROM drive for ISO images. It has the same one on each bus, and no disk has a name of its kind.
const driveTarget = "hdc"

// cdromDrive returns the CD-ROM drive for ISO images. It is on the bus for which every installer has a driver. Guests share an image, so
// the hypervisor must not change its owner.
func cdromDrive(domain, machine string, of seedbed.CDROMDrive) (libvirtxml.DomainDisk, error) {
	bus := "ide"
	if strings.Contains(machine, "q35") {
		bus = "sata"
	}
	disk := libvirtxml.DomainDisk{
		Device: "cdrom", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
		Target: &libvirtxml.DomainDiskTarget{Dev: driveTarget, Bus: bus}, ReadOnly: &libvirtxml.DomainDiskReadOnly{},
	}
	return disk, insert(domain, &disk, of)
}

// insert gives a CD-ROM drive an image, or takes it away.
func insert(domain string, drive *libvirtxml.DomainDisk, of seedbed.CDROMDrive) error {
	drive.Driver = &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"}
	drive.Source, drive.BackingStore = nil, nil
	if of.Disk == nil {
		return nil
	}
	made, err := diskDevice(seedbed.DomainSpec{Name: domain}, 1, *of.Disk)
	if err != nil {
		return err
	}
	drive.Driver.Type, drive.Source, drive.BackingStore = made.Driver.Type, made.Source, made.BackingStore
	if file := drive.Source.File; file != nil {
		file.SecLabel = []libvirtxml.DomainDeviceSecLabel{{Model: "dac", Relabel: "no"}}
	}
	return nil
}

// holds reports whether a CD-ROM drive has that image in it, or is empty if that is nil.
func holds(drive libvirtxml.DomainDisk, image *seedbed.Disk) bool {
	in := ""
	switch s := drive.Source; {
	case s == nil:
	case s.File != nil:
		in = s.File.File
	case s.Network != nil:
		in = s.Network.Name
	}
	return image == nil && in == "" || image != nil && in == image.Source
}

// driveOf returns the index of the CD-ROM drive for ISO images among the disks of a domain, or -1.
func driveOf(d *libvirtxml.Domain) int {
	return slices.IndexFunc(d.Devices.Disks, func(disk libvirtxml.DomainDisk) bool {
		return disk.Device == "cdrom" && disk.Target != nil && disk.Target.Dev == driveTarget
	})
}

// bootsFrom returns what the firmware of a domain tries first.
func bootsFrom(d *libvirtxml.Domain) string {
	if at := driveOf(d); at >= 0 && d.Devices.Disks[at].Boot != nil {
		return seedbed.BootCDROM
	}
	if slices.ContainsFunc(d.Devices.Interfaces, func(n libvirtxml.DomainInterface) bool { return n.Boot != nil }) {
		return seedbed.BootNetwork
	}
	return seedbed.BootDisk
}

// bootFrom makes the firmware of a domain try what c says first, and then the first disk.
func bootFrom(d *libvirtxml.Domain, c seedbed.DomainChange) error {
	list := d.Devices
	if d.OS != nil {
		d.OS.BootDevices = nil // libvirt allows only one of the two ways
	}
	for i := range list.Disks {
		list.Disks[i].Boot = nil
	}
	for i := range list.Interfaces {
		nic := &list.Interfaces[i]
		if nic.Boot != nil && nic.Model != nil { // a virtual function has the ROM of its hardware
			nic.ROM = &libvirtxml.DomainROM{Enabled: "no"}
		}
		nic.Boot = nil
	}
	first := &libvirtxml.DomainDeviceBoot{Order: 1}
	order := uint(1)
	switch *c.BootFrom {
	case seedbed.BootCDROM:
		if driveOf(d) < 0 {
			if err := addDrive(d, seedbed.CDROMDrive{}); err != nil {
				return err
			}
		}
		list.Disks[driveOf(d)].Boot, order = first, 2
	case seedbed.BootNetwork:
		at := withMAC(d, c.BootMAC)
		if at < 0 {
			return seedbed.Errorf(seedbed.ErrConflict, "domain %s has no NIC with the MAC address %s to boot from", d.Name, c.BootMAC)
		}
		list.Interfaces[at].Boot, list.Interfaces[at].ROM, order = first, nil, 2
	}
	for i := range list.Disks {
		if disk := &list.Disks[i]; cmp.Or(disk.Device, "disk") == "disk" {
			disk.Boot = &libvirtxml.DomainDeviceBoot{Order: order}
			break
		}
	}
	return nil
}

func addDrive(d *libvirtxml.Domain, of seedbed.CDROMDrive) error {
	machine := ""
	if d.OS != nil && d.OS.Type != nil {
		machine = d.OS.Type.Machine
	}
	disk, err := cdromDrive(d.Name, machine, of)
	d.Devices.Disks = append(d.Devices.Disks, disk)
	return err
}

// screenAt returns the address of a domain's screen; empty if it has none.
func screenAt(d *libvirtxml.Domain) string {
	for _, g := range d.Devices.Graphics {
		if g.VNC != nil {
			return cmp.Or(g.VNC.Listen, "127.0.0.1")
		}
	}
	return ""
}

// wantedScreen returns the address that a domain's screen is to have; empty for none.
func wantedScreen(c seedbed.DomainChange) string {
	if !*c.VNC {
		return ""
	}
	return cmp.Or(c.VNCBind, "127.0.0.1")
}

func setScreen(d *libvirtxml.Domain, at string) error {
	d.Devices.Graphics = slices.DeleteFunc(d.Devices.Graphics, func(g libvirtxml.DomainGraphic) bool { return g.VNC != nil })
	if at == "" {
		if len(d.Devices.Graphics) == 0 {
			d.Devices.Videos = nil
		}
		return nil
	}
	screen, err := vnc(d.Name, at)
	d.Devices.Graphics = append(d.Devices.Graphics, screen)
	if len(d.Devices.Videos) == 0 || d.Devices.Videos[0].Model.Type == "none" {
		d.Devices.Videos = []libvirtxml.DomainVideo{{Model: libvirtxml.DomainVideoModel{Type: "vga"}}}
	}
	return err
}

// ChangedXML returns the document of a domain as c changes it. changed is false if it is so already.
func ChangedXML(doc string, c seedbed.DomainChange, host Host) (after string, changed bool, err error) {
	return changedXML(doc, func(d *libvirtxml.Domain) (bool, error) {
		if d.Devices == nil {
			d.Devices = &libvirtxml.DomainDeviceList{}
		}
		todo := Differing(d, c)
		for _, what := range todo {
			if err := changeOne(d, what, c, host); err != nil {
				return false, err
			}
		}
		return len(todo) > 0, nil
	})
}

// Differing returns the names, of seedbed.HardwareFields, of what a domain does not have as c says.
func Differing(d *libvirtxml.Domain, c seedbed.DomainChange) (names []string) {
	if d.Devices == nil {
		d.Devices = &libvirtxml.DomainDeviceList{}
	}
	if c.Drive != nil {
		at := driveOf(d)
		if at < 0 && c.Drive.Disk != nil || at >= 0 && !holds(d.Devices.Disks[at], c.Drive.Disk) {
			names = append(names, "cdrom")
		}
	}
	if c.BootFrom != nil && bootsFrom(d) != *c.BootFrom {
		names = append(names, "boot_from")
	}
	if c.Serial != nil && (len(d.Devices.Serials) > 0) != *c.Serial {
		names = append(names, "serial")
	}
	if c.VNC != nil {
		has, wants := screenAt(d), wantedScreen(c)
		switch {
		case (has == "") != (wants == ""):
			names = append(names, "vnc")
		case has != wants:
			names = append(names, "vnc_bind")
		}
	}
	return names
}

func changeOne(d *libvirtxml.Domain, what string, c seedbed.DomainChange, host Host) error {
	switch what {
	case "cdrom":
		if at := driveOf(d); at >= 0 {
			return insert(d.Name, &d.Devices.Disks[at], *c.Drive)
		}
		return addDrive(d, *c.Drive)
	case "boot_from":
		return bootFrom(d, c)
	case "serial":
		d.Devices.Serials, d.Devices.Consoles = nil, nil
		if *c.Serial {
			d.Devices.Serials = []libvirtxml.DomainSerial{serial(c.ID, host)}
		}
		return nil
	}
	return setScreen(d, wantedScreen(c))
}

// variablesNamed returns the path of the variables of a firmware for a domain of that name, which libvirt itself would choose, beside those
// at path. It returns path for one that libvirt has not chosen: other domains may use that too.
func variablesNamed(path, name string) string {
	dir, file := filepath.Split(path)
	at := strings.LastIndex(file, "_VARS")
	if at < 0 || !strings.HasSuffix(dir, "/qemu/nvram/") {
		return path
	}
	return dir + name + file[at:]
}

// renameVariables gives the file with the variables of a firmware another path, if it exists. It returns ErrConflict if a file of that path
// exists as well, which may be that of a domain that was renamed without Seedbed.
func renameVariables(from, to string) error {
	switch _, err := os.Lstat(from); {
	case errors.Is(err, fs.ErrNotExist): // it was never started, or an interrupted call has renamed it
		return nil
	case err != nil:
		return fmt.Errorf("rename the variables of the firmware: %w", err)
	}
	switch _, err := os.Lstat(to); {
	case err == nil:
		return seedbed.Errorf(seedbed.ErrConflict, "there are variables of a firmware in %s: choose another name, or remove that file if no "+
			"domain uses it", to)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("rename the variables of the firmware: %w", err)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("rename the variables of the firmware: %w", err)
	}
	return nil
}
