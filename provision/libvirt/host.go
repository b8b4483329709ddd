package libvirt

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"seedbed"
)

// The values of Config.DomainType. The last one is only for libvirt's in-memory test driver (URI
// test:///default), where auto chooses it.
const (
	TypeAuto = "auto"
	TypeKVM  = "kvm"
	TypeQEMU = "qemu"
	TypeTest = "test"
)

// kvmDevice is the kernel's interface to hardware virtualization.
const kvmDevice = "/dev/kvm"

// Host is what the domain XML needs to know of the node.
type Host struct {
	// DomainType is "kvm", "qemu" (software emulation) or "test".
	DomainType string
	// Arch is libvirt's name of the guest architecture, such as "x86_64".
	Arch string
	// Emulator is the absolute path of the QEMU binary; empty leaves it to libvirt.
	Emulator string
	// Machine is the machine type or its alias; empty leaves it to libvirt.
	Machine string
	// ConsoleDir is the absolute path of the directory of the console logs.
	ConsoleDir string
	// CDROMDir is the absolute path of the directory of the CD-ROMs with metadata.
	CDROMDir string
	// Uplinks are the interfaces of the node for uplinks of another name.
	Uplinks map[string]string
}

// Facts are the input to the choice of the domain type.
type Facts struct {
	// KVMDevice is why /dev/kvm cannot be opened for reading and writing, or nil.
	KVMDevice error
	// CPUFlags is true when /proc/cpuinfo shows vmx or svm.
	CPUFlags bool
	// Types are the domain types that libvirt's capabilities list.
	Types []string
}

// ReadFacts inspects this host; types come from libvirt's capabilities.
func ReadFacts(types []string) Facts {
	f := Facts{Types: types}
	dev, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	if err == nil {
		err = dev.Close()
	}
	f.KVMDevice = err
	if cpuinfo, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		f.CPUFlags = hasVirtFlags(string(cpuinfo))
	}
	return f
}

func hasVirtFlags(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		name, flags, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != "flags" {
			continue
		}
		have := strings.Fields(flags)
		return slices.Contains(have, "vmx") || slices.Contains(have, "svm")
	}
	return false
}

// systemdDir exists while systemd manages the host (sd_booted(3)).
const systemdDir = "/run/systemd/system"

// startHint returns how libvirt and its log daemon are started on this host.
func startHint(systemd string) string {
	if _, err := os.Stat(systemd); err != nil {
		return "start libvirt: virtlogd -d && libvirtd -d"
	}
	return "start libvirt: systemctl start libvirtd virtlogd"
}

// checkKVMDevice checks whether only root can open the device at path. libvirt 9 then finds KVM
// while it probes QEMU (as another user, but with CAP_DAC_OVERRIDE), but not when it validates the
// result (without it). So it probes QEMU again, for seconds, at every call: virQEMUCapsIsValid,
// "KVM was enabled when probing, but it is not available now". udev prevents that.
func checkKVMDevice(path string) seedbed.Check {
	c := seedbed.Check{Name: "kvm device", OK: true, Detail: path + " does not exist"}
	info, err := os.Stat(path)
	if err != nil {
		return c
	}
	c.Detail = fmt.Sprintf("%s has mode %04o", path, info.Mode().Perm())
	if info.Mode().Perm()&0o066 == 0 {
		c.OK = false
		c.Detail += ": QEMU's user cannot open it, and libvirt probes QEMU again at every call"
		c.Hint = "chgrp kvm " + path + " && chmod 0660 " + path + ", as udev would"
	}
	return c
}

// ChooseDomainType decides between KVM and software emulation. reason says why, for a person to
// read. A setting other than auto is obeyed if libvirt offers it; otherwise the error is
// seedbed.ErrUnavailable.
//
// auto requires more than a /dev/kvm that opens: under a paravirtual nested KVM (kvm_pvm) the
// device works and libvirt lists kvm, yet a stock kernel never boots. The CPU of such a host shows
// neither vmx nor svm.
func ChooseDomainType(setting string, f Facts) (choice, reason string, err error) {
	switch setting {
	case TypeAuto, "":
		return chooseAuto(f)
	case TypeKVM, TypeQEMU, TypeTest:
		if !slices.Contains(f.Types, setting) {
			return "", "", seedbed.Errorf(seedbed.ErrUnavailable,
				"libvirt.domain_type is %q, but libvirt here offers only %s: use auto, or install and enable what is missing",
				setting, listed(f.Types))
		}
		return setting, "set by libvirt.domain_type", nil
	}
	return "", "", checkDomainType(setting)
}

func chooseAuto(f Facts) (choice, reason string, err error) {
	against := againstKVM(f)
	switch {
	case against == "":
		return TypeKVM, "hardware virtualization: /dev/kvm opens and the CPU shows vmx or svm", nil
	case slices.Contains(f.Types, TypeQEMU):
		return TypeQEMU, "software emulation: " + against, nil
	case slices.Contains(f.Types, TypeTest):
		return TypeTest, "libvirt's test driver", nil
	}
	return "", "", seedbed.Errorf(seedbed.ErrUnavailable,
		"libvirt offers neither a usable kvm (%s) nor qemu, only %s: install qemu-system-x86 and restart libvirtd", against, listed(f.Types))
}

// againstKVM returns why KVM cannot be used, or "".
func againstKVM(f Facts) string {
	switch {
	case !slices.Contains(f.Types, TypeKVM):
		return "libvirt does not list kvm"
	case errors.Is(f.KVMDevice, os.ErrNotExist):
		return "/dev/kvm does not exist"
	case f.KVMDevice != nil:
		return f.KVMDevice.Error()
	case !f.CPUFlags:
		return "/dev/kvm exists, but the CPU shows neither vmx nor svm, so it may not boot stock guests (libvirt.domain_type: kvm overrides)"
	}
	return ""
}

func checkDomainType(setting string) error {
	switch setting {
	case TypeAuto, "", TypeKVM, TypeQEMU, TypeTest:
		return nil
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "libvirt.domain_type %q is unknown: expected auto, kvm or qemu", setting)
}

func listed(types []string) string {
	if len(types) == 0 {
		return "nothing"
	}
	return strings.Join(types, ", ")
}
