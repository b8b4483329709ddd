package libvirt

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/provision/seed"
)

// maxDisks is how many disks a domain that is not a script's has at most. libvirt adds PCI bridges for what has no place at the first bus.
const maxDisks = 16

var (
	// ifname matches interface names that Linux accepts, without characters that have a meaning for
	// libvirt or a shell.
	ifname = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	// reserved matches target names that libvirt replaces by names of its own
	// (virNetDevReserveName): our filters would wait for an interface that never appears.
	reserved = regexp.MustCompile(`^(vnet|vif|macvtap|macvlan)\d+$`)
)

// balloonPeriod is how often, in seconds, a guest with a balloon driver tells how much memory it uses.
const balloonPeriod = 10

func deviceList(spec seedbed.DomainSpec, host Host) (*libvirtxml.DomainDeviceList, error) {
	if len(spec.Disks)+len(spec.Attached) > maxDisks || len(spec.NICs) > seedbed.MaxNICs {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "domain %s: %d disks and %d NICs: expected at most %d and %d",
			spec.Name, len(spec.Disks)+len(spec.Attached), len(spec.NICs), maxDisks, seedbed.MaxNICs)
	}
	list := &libvirtxml.DomainDeviceList{
		Emulator: host.Emulator,
		// USB has no devices, and its controller would cost boot time and wake-ups.
		Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}},
		MemBalloon:  &libvirtxml.DomainMemBalloon{Model: "virtio", Stats: &libvirtxml.DomainMemBalloonStats{Period: balloonPeriod}},
		RNGs: []libvirtxml.DomainRNG{{
			Model:   "virtio",
			Rate:    &libvirtxml.DomainRNGRate{Bytes: 65536, Period: 1000},
			Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
		}},
		// A panic of the guest's kernel ends the domain with an event that says crashed.
		Panics: []libvirtxml.DomainPanic{{Model: "isa"}},
	}
	if host.DomainType != TypeTest {
		list.Channels = []libvirtxml.DomainChannel{agentChannel()}
	}
	if spec.System == nil || spec.System.Serial {
		list.Serials = []libvirtxml.DomainSerial{serial(spec.ID, host)}
	}
	if spec.System != nil && spec.System.VNC {
		screen, err := vnc(spec.Name, spec.System.VNCBind)
		if err != nil {
			return nil, err
		}
		list.Graphics = []libvirtxml.DomainGraphic{screen}
		list.Videos = []libvirtxml.DomainVideo{{Model: libvirtxml.DomainVideoModel{Type: "vga"}}}
	}
	if spec.System != nil && spec.System.TPM {
		list.TPMs = []libvirtxml.DomainTPM{{Model: "tpm-crb",
			Backend: &libvirtxml.DomainTPMBackend{Emulator: &libvirtxml.DomainTPMBackendEmulator{Version: "2.0"}}}}
	}
	if spec.CDROM || spec.System != nil && spec.System.DiskBus == seedbed.BusSCSI {
		list.Controllers = append(list.Controllers, libvirtxml.DomainController{Type: "scsi", Model: "virtio-scsi"})
	}
	for i, d := range spec.Disks {
		disk, err := diskDevice(spec, i, d)
		if err != nil {
			return nil, err
		}
		list.Disks = append(list.Disks, disk)
	}
	if spec.CDROM {
		list.Disks = append(list.Disks, cdrom(spec, host))
	}
	if spec.Drive != nil {
		drive, err := cdromDrive(spec.Name, host.Machine, *spec.Drive)
		if err != nil {
			return nil, err
		}
		if spec.System != nil && spec.System.BootFrom == seedbed.BootCDROM {
			drive.Boot = &libvirtxml.DomainDeviceBoot{Order: 1}
		}
		list.Disks = append(list.Disks, drive)
	}
	if err := attach(list, spec.Name, spec.Attached...); err != nil {
		return nil, err
	}
	for _, n := range spec.NICs {
		nic, err := nicDevice(spec.Name, n, host)
		if err != nil {
			return nil, err
		}
		list.Interfaces = append(list.Interfaces, nic)
	}
	return list, nil
}

