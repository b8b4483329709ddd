package image

import (
	"context"
	"strconv"
	"strings"

	"seedbed"
)

// Resource types of CIM_ResourceAllocationSettingData that matter here. All others are hardware
// that the machine gets anyway or does without.
const (
	resourceCPU     = "3"
	resourceMemory  = "4"
	resourceDisk    = "17"
	resourceLogical = "31" // a logical disk, in OVF 2
	resourceScreen  = "24"
)

// Defaults for what an appliance does not specify.
const (
	defaultVCPUs  = 1
	defaultMemory = 1 * seedbed.GiB
	leastMemory   = 64 * seedbed.MiB
)

// ParseOVF reads a descriptor of OVF 1.x or 2.x (DMTF DSP0243): the first virtual system, with its
// disks in the order of its hardware. It does not know the sizes of their files. ErrInvalid has a
// predicate of the OVA that says what is wrong and what would be right.
func ParseOVF(ctx context.Context, text []byte) (seedbed.Appliance, error) {
	root, err := parseXML(ctx, text)
	if err != nil {
		return seedbed.Appliance{}, err
	}
	if !root.ovf("Envelope") {
		return seedbed.Appliance{}, seedbed.Errorf(seedbed.ErrInvalid,
			"has a descriptor that is %q of %q: expected an Envelope of OVF 1 or 2 (%s)",
			seedbed.Clip(root.name.Local), seedbed.Clip(root.name.Space), strings.Join(envelopes, ", "))
	}
	system := root.find("VirtualSystem")
	if system == nil {
		return seedbed.Appliance{}, invalid("has a descriptor without a VirtualSystem")
	}
	hardware := system.find("VirtualHardwareSection")
	if hardware == nil {
		return seedbed.Appliance{}, invalid("has a descriptor without a VirtualHardwareSection")
	}
	a := seedbed.Appliance{VCPUs: defaultVCPUs, Memory: defaultMemory, Firmware: firmware(system)}
	var disks []*element
	for _, item := range hardware.inner {
		if !item.ovf("Item") && !item.ovf("StorageItem") {
			continue
		}
		switch item.setting("ResourceType") {
		case resourceCPU:
			a.VCPUs, err = vcpus(item)
		case resourceMemory:
			a.Memory, err = memory(item)
		case resourceScreen:
			a.Screen = true
		case resourceDisk, resourceLogical:
			disks = append(disks, item)
		}
		if err != nil {
			return seedbed.Appliance{}, err
		}
	}
	a.Disks, err = disksOf(root, disks)
	return a, err
}

func vcpus(item *element) (int, error) {
	s := item.setting("VirtualQuantity")
	n, err := strconv.Atoi(s)
	if err != nil || seedbed.CheckVCPUs(n) != nil {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "has %q processors: expected 1 to %d", seedbed.Clip(s), seedbed.MaxVCPUs)
	}
	return n, nil
}

// memory returns the memory of an item, in MiB unless the item has units, rounded up to an allowed
// size.
func memory(item *element) (seedbed.Bytes, error) {
	size, err := amount(item.setting("VirtualQuantity"), item.setting("AllocationUnits"), "byte * 2^20")
	if err != nil {
		return 0, err
	}
	size = max(size, leastMemory)
	if rest := size % seedbed.MiB; rest != 0 {
		size += seedbed.MiB - rest
	}
	if err := seedbed.CheckMemory(size); err != nil {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "has a memory size that cannot be used: %v", err)
	}
	return size, nil
}

// firmware returns the firmware that VMware's and VirtualBox's own elements name, or "".
func firmware(system *element) seedbed.Firmware {
	value := ""
	var look func(*element)
	look = func(e *element) {
		switch {
		case e.name.Local == "Config" && e.any("key") == "firmware":
			value = e.any("value")
		case e.name.Local == "Firmware" && e.any("type") != "":
			value = e.any("type")
		}
		for _, c := range e.inner {
			look(c)
		}
	}
	look(system)
	switch value = strings.ToLower(value); {
	case strings.HasPrefix(value, "efi"), strings.HasPrefix(value, "uefi"):
		return seedbed.FirmwareUEFI
	case value == "bios":
		return seedbed.FirmwareBIOS
	}
	return ""
}

