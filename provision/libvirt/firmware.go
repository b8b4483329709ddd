package libvirt

import (
	"slices"

	"libvirt.org/go/libvirtxml"
)

// byUEFI parses a domain's document and reports whether UEFI boots it.
func byUEFI(doc string) (d libvirtxml.Domain, uefi bool) {
	if d.Unmarshal(doc) != nil || d.OS == nil || d.OS.Type == nil || d.Devices == nil {
		return d, false
	}
	return d, d.OS.Firmware == "efi"
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
