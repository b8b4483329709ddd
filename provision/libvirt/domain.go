package libvirt

import (
	"fmt"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// DomainXML returns the libvirt document of a domain (https://libvirt.org/formatdomain.html). The
// SMBIOS values announce the spec's datasource. The error is seedbed.ErrInvalid for a spec that no
// host can run.
func DomainXML(spec seedbed.DomainSpec, host Host) (string, error) {
	if spec.Firmware == seedbed.FirmwareSecure {
		host.Machine = secureMachine
	}
	if err := checkSpec(spec); err != nil {
		return "", err
	}
	tag, err := specTag(spec).marshal()
	if err != nil {
		return "", err
	}
	devices, err := deviceList(spec, host)
	if err != nil {
		return "", err
	}
	d := libvirtxml.Domain{
		Type:     host.DomainType,
		Name:     spec.Name,
		UUID:     string(spec.ID),
		Metadata: &libvirtxml.DomainMetadata{XML: tag},
		Memory:   &libvirtxml.DomainMemory{Value: uint((spec.Memory + seedbed.KiB - 1) / seedbed.KiB), Unit: "KiB"},
		VCPU:     &libvirtxml.DomainVCPU{Placement: "static", Value: uint(spec.VCPUs)},
		OS: &libvirtxml.DomainOS{
			Type:   &libvirtxml.DomainOSType{Arch: host.Arch, Machine: host.Machine, Type: "hvm"},
			SMBios: &libvirtxml.DomainSMBios{Mode: "sysinfo"},
		},
		SysInfo: []libvirtxml.DomainSysInfo{{SMBIOS: smbios(spec.ID, spec.Datasource, spec.CDROM)}},
		Features: &libvirtxml.DomainFeatureList{
			ACPI:   &libvirtxml.DomainFeature{},
			APIC:   &libvirtxml.DomainFeatureAPIC{},
			VMPort: &libvirtxml.DomainFeatureState{State: "off"},
		},
		CPU:        cpu(host.DomainType, spec.VCPUs),
		Clock:      clock(host.DomainType),
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "destroy",
		PM: &libvirtxml.DomainPM{
			SuspendToMem:  &libvirtxml.DomainPMPolicy{Enabled: "no"},
			SuspendToDisk: &libvirtxml.DomainPMPolicy{Enabled: "no"},
		},
		Devices: devices,
	}
	setFirmware(&d, spec.Firmware)
	doc, err := d.Marshal()
	if err != nil {
		return "", fmt.Errorf("write the XML of domain %s: %w", spec.Name, err)
	}
	return doc, nil
}

// secureMachine is the machine type of domains with secure boot, whose firmware needs the system management mode.
const secureMachine = "q35"

// setFirmware gives a domain UEFI. libvirt chooses the image by the descriptors of its package (/usr/share/qemu/firmware), and keeps
// the domain's variables. For secure boot it is one with Microsoft's keys that protects its variables from the guest.
func setFirmware(d *libvirtxml.Domain, f seedbed.Firmware) {
	switch f {
	case seedbed.FirmwareUEFI:
		d.OS.Firmware = "efi"
	case seedbed.FirmwareSecure:
		d.OS.Firmware = "efi"
		d.OS.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{
			{Enabled: "yes", Name: "enrolled-keys"}, {Enabled: "yes", Name: "secure-boot"}}}
		d.OS.Loader = &libvirtxml.DomainLoader{Secure: "yes"}
		d.Features.SMM = &libvirtxml.DomainFeatureSMM{State: "on"}
	}
}

