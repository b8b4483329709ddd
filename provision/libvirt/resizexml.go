package libvirt

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// ResizedXML returns the document of a domain with other numbers of vcpus and memory; zero leaves a
// value unchanged. The processors are cores of one socket, as in the domains that we define.
// changed is false if the domain already has that size.
func ResizedXML(doc string, vcpus int, size seedbed.Bytes) (resized string, changed bool, err error) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(doc); err != nil {
		return "", false, fmt.Errorf("read the domain's XML: %w", err)
	}
	if vcpus != 0 && (d.VCPU == nil || d.VCPU.Value != uint(vcpus)) {
		if err := seedbed.CheckVCPUs(vcpus); err != nil {
			return "", false, err
		}
		changed = true
		if d.VCPU == nil {
			d.VCPU = &libvirtxml.DomainVCPU{}
		}
		d.VCPU.Value, d.VCPU.Current = uint(vcpus), 0
		d.VCPUs = nil // all of them are on at the start
		if d.CPU != nil && d.CPU.Topology != nil {
			d.CPU.Topology = &libvirtxml.DomainCPUTopology{Sockets: 1, Dies: 1, Cores: vcpus, Threads: 1}
		}
	}
	if size != 0 && (d.Memory == nil || memory(d.Memory) != size) {
		if err := seedbed.CheckMemory(size); err != nil {
			return "", false, err
		}
		changed = true
		kib := uint(size / seedbed.KiB)
		d.Memory = &libvirtxml.DomainMemory{Value: kib, Unit: "KiB"}
		d.CurrentMemory = &libvirtxml.DomainCurrentMemory{Value: kib, Unit: "KiB"}
	}
	out, err := d.Marshal()
	if err != nil {
		return "", false, fmt.Errorf("write the XML of domain %s: %w", d.Name, err)
	}
	return out, changed, nil
}

// DiskTarget returns the domain's name for the disk, such as vda. ok is false if the domain does
// not have that disk.
func DiskTarget(doc string, disk seedbed.Disk) (target string, ok bool, err error) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(doc); err != nil {
		return "", false, fmt.Errorf("read the domain's XML: %w", err)
	}
	for _, one := range dataDisks(&d) {
		found, _ := foreignDisk(one) // disks that are neither files nor RBD are not ours
		if found.Target != "" && found.Type == disk.Type && found.Source == disk.Source {
			return found.Target, true, nil
		}
	}
	return "", false, nil
}

var (
	serialForm = regexp.MustCompile(`^[0-9a-f]{20}$`)
	deviceForm = regexp.MustCompile(`^(vd|sd)[a-z]{1,2}$`)
)

// attachedDevice returns a volume that is attached to a domain. Its guest finds it by its serial number.
func attachedDevice(domain string, a seedbed.AttachedDisk) (libvirtxml.DomainDisk, error) {
	bus, err := seedbed.CheckBus(a.Bus)
	if err != nil {
		return libvirtxml.DomainDisk{}, err
	}
	if !serialForm.MatchString(a.Serial) || !deviceForm.MatchString(a.Device) {
		return libvirtxml.DomainDisk{}, seedbed.Errorf(seedbed.ErrInvalid,
			"domain %s: an attached disk %q with the serial number %q: expected a name such as vdb, and 20 hexadecimal digits",
			domain, seedbed.Clip(a.Device), seedbed.Clip(a.Serial))
	}
	disk, err := diskDevice(seedbed.DomainSpec{Name: domain}, 1, a.Disk)
	disk.Target, disk.Serial, disk.IOTune = &libvirtxml.DomainDiskTarget{Dev: a.Device, Bus: bus}, a.Serial, ioTune(a.Limits)
	if n := placeOf(a.Device); bus == seedbed.BusSCSI && n >= unitsByName {
		var zero uint
		unit := uint(n + 1)
		disk.Address = &libvirtxml.DomainAddress{Drive: &libvirtxml.DomainAddressDrive{Controller: &zero, Bus: &zero, Target: &zero, Unit: &unit}}
	}
	return disk, err
}

// unitsByName is how many names of disks libvirt gives units of one controller: sda to sdo are units 0 to 15 of the first, without 7,
// which was that of the controller itself. It would look for sdp at a second controller, though virtio-scsi has room for more.
const unitsByName = 15

// placeOf returns the number of a disk's name from 0, such as 27 for sdab.
func placeOf(device string) int {
	n := 0
	for _, letter := range device[2:] {
		n = n*26 + int(letter-'a') + 1
	}
	return n - 1
}

