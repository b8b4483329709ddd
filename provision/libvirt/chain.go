package libvirt

import (
	"libvirt.org/go/libvirtxml"

	"seedbed/provision/image"
)

// Volumes finds the volume of a pool whose file is at path. ok is false for other files.
type Volumes func(path string) (file image.Volume, ok bool, err error)

// Chained returns a domain's document in which each volume that is a file says what it reads from,
// as its pool knows it. changed is false if the document says that already; those of earlier releases
// do not. It returns ErrConflict if the header of a volume names another file: libvirt would no
// longer open that, but the guest might miss data, so the domain must not start.
func Chained(doc string, volumes Volumes) (chained string, changed bool, err error) {
	return changedXML(doc, func(d *libvirtxml.Domain) (changed bool, err error) {
		for _, disk := range dataDisks(d) {
			if disk.Source == nil || disk.Source.File == nil || disk.Driver == nil || disk.Driver.Type != string(image.QCOW2) {
				continue
			}
			file, ok, err := volumes(disk.Source.File.File)
			if err != nil {
				return false, err
			}
			if !ok {
				continue
			}
			h, err := file.Header()
			if err != nil {
				return false, err
			}
			from := ""
			if h.Backing != "" { // else it is flattened
				from = file.Backing
			}
			if disk.BackingStore == nil || backingFile(disk.BackingStore) != from {
				disk.BackingStore, changed = backing(from), true
			}
		}
		return changed, nil
	})
}

// backingFile returns the file that a disk's definition says it reads from, or "".
func backingFile(b *libvirtxml.DomainDiskBackingStore) string {
	if b.Source == nil || b.Source.File == nil {
		return ""
	}
	return b.Source.File.File
}
