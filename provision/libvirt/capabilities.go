package libvirt

import (
	"fmt"
	"runtime"
	"slices"

	"libvirt.org/go/libvirtxml"
)

// machineAliases are the machine types in order of preference. Both boot a Debian guest equally
// fast under software emulation. pc is libvirt's own default, and does not need a PCI bridge for
// each device. libvirt replaces an alias by the versioned type when it defines the domain, so a
// domain keeps its machine type across upgrades of QEMU.
var machineAliases = []string{"pc", "q35"}

// Offer is the part of libvirt's capabilities that concerns us: one guest
// architecture, fully virtualized.
type Offer struct {
	Arch     string
	Emulator string
	// Machine is the preferred machine type; empty if none is known.
	Machine string
	// Types are the domain types, such as qemu and kvm.
	Types []string
}

// ParseCapabilities reads the document that virConnectGetCapabilities returns
// (https://libvirt.org/formatcaps.html) and selects this machine's own architecture, or i686 for
// libvirt's test driver, which has no other.
func ParseCapabilities(doc string) (Offer, error) {
	var caps libvirtxml.Caps
	if err := caps.Unmarshal(doc); err != nil {
		return Offer{}, fmt.Errorf("read libvirt's capabilities: %w", err)
	}
	var offer Offer
	for _, guest := range caps.Guests {
		if guest.OSType != "hvm" || offer.Arch == nativeArch() {
			continue
		}
		o := newOffer(guest.Arch)
		if o.Arch == nativeArch() || slices.Contains(o.Types, TypeTest) {
			offer = o
		}
	}
	if offer.Arch == "" {
		return Offer{}, fmt.Errorf("libvirt's capabilities have no hvm guest of architecture %s", nativeArch())
	}
	return offer, nil
}

func newOffer(arch libvirtxml.CapsGuestArch) Offer {
	o := Offer{Arch: arch.Name, Emulator: arch.Emulator}
	machines := arch.Machines
	for _, d := range arch.Domains {
		o.Types = append(o.Types, d.Type)
		machines = append(machines, d.Machines...)
	}
	if slices.Equal(o.Types, []string{TypeTest}) {
		o.Emulator = ""
	}
	for _, alias := range machineAliases {
		if slices.ContainsFunc(machines, func(m libvirtxml.CapsGuestMachine) bool { return m.Name == alias }) {
			o.Machine = alias
			break
		}
	}
	return o
}

// nativeArch is libvirt's name of the architecture this program runs on.
func nativeArch() string {
	if runtime.GOARCH == "amd64" {
		return "x86_64"
	}
	return runtime.GOARCH
}