// scsiController is what disks on virtio-scsi need.
var scsiController = libvirtxml.DomainController{Type: "scsi", Model: "virtio-scsi"}

func hasSCSI(list *libvirtxml.DomainDeviceList) bool {
	return slices.ContainsFunc(list.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == "scsi" })
}

// attach adds attached volumes to the devices of a domain.
func attach(list *libvirtxml.DomainDeviceList, domain string, all ...seedbed.AttachedDisk) error {
	for _, a := range all {
		disk, err := attachedDevice(domain, a)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list.Disks, func(d libvirtxml.DomainDisk) bool { return d.Target != nil && d.Target.Dev == a.Device }) {
			return seedbed.Errorf(seedbed.ErrConflict, "domain %s has a disk %s already: attach the volume on the other bus", domain, a.Device)
		}
		if disk.Target.Bus == seedbed.BusSCSI && !hasSCSI(list) {
			list.Controllers = append(list.Controllers, scsiController)
		}
		list.Disks = append(list.Disks, disk)
	}
	return nil
}

// withSerial returns the index of the disk with that serial number, or -1.
func withSerial(d *libvirtxml.Domain, serial string) int {
	if d.Devices == nil {
		return -1
	}
	return slices.IndexFunc(d.Devices.Disks, func(disk libvirtxml.DomainDisk) bool { return disk.Serial == serial })
}

// AttachedXML returns the document of a domain with an attached volume. changed is false if it has the volume already.
func AttachedXML(doc string, a seedbed.AttachedDisk) (attached string, changed bool, err error) {
	return changedXML(doc, func(d *libvirtxml.Domain) (bool, error) {
		if withSerial(d, a.Serial) >= 0 {
			return false, nil
		}
		if d.Devices == nil {
			d.Devices = &libvirtxml.DomainDeviceList{}
		}
		return true, attach(d.Devices, d.Name, a)
	})
}

// DetachedXML returns the document of a domain without the volume with that serial number. changed is false if it has none.
func DetachedXML(doc, serial string) (detached string, changed bool, err error) {
	return changedXML(doc, func(d *libvirtxml.Domain) (bool, error) {
		at := withSerial(d, serial)
		if at < 0 {
			return false, nil
		}
		d.Devices.Disks = slices.Delete(d.Devices.Disks, at, at+1)
		return true, nil
	})
}

// ioTune returns limits as libvirt has them; nil for none.
func ioTune(l seedbed.IOLimits) *libvirtxml.DomainDiskIOTune {
	if l == (seedbed.IOLimits{}) {
		return nil
	}
	return &libvirtxml.DomainDiskIOTune{
		TotalIopsSec: uint64(l.IOPS), ReadIopsSec: uint64(l.ReadIOPS), WriteIopsSec: uint64(l.WriteIOPS),
		TotalBytesSec: uint64(l.Bandwidth), ReadBytesSec: uint64(l.ReadBandwidth), WriteBytesSec: uint64(l.WriteBandwidth),
	}
}

// LimitedXML returns the document of a domain whose volume with that serial number has these limits. changed is false if it has no such
// volume, or if that has them already.
func LimitedXML(doc, serial string, l seedbed.IOLimits) (limited string, changed bool, err error) {
	return changedXML(doc, func(d *libvirtxml.Domain) (bool, error) {
		at := withSerial(d, serial)
		if at < 0 {
			return false, nil
		}
		disk, tune := &d.Devices.Disks[at], ioTune(l)
		if reflect.DeepEqual(disk.IOTune, tune) {
			return false, nil
		}
		disk.IOTune = tune
		return true, nil
	})
}

// withMAC returns the index of the NIC with that MAC address, or -1.
func withMAC(d *libvirtxml.Domain, mac seedbed.MAC) int {
	if d.Devices == nil {
		return -1
	}
	return slices.IndexFunc(d.Devices.Interfaces, func(n libvirtxml.DomainInterface) bool {
		return n.MAC != nil && strings.EqualFold(n.MAC.Address, mac.String())
	})
}