func checkSpec(spec seedbed.DomainSpec) error {
	if _, err := seedbed.ParseInstanceID(string(spec.ID)); err != nil {
		return err
	}
	if err := seedbed.CheckFullName(spec.Name); err != nil {
		return err
	}
	if spec.VCPUs < 1 || spec.VCPUs > seedbed.MaxVCPUs {
		return seedbed.Errorf(seedbed.ErrInvalid, "domain %s: %d vcpus: expected 1 to %d", spec.Name, spec.VCPUs, seedbed.MaxVCPUs)
	}
	if spec.Memory < seedbed.MiB {
		return seedbed.Errorf(seedbed.ErrInvalid, "domain %s: %s of memory: expected at least 1MiB", spec.Name, spec.Memory)
	}
	if _, err := seedbed.ParseDatasource(string(spec.Datasource)); err != nil {
		return err
	}
	if spec.CDROM && spec.Datasource != seedbed.DatasourceNoCloud {
		return seedbed.Errorf(seedbed.ErrInvalid, "domain %s: its metadata is on a CD-ROM, and the datasource is %q: expected nocloud", spec.Name,
			spec.Datasource)
	}
	if _, err := seedbed.ParseFirmware(string(spec.Firmware)); err != nil {
		return err
	}
	if strings.ContainsFunc(spec.Profile+string(spec.Job), func(r rune) bool { return r < ' ' || r == '\uFFFD' }) {
		return seedbed.Errorf(seedbed.ErrInvalid, "domain %s: profile or job has characters that XML cannot carry", spec.Name)
	}
	return nil
}

// cpu gives a KVM guest the host's model with all features that live migration supports, and an
// emulated guest everything that QEMU emulates ("-cpu max"; libvirt selects it by mode, not by
// name), except cmpxchg16b: under QEMU 7.2 the kernel of Debian 13 faults in its memory allocator
// right after that instruction. The cores share one socket, because guests are licensed and limited
// by socket.
func cpu(domainType string, vcpus int) *libvirtxml.DomainCPU {
	topology := &libvirtxml.DomainCPUTopology{Sockets: 1, Dies: 1, Cores: vcpus, Threads: 1}
	switch domainType {
	case TypeKVM:
		return &libvirtxml.DomainCPU{Mode: "host-model", Check: "partial", Topology: topology}
	case TypeQEMU:
		return &libvirtxml.DomainCPU{Mode: "maximum", Check: "none", Topology: topology,
			Features: []libvirtxml.DomainCPUFeature{{Policy: "disable", Name: "cx16"}}}
	}
	return &libvirtxml.DomainCPU{Topology: topology}
}

// clock follows virt-install and nova: lost ticks are caught up, and the HPET, which costs exits
// and adds nothing, is disabled.
func clock(domainType string) *libvirtxml.DomainClock {
	c := &libvirtxml.DomainClock{Offset: "utc"}
	if domainType == TypeTest {
		return c
	}
	c.Timer = []libvirtxml.DomainTimer{
		{Name: "rtc", TickPolicy: "catchup"},
		{Name: "pit", TickPolicy: "delay"},
		{Name: "hpet", Present: "no"},
	}
	return c
}

// byUEFI parses a domain's document and reports whether UEFI boots it.
func byUEFI(doc string) (d libvirtxml.Domain, uefi bool) {
	if d.Unmarshal(doc) != nil || d.OS == nil || d.OS.Type == nil || d.Devices == nil {
		return d, false
	}
	return d, d.OS.Firmware == "efi"
}

// withTPM reports whether a domain has a TPM. Of a document that cannot be parsed, d is the zero value.
func withTPM(d libvirtxml.Domain) bool {
	return d.OS != nil && d.OS.Type != nil && d.Devices != nil && len(d.Devices.TPMs) > 0
}

// offersTPM reports whether libvirt can emulate a TPM, according to a document of its domain capabilities.
func offersTPM(doc string) bool {
	var caps libvirtxml.DomainCaps
	if caps.Unmarshal(doc) != nil || caps.Devices == nil || caps.Devices.TPM == nil {
		return true // unknown: assume that it can
	}
	return slices.ContainsFunc(caps.Devices.TPM.Enums, func(e libvirtxml.DomainCapsEnum) bool {
		return e.Name == "backendModel" && slices.Contains(e.Values, "emulator")
	})
}

// offersUEFI reports whether libvirt has UEFI firmware, according to a document of its domain
// capabilities (https://libvirt.org/formatdomaincaps.html).
func offersUEFI(doc string) bool {
	var caps libvirtxml.DomainCaps
	if caps.Unmarshal(doc) != nil || caps.OS == nil {
		return true // unknown: assume that it has
	}
	return slices.ContainsFunc(caps.OS.Enums, func(e libvirtxml.DomainCapsEnum) bool {
		return e.Name == "firmware" && slices.Contains(e.Values, "efi")
	})
}
