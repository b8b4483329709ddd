package libvirt

import (
	"errors"
	"fmt"

	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// ParseForeign reads the document of a domain that could be adopted, and lists what prevents that
// as problems. bridge returns the bridge of a libvirt network.
func ParseForeign(doc string, bridge func(network string) (string, error)) (seedbed.ForeignDomain, error) {
	f := seedbed.ForeignDomain{Disks: []seedbed.ForeignDisk{}, NICs: []seedbed.ForeignNIC{}, Problems: []string{}}
	var d libvirtxml.Domain
	if err := d.Unmarshal(doc); err != nil {
		return f, fmt.Errorf("read the domain's XML: %w", err)
	}
	problem := func(format string, args ...any) { f.Problems = append(f.Problems, fmt.Sprintf(format, args...)) }
	f.Name = d.Name
	id, err := seedbed.ParseInstanceID(d.UUID)
	if err != nil {
		return f, err
	}
	f.ID = id
	if err := seedbed.CheckInstanceName(d.Name); err != nil {
		problem("%v: give it another name first (virsh domrename)", err)
	}
	if d.VCPU != nil {
		f.VCPUs = int(d.VCPU.Value)
	}
	if d.Memory != nil {
		f.Memory = memory(d.Memory)
	}
	for _, disk := range dataDisks(&d) {
		found, err := foreignDisk(disk)
		if err != nil {
			problem("%v", err)
		}
		f.Disks = append(f.Disks, found)
	}
	if d.Devices != nil {
		for i, nic := range d.Devices.Interfaces {
			found, err := foreignNIC(nic, bridge)
			if err != nil {
				problem("interface %d: %v", i+1, err)
			}
			f.NICs = append(f.NICs, found)
		}
	}
	return f, nil
}

// memory converts the value from the unit that the document names, or KiB.
func memory(m *libvirtxml.DomainMemory) seedbed.Bytes {
	units := map[string]seedbed.Bytes{
		"b": 1, "bytes": 1, "": seedbed.KiB, "k": seedbed.KiB, "KiB": seedbed.KiB, "KB": 1000,
		"M": seedbed.MiB, "MiB": seedbed.MiB, "MB": 1000 * 1000, "G": seedbed.GiB, "GiB": seedbed.GiB, "GB": 1000 * 1000 * 1000,
		"T": seedbed.TiB, "TiB": seedbed.TiB,
	}
	return seedbed.Bytes(m.Value) * units[m.Unit]
}

// dataDisks returns the domain's disks without CDs and floppies, which adoption does not change.
func dataDisks(d *libvirtxml.Domain) []*libvirtxml.DomainDisk {
	var all []*libvirtxml.DomainDisk
	if d.Devices == nil {
		return nil
	}
	for i := range d.Devices.Disks {
		if disk := &d.Devices.Disks[i]; disk.Device == "" || disk.Device == "disk" {
			all = append(all, disk)
		}
	}
	return all
}

func foreignDisk(d *libvirtxml.DomainDisk) (seedbed.ForeignDisk, error) {
	var f seedbed.ForeignDisk
	if d.Target != nil {
		f.Target = d.Target.Dev
	}
	if d.Driver != nil {
		f.Format = d.Driver.Type
	}
	switch {
	case d.Source != nil && d.Source.File != nil && d.Source.File.File != "":
		f.Type, f.Source = "file", d.Source.File.File
	case d.Source != nil && d.Source.Network != nil && d.Source.Network.Protocol == "rbd":
		f.Type, f.Source = "rbd", d.Source.Network.Name
	default:
		return f, seedbed.Errorf(seedbed.ErrInvalid, "disk %s is neither a file nor an RBD image: only those can become volumes", f.Target)
	}
	if d.ReadOnly != nil || d.Shareable != nil {
		return f, seedbed.Errorf(seedbed.ErrInvalid, "disk %s is shared or read-only: a volume belongs to one instance", f.Target)
	}
	return f, nil
}

func foreignNIC(n libvirtxml.DomainInterface, bridge func(string) (string, error)) (f seedbed.ForeignNIC, err error) {
	if n.MAC == nil {
		return f, seedbed.Errorf(seedbed.ErrInvalid, "it has no MAC address")
	}
	if f.MAC, err = seedbed.ParseMAC(n.MAC.Address); err != nil {
		return f, err
	}
	switch {
	case n.Source != nil && n.Source.Bridge != nil && n.Source.Bridge.Bridge != "":
		f.Bridge = n.Source.Bridge.Bridge
	case n.Source != nil && n.Source.Network != nil:
		if f.Bridge, err = bridge(n.Source.Network.Network); err != nil {
			return f, err
		}
	default:
		return f, seedbed.Errorf(seedbed.ErrInvalid, "%s is not on a bridge", f.MAC)
	}
	return f, nil
}

// AdoptedXML returns the document of a domain after its adoption: unchanged but for the tag, the
// sources of its disks and what those read from, and the bridges and taps of its NICs. It returns
// ErrConflict if the disks or NICs differ from those that were to be adopted.
func AdoptedXML(doc string, a seedbed.DomainAdoption, consoleDir string) (string, error) {
	return rewrite(doc, a, a.Sources, sources(a.Disks), func(d *libvirtxml.Domain) error {
		tag, err := Tag{Version: tagVersion, Instance: a.ID, Job: a.Job, Profile: a.Profile, Project: a.Project}.marshal()
		if err != nil {
			return err
		}
		for i, disk := range dataDisks(d) {
			if disk.BackingStore = nil; a.Disks[i].Type == "file" {
				disk.BackingStore = backing(a.Disks[i].Backing)
			}
		}
		if d.Metadata == nil {
			d.Metadata = &libvirtxml.DomainMetadata{}
		}
		d.Metadata.XML += tag
		for i := range a.NICs {
			nic := &d.Devices.Interfaces[withMAC(d, a.NICs[i].MAC)]
			nic.Source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: a.NICs[i].Bridge}}
			nic.Target = &libvirtxml.DomainInterfaceTarget{Dev: a.NICs[i].Tap}
		}
		if len(d.Devices.Serials) > 0 && d.Devices.Serials[0].Log == nil {
			d.Devices.Serials[0].Log = &libvirtxml.DomainChardevLog{File: consoleLog(consoleDir, a.ID), Append: "off"}
		}
		return nil
	})
}

