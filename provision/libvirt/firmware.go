package libvirt

import (
	"slices"

	"libvirt.org/go/libvirtxml"
)

// byUEFI reads from a domain's document by what it runs, and whether UEFI starts it.
func byUEFI(doc string) (d libvirtxml.Domain, uefi bool) {
	if d.Unmarshal(doc) != nil || d.OS == nil || d.OS.Type == nil || d.Devices == nil {
		return d, false
	}
	return d, d.OS.Firmware == "efi"
}

// offersUEFI reads whether libvirt knows firmware for UEFI from a document of its
// domain capabilities (https://libvirt.org/formatdomaincaps.html).
func offersUEFI(doc string) bool {
	var caps libvirtxml.DomainCaps
	if caps.Unmarshal(doc) != nil || caps.OS == nil {
		return true // then nothing speaks against it
	}
	return slices.ContainsFunc(caps.OS.Enums, func(e libvirtxml.DomainCapsEnum) bool {
		return e.Name == "firmware" && slices.Contains(e.Values, "efi")
	})
}
