package libvirt

import (
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// vhostmd is the disk from which PVC's domains read metrics of their host.
const vhostmd = "/dev/shm/vhostmd0"

// deviceDir is where scripts find the block devices of volumes.
const deviceDir = "/dev/rbd/"

// scriptedDisks puts the instance's own volumes in the places that they have in the document.
func (s *scripted) scriptedDisks(from, to *libvirtxml.DomainDeviceList) error {
	if len(from.Disks) > 2*maxDisks {
		return s.refuse("it has %d disks: expected at most %d", len(from.Disks), 2*maxDisks)
	}
	for i, d := range from.Disks {
		if d.Source != nil && d.Source.File != nil && d.Source.File.File == vhostmd {
			s.note("the disk %s is left out: this host does not provide vhostmd metrics", vhostmd)
			continue
		}
		if d.Device == "cdrom" && (d.Source == nil || sourceName(d.Source) == "" && d.Source.File != nil && d.Source.File.File == "") {
			to.Disks = append(to.Disks, libvirtxml.DomainDisk{
				Device: "cdrom", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu",
					Type: "raw"}, Target: d.Target, ReadOnly: d.ReadOnly, Boot: d.Boot, Address: d.Address,
			})
			continue
		}
		disk, err := s.disk(i, d)
		if err != nil {
			return err
		}
		to.Disks = append(to.Disks, disk)
	}
	for _, name := range s.spec.Script.Volumes {
		if !s.spec.Script.Early && !s.used[name] {
			s.note("the script made volume %s, but its domain does not use it", name)
		}
	}
	return nil
}

// sourceName returns pool/name of the volume that a disk's source names, or "".
func sourceName(source *libvirtxml.DomainDiskSource) string {
	switch {
	case source == nil:
	case source.Network != nil && source.Network.Protocol == "rbd":
		return source.Network.Name
	case source.Block != nil:
		name, ok := strings.CutPrefix(source.Block.Dev, deviceDir)
		if ok {
			return name
		}
	}
	return ""
}

func (s *scripted) disk(i int, d libvirtxml.DomainDisk) (libvirtxml.DomainDisk, error) {
	name := sourceName(d.Source)
	if name == "" {
		return d, s.refuse("disk %d is not on a volume of the instance: "+
			"expected a source of type network and protocol rbd with the name POOL/VOLUME", i)
	}
	if d.Device != "" && d.Device != "disk" && d.Device != "lun" || d.Target == nil || d.Target.Dev == "" {
		return d, s.refuse("disk %d, %s, is a %q or has no target: expected a disk with one", i, seedbed.Clip(name), seedbed.Clip(d.Device))
	}
	if s.used[name] {
		return d, s.refuse("the volume %s is used by two of its disks", seedbed.Clip(name))
	}
	s.used[name] = true
	source, err := s.volume(name)
	if err != nil {
		return d, err
	}
	made, err := diskDevice(seedbed.DomainSpec{Name: s.spec.Name}, i, source)
	if err != nil {
		return d, err
	}
	made.Target = &libvirtxml.DomainDiskTarget{Dev: d.Target.Dev, Bus: d.Target.Bus}
	made.Boot, made.Address, made.ReadOnly, made.Serial, made.WWN = d.Boot, d.Address, d.ReadOnly, d.Serial, d.WWN
	return made, nil
}

// volume returns the disk of a volume that the document names.
func (s *scripted) volume(name string) (seedbed.Disk, error) {
	if disk, ok := s.disks[name]; ok {
		return disk, nil
	}
	pool, volume, ok := strings.Cut(name, "/")
	if s.spec.Script.Early {
		if ok && slices.Contains(s.spec.Script.Volumes, pool) && strings.HasPrefix(volume, s.spec.Name+"_") &&
			seedbed.CheckName("volume", volume) == nil {
			return seedbed.Disk{Type: "file", Source: deviceDir + name, Format: "raw"}, nil
		}
		return seedbed.Disk{}, s.refuse("the disk %s is not the instance's own: expected a volume %s_NAME of an existing pool (%s)",
			seedbed.Clip(name), s.spec.Name, strings.Join(s.spec.Script.Volumes, ", "))
	}
	if len(s.spec.Script.Volumes) == 0 {
		return seedbed.Disk{}, s.refuse("the volume %s is not one that the script has made: it made none. A domain is only defined on "+
			"disks that exist: expected a script whose prepare() makes them, or a storage template without disks", seedbed.Clip(name))
	}
	return seedbed.Disk{}, s.refuse("the volume %s is not one that the script has made (it made %s)", seedbed.Clip(name),
		strings.Join(s.spec.Script.Volumes, ", "))
}

// scriptedNICs puts the instance's own NICs in the places where the document has the first
// interface on their bridges. The MAC addresses are the instance's, which DHCP and the filters
// know. Those that were added to the instance come after them.
func (s *scripted) scriptedNICs(from, to *libvirtxml.DomainDeviceList) error {
	left := slices.DeleteFunc(slices.Clone(s.spec.NICs), func(n seedbed.DomainNIC) bool { return n.Added })
	for i, n := range from.Interfaces {
		bridge := ""
		if n.Source != nil && n.Source.Bridge != nil {
			bridge = n.Source.Bridge.Bridge
		}
		at := slices.IndexFunc(left, func(own seedbed.DomainNIC) bool { return bridge != "" && own.Bridge == bridge })
		if at < 0 {
			return s.refuse(
				"interface %d is on bridge %q, where the instance has no further NIC: "+
					"expected one <interface type='bridge'> for each network of the profile, on its eth_bridge",
				i,
				seedbed.Clip(bridge),
			)
		}
		own := left[at]
		left = slices.Delete(left, at, at+1)
		made, err := nicDevice(s.spec.Name, own, s.host)
		if err != nil {
			return err
		}
		if n.Model != nil && n.Model.Type != "" {
			made.Model = &libvirtxml.DomainInterfaceModel{Type: n.Model.Type}
		}
		made.Boot, made.Address = n.Boot, n.Address // and the MTU is the network's
		if n.Boot != nil {
			made.ROM = nil
		}
		to.Interfaces = append(to.Interfaces, made)
		if n.MAC != nil && !strings.EqualFold(n.MAC.Address, own.MAC.String()) {
			s.note("interface %d has the instance's MAC address %s, to which its IP address belongs, instead of the script's %s", i, own.MAC,
				seedbed.Clip(n.MAC.Address))
		}
	}
	for _, n := range left {
		s.note("the NIC on bridge %s is not in the script's domain", n.Bridge)
	}
	for _, n := range s.spec.NICs {
		if !n.Added {
			continue
		}
		made, err := nicDevice(s.spec.Name, n, s.host)
		if err != nil {
			return err
		}
		to.Interfaces = append(to.Interfaces, made)
	}
	return nil
}