// disksOf finds the file of each disk of the hardware.
func disksOf(root *element, items []*element) ([]seedbed.ApplianceDisk, error) {
	if len(items) == 0 {
		return nil, invalid("describes a machine without disks")
	}
	if len(items) > seedbed.MaxOVADisks {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "describes a machine with %d disks: expected at most %d", len(items), seedbed.MaxOVADisks)
	}
	section, files := root.find("DiskSection"), root.find("References")
	var found []seedbed.ApplianceDisk
	seen := map[string]bool{}
	for _, item := range items {
		resource := item.setting("HostResource")
		kind, id := resourceOf(resource)
		d := seedbed.ApplianceDisk{}
		if kind == "disk" {
			e := byID(section, "Disk", "diskId", id)
			if e == nil {
				return nil, seedbed.Errorf(seedbed.ErrInvalid, "has a disk %q that its DiskSection does not describe", seedbed.Clip(resource))
			}
			if e.attr("parentRef") != "" {
				return nil, seedbed.Errorf(seedbed.ErrInvalid, "has the disk %q as the difference to another: export it as a whole", seedbed.Clip(id))
			}
			var err error
			if d.Capacity, err = capacity(root, e); err != nil {
				return nil, err
			}
			if kind, id = "file", e.attr("fileRef"); id == "" {
				return nil, seedbed.Errorf(seedbed.ErrInvalid,
					"has a disk %q without a file: remove blank disks from it, and add them with a storage template", seedbed.Clip(resource))
			}
		}
		if kind != "file" {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "has a disk whose HostResource is %q: expected ovf:/disk/ID or ovf:/file/ID",
				seedbed.Clip(resource))
		}
		file := byID(files, "File", "id", id)
		if file == nil {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "has a disk in the file %q, which its References do not name", seedbed.Clip(id))
		}
		if c := file.attr("compression"); c != "" && c != "identity" {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "has the disk %q in a file with %s compression: it must not be compressed",
				seedbed.Clip(id),
				seedbed.Clip(c))
		}
		if file.attr("chunkSize") != "" {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "has the disk %q in several files: expected one", seedbed.Clip(id))
		}
		if d.File = file.attr("href"); checkMember(d.File) != nil {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "has a disk in %q: expected the name of a file inside it", seedbed.Clip(d.File))
		}
		if seen[d.File] {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "has two disks in the one file %q", seedbed.Clip(d.File))
		}
		seen[d.File] = true
		found = append(found, d)
	}
	return found, nil
}

// resourceOf splits "ovf:/disk/ID". Some writers leave out the scheme.
func resourceOf(s string) (kind, id string) {
	parts := strings.Split(strings.TrimLeft(strings.TrimPrefix(s, "ovf:"), "/"), "/")
	if len(parts) != 2 {
		return "", ""
	}
	return parts[0], parts[1]
}

func byID(section *element, name, attr, id string) *element {
	if section == nil || id == "" {
		return nil
	}
	for _, e := range section.all(name) {
		if e.attr(attr) == id {
			return e
		}
	}
	return nil
}

// capacity returns a disk's size, which may refer to a property of the envelope ("${size}").
func capacity(root, disk *element) (seedbed.Bytes, error) {
	quantity := disk.attr("capacity")
	if key, ok := strings.CutPrefix(quantity, "${"); ok {
		quantity = property(root, strings.TrimSuffix(key, "}"))
	}
	size, err := amount(quantity, disk.attr("capacityAllocationUnits"), "byte")
	if err != nil {
		return 0, err
	}
	if size > MaxSize {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "has a disk of %s: the largest that is accepted is %s", size, MaxSize)
	}
	return size, nil
}

// property returns the value of a property of the envelope, or "".
func property(e *element, key string) string {
	if e.ovf("Property") && e.attr("key") == key {
		return e.attr("value")
	}
	for _, c := range e.inner {
		if v := property(c, key); v != "" {
			return v
		}
	}
	return ""
}