// GivenBackXML is the inverse of AdoptedXML, except for NICs of a libvirt network, which stay on
// its bridge. The tag is removed separately.
func GivenBackXML(doc string, a seedbed.DomainAdoption, consoleDir string) (string, error) {
	return rewrite(doc, a, sources(a.Disks), a.Sources, func(d *libvirtxml.Domain) error {
		for _, disk := range dataDisks(d) {
			disk.BackingStore = nil // libvirt finds it again, now that the file is not an instance's
		}
		for _, nic := range a.NICs {
			d.Devices.Interfaces[withMAC(d, nic.MAC)].Target = nil
		}
		for i, s := range d.Devices.Serials {
			if s.Log != nil && s.Log.File == consoleLog(consoleDir, a.ID) {
				d.Devices.Serials[i].Log = nil
			}
		}
		return nil
	})
}

func sources(disks []seedbed.Disk) []string {
	all := make([]string, len(disks))
	for i, d := range disks {
		all[i] = d.Source
	}
	return all
}

// rewrite changes the sources of a document's disks, and the rest by change.
func rewrite(doc string, a seedbed.DomainAdoption, from, to []string, change func(*libvirtxml.Domain) error) (string, error) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(doc); err != nil {
		return "", fmt.Errorf("read the XML of domain %s: %w", a.Name, err)
	}
	disks := dataDisks(&d)
	differs := func(what string, args ...any) error {
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s has changed since it was looked at: "+what, append([]any{a.Name}, args...)...)
	}
	if len(disks) != len(from) || len(from) != len(to) {
		return "", differs("%d disks and not %d", len(disks), len(from))
	}
	for i, disk := range disks {
		have, err := foreignDisk(disk)
		if err != nil {
			return "", err
		}
		switch {
		case have.Source != from[i] && have.Source != to[i]:
			return "", differs("disk %s is at %s and not at %s", have.Target, have.Source, from[i])
		case have.Type == "file":
			disk.Source.File.File = to[i]
		default:
			disk.Source.Network.Name = to[i]
		}
	}
	nics := 0
	if d.Devices != nil {
		nics = len(d.Devices.Interfaces)
	}
	if nics != len(a.NICs) {
		return "", differs("%d NICs and not %d", nics, len(a.NICs))
	}
	for i, nic := range a.NICs {
		if withMAC(&d, nic.MAC) < 0 {
			return "", differs("NIC %d has another MAC address than %s", i+1, nic.MAC)
		}
	}
	if d.Devices == nil {
		return "", errors.New("the domain has no devices")
	}
	if err := change(&d); err != nil {
		return "", err
	}
	out, err := d.Marshal()
	if err != nil {
		return "", fmt.Errorf("write the XML of domain %s: %w", a.Name, err)
	}
	return out, nil
}
