package libvirt

import (
	"fmt"

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
