package libvirt

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// maxScripted bounds the document of a script, in bytes.
const maxScripted = 1 << 20

// scripted turns a script's document into one that can be defined.
type scripted struct {
	spec  seedbed.DomainSpec
	host  Host
	disks map[string]seedbed.Disk // by pool/name
	used  map[string]bool
	notes []string
}

// ScriptedXML returns the libvirt document of a domain that a script made. It fills in what the
// host decides, replaces names by what the instance has, and lists what it leaves out as notes. It
// returns ErrInvalid if the name, UUID, disks or NICs are not the instance's own, or if anything in
// the document reaches for the host.
//
// Only what is listed here gets through: libvirt has many elements, and most of the newer ones open
// something on the host.
func ScriptedXML(spec seedbed.DomainSpec, host Host) (doc string, notes []string, err error) {
	if err := checkSpec(spec); err != nil {
		return "", nil, err
	}
	s := &scripted{spec: spec, host: host, disks: map[string]seedbed.Disk{}, used: map[string]bool{}}
	if len(spec.Script.XML) > maxScripted {
		return "", nil, s.refuse("it has %d bytes: expected at most %d", len(spec.Script.XML), maxScripted)
	}
	if !spec.Script.Early {
		if len(spec.Script.Volumes) != len(spec.Disks) {
			return "", nil, s.refuse("%d volumes for %d disks", len(spec.Script.Volumes), len(spec.Disks))
		}
		for i, name := range spec.Script.Volumes {
			s.disks[name] = spec.Disks[i]
		}
	}
	var d libvirtxml.Domain
	if err := d.Unmarshal(spec.Script.XML); err != nil {
		return "", nil, s.refuse("it is not the XML of a libvirt domain: %v", err)
	}
	if err := s.complete(&d); err != nil {
		return "", nil, err
	}
	doc, err = d.Marshal()
	if err != nil {
		return "", nil, fmt.Errorf("write the XML of domain %s: %w", spec.Name, err)
	}
	s.noteLeftOut(spec.Script.XML, doc)
	return doc, s.notes, nil
}

func (s *scripted) refuse(format string, args ...any) error {
	return seedbed.Errorf(seedbed.ErrInvalid, "the domain that the script's create() has returned cannot be used: "+format, args...)
}

func (s *scripted) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// The elements that a script's document may have. complete says what replaces them.
var (
	domainFields = []string{"XMLName", "Type", "Name", "UUID", "Title", "Description", "Metadata", "Memory", "CurrentMemory", "MaximumMemory",
		"VCPU", "IOThreads", "SysInfo", "OS", "Features", "CPU", "Clock", "OnPoweroff", "OnReboot", "OnCrash", "PM", "Devices"}
	osFields     = []string{"Type", "Firmware", "BootDevices", "BootMenu", "BIOS", "SMBios"}
	deviceFields = []string{
		"Emulator", "Disks", "Controllers", "Interfaces", "Serials", "Consoles", "Channels", "Inputs", "Graphics", "Videos", "Hubs", "Watchdogs",
		"MemBalloon", "RNGs", "Panics",
	}
)

// only refuses a document in which other fields of the struct v are set than those listed.
func (s *scripted) only(in string, v any, fields []string) error {
	value := reflect.Indirect(reflect.ValueOf(v))
	for i := range value.NumField() {
		f := value.Type().Field(i)
		if slices.Contains(fields, f.Name) || value.Field(i).IsZero() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("xml"), ",")
		if name == "" || name == "-" {
			name = f.Name
		}
		return s.refuse("%s in <%s> is not for scripts", name, in)
	}
	return nil
}

// complete checks the document and turns it into the instance's.
func (s *scripted) complete(d *libvirtxml.Domain) error {
	if d.Name != s.spec.Name {
		return s.refuse("its name is %q: expected %q, the script's vm_name", seedbed.Clip(d.Name), s.spec.Name)
	}
	if !strings.EqualFold(d.UUID, string(s.spec.ID)) {
		return s.refuse("its uuid is %q: expected %s, the script's vm_uuid", seedbed.Clip(d.UUID), s.spec.ID)
	}
	if err := s.only("domain", d, domainFields); err != nil {
		return err
	}
	if d.Devices == nil {
		return s.refuse("it has no <devices>")
	}
	if err := s.only("devices", d.Devices, deviceFields); err != nil {
		return err
	}
	if d.OS != nil {
		if err := s.only("os", d.OS, osFields); err != nil {
			return err
		}
	}
	if err := s.values(d); err != nil {
		return err
	}
	devices, err := s.devices(d.Devices)
	if err != nil {
		return err
	}
	ours, err := s.frame(d)
	if err != nil {
		return err
	}
	if err := attach(devices, s.spec.Name, s.spec.Attached...); err != nil {
		return err
	}
	ours.Devices = devices
	*d = ours
	return nil
}

// frame returns the domain without its devices.
func (s *scripted) frame(d *libvirtxml.Domain) (libvirtxml.Domain, error) {
	tag, err := specTag(s.spec).marshal()
	if err != nil {
		return libvirtxml.Domain{}, err
	}
	memory := &libvirtxml.DomainMemory{Value: uint((s.spec.Memory + seedbed.KiB - 1) / seedbed.KiB), Unit: "KiB"}
	if d.VCPU != nil && d.VCPU.Value != uint(s.spec.VCPUs) {
		s.note("the script's domain has %d vCPUs: it gets %d, according to its profile", d.VCPU.Value, s.spec.VCPUs)
	}
	ours := libvirtxml.Domain{
		Type: s.host.DomainType, Name: s.spec.Name, UUID: string(s.spec.ID), Title: d.Title, Description: d.Description,
		Metadata: &libvirtxml.DomainMetadata{XML: tag}, Memory: memory,
		VCPU: &libvirtxml.DomainVCPU{Placement: "static", Value: uint(s.spec.VCPUs)}, IOThreads: d.IOThreads,
		OS: &libvirtxml.DomainOS{
			Type:   &libvirtxml.DomainOSType{Arch: s.host.Arch, Machine: s.host.Machine, Type: "hvm"},
			SMBios: &libvirtxml.DomainSMBios{Mode: "sysinfo"},
		},
		SysInfo:  []libvirtxml.DomainSysInfo{{SMBIOS: smbios(s.spec.ID, s.spec.Datasource, false)}},
		Features: features(d.Features), CPU: d.CPU, Clock: d.Clock,
		OnPoweroff: d.OnPoweroff, OnReboot: d.OnReboot, OnCrash: d.OnCrash, PM: d.PM,
	}
	if d.OS != nil {
		ours.OS.Firmware, ours.OS.BootDevices, ours.OS.BootMenu, ours.OS.BIOS = d.OS.Firmware, d.OS.BootDevices, d.OS.BootMenu, d.OS.BIOS
	}
	// A model of the host's CPU only suits guests that run on it.
	if ours.CPU == nil || s.host.DomainType != TypeKVM {
		ours.CPU = cpu(s.host.DomainType, s.spec.VCPUs)
	}
	if s.host.DomainType == TypeTest {
		ours.Clock = clock(TypeTest)
	}
	return ours, nil
}

// features keeps the features that have no effect on the host.
func features(f *libvirtxml.DomainFeatureList) *libvirtxml.DomainFeatureList {
	if f == nil {
		return &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}}
	}
	return &libvirtxml.DomainFeatureList{PAE: f.PAE, ACPI: f.ACPI, APIC: f.APIC, HyperV: f.HyperV, KVM: f.KVM, VMPort: f.VMPort, SMM: f.SMM}
}