// diskDevice returns a disk on virtio-blk or virtio-scsi. The firmware boots the first disk, after the network or
// the CD-ROM drive if the guest boots from that, and tries nothing else. cache=writeback honours the guest's flushes and lets clones
// share their base image in the host's page cache. io=threads works on every file system, and discard returns freed
// blocks to the pool.
func diskDevice(spec seedbed.DomainSpec, index int, d seedbed.Disk) (libvirtxml.DomainDisk, error) {
	domain, system := spec.Name, seedbed.System{}
	if spec.System != nil {
		system = *spec.System
	}
	disk := libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: d.Format, Cache: "writeback", IO: "threads", Discard: "unmap"},
		Target: &libvirtxml.DomainDiskTarget{Dev: system.Disk(index), Bus: cmp.Or(system.DiskBus, seedbed.BusVirtio)},
	}
	if d.Format != "qcow2" && d.Format != "raw" {
		return disk, seedbed.Errorf(seedbed.ErrInvalid, "domain %s: disk %d has format %q: expected qcow2 or raw", domain, index, d.Format)
	}
	if index == 0 {
		disk.Boot = &libvirtxml.DomainDeviceBoot{Order: 1}
		if slices.ContainsFunc(spec.NICs, func(n seedbed.DomainNIC) bool { return n.Boot }) || system.BootFrom == seedbed.BootCDROM {
			disk.Boot.Order = 2
		}
	}
	switch d.Type {
	case "file":
		if !filepath.IsAbs(d.Source) {
			return disk, seedbed.Errorf(seedbed.ErrInvalid, "domain %s: disk %d is at %q: expected an absolute path", domain, index, d.Source)
		}
		disk.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: d.Source}}
		disk.BackingStore = backing(d.Backing)
	case "rbd":
		source, err := rbdSource(domain, index, d)
		if err != nil {
			return disk, err
		}
		// librbd has its own threads, so io cannot be chosen.
		disk.Source, disk.Driver.IO = source, ""
	default:
		return disk, seedbed.Errorf(seedbed.ErrInvalid, "domain %s: disk %d has type %q: expected file or rbd", domain, index, d.Type)
	}
	return disk, nil
}

// cdrom returns the CD-ROM with the metadata. It is on virtio-scsi, for which every guest with virtio disks has a driver: the
// kernel of Debian's cloud images has none for AHCI, and none of QEMU's machine types has both IDE and AHCI.
func cdrom(spec seedbed.DomainSpec, host Host) libvirtxml.DomainDisk {
	index := 0
	if spec.System != nil && spec.System.DiskBus == seedbed.BusSCSI {
		index = len(spec.Disks)
	}
	return libvirtxml.DomainDisk{
		Device:   "cdrom",
		Driver:   &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
		Source:   &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: seed.Path(host.CDROMDir, spec.ID)}},
		Target:   &libvirtxml.DomainDiskTarget{Dev: seedbed.System{DiskBus: seedbed.BusSCSI}.Disk(index), Bus: seedbed.BusSCSI},
		ReadOnly: &libvirtxml.DomainDiskReadOnly{},
	}
}

// backing returns the image below a clone, or for "" the end of the chain. Without it, libvirt would
// believe the file's header, which a guest's QEMU can write: it would give any file of the host that
// the header names to QEMU's user, and the image of a clone too, who could then change what other
// guests boot from. The image is readable by all anyway.
func backing(path string) *libvirtxml.DomainDiskBackingStore {
	if path == "" {
		return &libvirtxml.DomainDiskBackingStore{}
	}
	return &libvirtxml.DomainDiskBackingStore{
		Format: &libvirtxml.DomainDiskFormat{Type: "qcow2"},
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{
			File: path, SecLabel: []libvirtxml.DomainDeviceSecLabel{{Model: "dac", Relabel: "no"}},
		}},
		BackingStore: &libvirtxml.DomainDiskBackingStore{}, // no further backing file
	}
}