// sameNIC returns ErrConflict unless a NIC of a domain is where another with its MAC address is to be.
func sameNIC(domain string, has, wanted libvirtxml.DomainInterface) error {
	place := func(n libvirtxml.DomainInterface) string {
		switch {
		case n.Source == nil:
		case n.Source.Bridge != nil && n.Target != nil:
			return "bridge " + n.Source.Bridge.Bridge + ", tap " + n.Target.Dev
		case n.Source.Direct != nil:
			return "uplink " + n.Source.Direct.Dev + ", mode " + n.Source.Direct.Mode
		case n.Source.Network != nil:
			return "pool " + n.Source.Network.Network
		}
		return "another place"
	}
	if a, b := place(has), place(wanted); a != b {
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s has a NIC with the MAC address %s at %s already, not at %s", domain,
			wanted.MAC.Address, a, b)
	}
	return nil
}

// PluggedXML returns the document of a domain with a further NIC. changed is false if it has the NIC already.
func PluggedXML(doc string, n seedbed.DomainNIC, host Host) (plugged string, changed bool, err error) {
	return changedXML(doc, func(d *libvirtxml.Domain) (bool, error) {
		nic, err := nicDevice(d.Name, n, host)
		if err != nil {
			return false, err
		}
		if at := withMAC(d, n.MAC); at >= 0 {
			return false, sameNIC(d.Name, d.Devices.Interfaces[at], nic)
		}
		if d.Devices == nil {
			d.Devices = &libvirtxml.DomainDeviceList{}
		}
		if len(d.Devices.Interfaces) >= seedbed.MaxNICs {
			return false, seedbed.Errorf(seedbed.ErrConflict, "domain %s has %d NICs: expected at most %d", d.Name,
				len(d.Devices.Interfaces), seedbed.MaxNICs)
		}
		d.Devices.Interfaces = append(d.Devices.Interfaces, nic)
		return true, nil
	})
}

// UnpluggedXML returns the document of a domain without the NIC with that MAC address. changed is false if it has none.
func UnpluggedXML(doc string, mac seedbed.MAC) (unplugged string, changed bool, err error) {
	return changedXML(doc, func(d *libvirtxml.Domain) (bool, error) {
		at := withMAC(d, mac)
		if at < 0 {
			return false, nil
		}
		d.Devices.Interfaces = slices.Delete(d.Devices.Interfaces, at, at+1)
		return true, nil
	})
}

// changedXML returns the document of a domain as change makes it.
func changedXML(doc string, change func(*libvirtxml.Domain) (bool, error)) (string, bool, error) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(doc); err != nil {
		return "", false, fmt.Errorf("read the domain's XML: %w", err)
	}
	changed, err := change(&d)
	if err != nil || !changed {
		return doc, false, err
	}
	if doc, err = d.Marshal(); err != nil {
		return "", false, fmt.Errorf("write the XML of domain %s: %w", d.Name, err)
	}
	return doc, true, nil
}

// sparePorts is how many free root ports a domain of machine type q35 is given when it starts, for eight disks and four NICs: only at
// one of these can a device be attached while its guest runs. Domains of other types need none.
const sparePorts = 8 + 4

// RoomyXML returns the document of a domain with room for further disks and NICs. changed is false if it has that.
func RoomyXML(doc string) (roomy string, changed bool, err error) {
	return changedXML(doc, func(d *libvirtxml.Domain) (bool, error) {
		if d.OS == nil || d.OS.Type == nil || !strings.Contains(d.OS.Type.Machine, "q35") || d.Devices == nil {
			return false, nil
		}
		used, err := usedBuses(doc)
		if err != nil {
			return false, err
		}
		free := 0
		for _, c := range d.Devices.Controllers {
			if c.Type == "pci" && c.Model == "pcie-root-port" && (c.Index == nil || !used[*c.Index]) {
				free++
			}
		}
		for range sparePorts - free {
			d.Devices.Controllers = append(d.Devices.Controllers, libvirtxml.DomainController{Type: "pci", Model: "pcie-root-port"})
		}
		return free < sparePorts, nil
	})
}

// usedBuses returns the PCI buses at which a domain has devices.
func usedBuses(doc string) (map[uint]bool, error) {
	used := map[uint]bool{}
	for in := xml.NewDecoder(strings.NewReader(doc)); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return used, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the domain's XML: %w", err)
		}
		element, ok := token.(xml.StartElement)
		if !ok || element.Name.Local != "address" {
			continue
		}
		attrs := map[string]string{}
		for _, a := range element.Attr {
			attrs[a.Name.Local] = a.Value
		}
		if bus, err := strconv.ParseUint(attrs["bus"], 0, 16); err == nil && attrs["type"] == "pci" {
			used[uint(bus)] = true
		}
	}
}