// nicDevice returns a NIC. It has no boot ROM, unless the guest boots from its network.
func nicDevice(domain string, n seedbed.DomainNIC, host Host) (libvirtxml.DomainInterface, error) {
	nic, err := nicOf(domain, n, host)
	if n.Boot {
		nic.Boot, nic.ROM = &libvirtxml.DomainDeviceBoot{Order: 1}, nil
	}
	return nic, err
}

// nicOf returns a virtio NIC whose tap has our name, for which the bridge's filters are already in place, or one in a direct network.
func nicOf(domain string, n seedbed.DomainNIC, host Host) (libvirtxml.DomainInterface, error) {
	if n.Uplink != "" {
		return directDevice(domain, n, host)
	}
	if !ifname.MatchString(n.Tap) || reserved.MatchString(n.Tap) {
		return libvirtxml.DomainInterface{}, seedbed.Errorf(seedbed.ErrInvalid,
			"domain %s: tap name %q is not usable: expected 1 to 15 letters, digits, '.', '_' or '-' that libvirt does not reserve, such as sb1",
			domain,
			n.Tap)
	}
	if !ifname.MatchString(n.Bridge) {
		return libvirtxml.DomainInterface{}, seedbed.Errorf(seedbed.ErrInvalid,
			"domain %s: bridge name %q is not usable: expected 1 to 15 letters, digits, '.', '_' or '-'", domain, n.Bridge)
	}
	var mtu *libvirtxml.DomainInterfaceMTU
	if n.MTU != 0 {
		mtu = &libvirtxml.DomainInterfaceMTU{Size: uint(n.MTU)}
	}
	return libvirtxml.DomainInterface{
		MTU:    mtu,
		MAC:    &libvirtxml.DomainInterfaceMAC{Address: n.MAC.String()},
		Source: &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: n.Bridge}},
		Target: &libvirtxml.DomainInterfaceTarget{Dev: n.Tap},
		Model:  &libvirtxml.DomainInterfaceModel{Type: "virtio"},
		ROM:    &libvirtxml.DomainROM{Enabled: "no"},
	}, nil
}

// directDevice returns a NIC at an uplink of the node: a virtio NIC by macvtap, whose interface libvirt names, or a virtual
// function, which libvirt takes from the pool of its physical function at each start.
func directDevice(domain string, n seedbed.DomainNIC, host Host) (libvirtxml.DomainInterface, error) {
	on := cmp.Or(host.Uplinks[n.Uplink], n.Uplink)
	if !ifname.MatchString(on) || !slices.Contains(seedbed.DirectModes(), n.Mode) {
		return libvirtxml.DomainInterface{}, seedbed.Errorf(seedbed.ErrInvalid,
			"domain %s: a NIC at uplink %q by mode %q: expected an interface name of 1 to 15 letters, digits, '.', '_' or '-', and one of %s",
			domain, on, n.Mode, strings.Join(seedbed.DirectModes(), ", "))
	}
	nic := libvirtxml.DomainInterface{MAC: &libvirtxml.DomainInterfaceMAC{Address: n.MAC.String()}}
	if n.Mode == seedbed.DirectSRIOV {
		nic.Source = &libvirtxml.DomainInterfaceSource{Network: &libvirtxml.DomainInterfaceSourceNetwork{Network: functionPool + on}}
		if n.VLAN != 0 {
			nic.VLan = &libvirtxml.DomainInterfaceVLan{Tags: []libvirtxml.DomainInterfaceVLanTag{{ID: uint(n.VLAN)}}}
		}
		return nic, nil
	}
	nic.Source = &libvirtxml.DomainInterfaceSource{Direct: &libvirtxml.DomainInterfaceSourceDirect{Dev: on, Mode: n.Mode}}
	nic.Model, nic.ROM = &libvirtxml.DomainInterfaceModel{Type: "virtio"}, &libvirtxml.DomainROM{Enabled: "no"}
	return nic, nil
}

// functionPool and the name of a physical function are the name of the libvirt network that is the pool of its virtual functions.
const functionPool = "seedbed-"

// FunctionPoolXML returns the libvirt network that is the pool of the virtual functions of an interface
// (https://libvirt.org/formatnetwork.html, forward mode hostdev).
func FunctionPoolXML(on string) (string, error) {
	n := libvirtxml.Network{Name: functionPool + on, Forward: &libvirtxml.NetworkForward{
		Mode: "hostdev", Managed: "yes", PFs: []libvirtxml.NetworkForwardPF{{Dev: on}},
	}}
	return n.Marshal()
}

// uplinksOf returns the uplinks at which a domain is, by its document: those of macvtap, and the physical functions of pools.
func uplinksOf(doc string) (macvtap, functions []string, err error) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(doc); err != nil {
		return nil, nil, fmt.Errorf("read the domain's XML: %w", err)
	}
	if d.Devices == nil {
		return nil, nil, nil
	}
	for _, nic := range d.Devices.Interfaces {
		switch {
		case nic.Source == nil:
		case nic.Source.Direct != nil:
			macvtap = append(macvtap, nic.Source.Direct.Dev)
		case nic.Source.Network != nil:
			if on, ours := strings.CutPrefix(nic.Source.Network.Network, functionPool); ours {
				functions = append(functions, on)
			}
		}
	}
	return macvtap, functions, nil
}

// missing returns ErrConflict unless an uplink is an interface of this node.
func missing(on string) error {
	if _, err := net.InterfaceByName(on); err == nil {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrConflict,
		"interface %s, the uplink of a direct network, does not exist on this node: make it, or name the node's own in network.uplinks", on)
}

// serial returns the console: a pty, so that virsh console works, and a log that virtlogd writes
// and bounds (max_size and max_backups in virtlogd.conf; by default 2 MiB and 3 files). Each start
// truncates the log.
func serial(id seedbed.InstanceID, host Host) libvirtxml.DomainSerial {
	port := uint(0)
	return libvirtxml.DomainSerial{
		Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
		Log:    &libvirtxml.DomainChardevLog{File: consoleLog(host.ConsoleDir, id), Append: "off"},
		Target: &libvirtxml.DomainSerialTarget{Port: &port},
	}
}

// agentName is the name of the channel of the QEMU guest agent.
const agentName = "org.qemu.guest_agent.0"

// agentChannel returns the channel of the QEMU guest agent; libvirt creates the socket. A guest
// without the agent sees an unused port.
func agentChannel() libvirtxml.DomainChannel {
	return libvirtxml.DomainChannel{
		Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{}},
		Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: agentName}},
	}
}

// vnc returns a screen on the address's first free port from 5900. The address is the host's
// loopback unless the system template sets another, because VNC has no password here.
func vnc(domain, bind string) (libvirtxml.DomainGraphic, error) {
	if bind == "" {
		bind = "127.0.0.1"
	}
	if _, err := netip.ParseAddr(bind); err != nil {
		return libvirtxml.DomainGraphic{}, seedbed.Errorf(seedbed.ErrInvalid,
			"domain %s: VNC cannot listen on %q: expected an IP address of the node", domain, bind)
	}
	return libvirtxml.DomainGraphic{VNC: &libvirtxml.DomainGraphicVNC{
		Port: -1, AutoPort: "yes", Listen: bind,
		Listeners: []libvirtxml.DomainGraphicListener{{Address: &libvirtxml.DomainGraphicListenerAddress{Address: bind}}},
	}}, nil
}
