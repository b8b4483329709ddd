// Package image identifies disk images, refuses unusable ones, and creates and converts qcow2 files
// with qemu-img. Images are untrusted: this package finds the format from the file's own signature
// and passes it to qemu-img explicitly, so that qemu-img neither probes the format nor opens other
// files.
package image

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"seedbed"
)

// Format is a disk image format, by its name in QEMU.
type Format string

// The formats that can be imported.
const (
	QCOW2 Format = "qcow2"
	Raw   Format = "raw"
	VMDK  Format = "vmdk" // one sparse or stream-optimized file
	VDI   Format = "vdi"
	ISO   Format = "iso" // a raw disk with an ISO 9660 file system: installers, live systems
)

// driver is QEMU's name for the format.
func (f Format) driver() Format {
	if f == ISO {
		return Raw
	}
	return f
}

// HeadSize is how much of a file's beginning Sniff needs: past the ISO 9660 volume descriptor at 32
// KiB.
const HeadSize = 64 * seedbed.KiB

// MaxSize is the largest virtual size that is accepted.
const MaxSize = seedbed.MaxDisk

const wanted = "expected a disk image in qcow2, raw, vmdk or vdi format, an ISO, or an OVA"

// others are signatures of unusable files, with a message for the user.
var others = []struct {
	at        int
	signature string
	what      string
}{
	{0, "\x1f\x8b", "is a gzip file: uncompress it first"},
	{0, "\xfd7zXZ\x00", "is an xz file: uncompress it first"},
	{0, "\x28\xb5\x2f\xfd", "is a zstd file: uncompress it first"},
	{0, "BZh", "is a bzip2 file: uncompress it first"},
	{0, "PK\x03\x04", "is a zip file: unpack it first"},
	{0, "7z\xbc\xaf\x27\x1c", "is a 7-Zip file: unpack it first"},
	{257, "ustar", "is a tar archive: unpack the disk from it first"},
	{0, "LUKS\xba\xbe", "is encrypted (LUKS): " + wanted + " that is not"},
	{0, "COWD", "is a VMware COW disk: " + wanted},
	{0, "vhdxfile", "is in vhdx format: " + wanted},
	{0, "conectix", "is in vpc (VHD) format: " + wanted},
	{0, "# Disk DescriptorFile", "is a VMDK descriptor that refers to other files: expected one vmdk file with its data inside"},
	{0, "\x7fELF", "is a program (ELF): " + wanted},
	{0, "!<arch>\n", "is a Debian package or ar archive: " + wanted},
	{0, "<!DOCTYPE", "is an HTML page, perhaps of a failed download: " + wanted},
	{0, "<html", "is an HTML page, perhaps of a failed download: " + wanted},
}

// Sniff identifies the format from the first HeadSize bytes of a file (all bytes of a shorter one)
// and the file's size. It returns ErrInvalid if the file is not an image, refers to another file,
// or is encrypted. The message is a predicate: what the file is, and what would be right. Layouts:
// QEMU docs/interop/qcow2.txt, VMware's Virtual Disk Format 1.1, UEFI 2.10 5.3, ECMA-119 8.1.
func Sniff(head []byte, size seedbed.Bytes) (Format, error) {
	format, err := sniff(head, size)
	if err == nil && format == "" {
		err = invalid("is not a disk image that can boot: it has no boot signature, partition table or ISO 9660 file system; " + wanted)
	}
	return format, err
}

// SniffDisk is Sniff for a disk that need not boot, in qcow2 or raw format. want is the one that it must have; empty means either.
// Only if that is raw, a file without any signature is a raw disk, such as one that a file system fills.
func SniffDisk(head []byte, size seedbed.Bytes, want string) (Format, error) {
	format, err := sniff(head, size)
	switch {
	case err != nil:
		return "", err
	case format == "" && want != string(Raw):
		return "", invalid("is not in qcow2 format, and has no boot signature or partition table: if it is a raw disk, give its format (raw)")
	case format == "", format == ISO:
		format = Raw
	case format != QCOW2 && format != Raw:
		return "", seedbed.Errorf(seedbed.ErrInvalid, "is in %s format: expected qcow2 or raw", format)
	}
	if want != "" && want != string(format) {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "is in %s format, but %s was requested", format, seedbed.Clip(want))
	}
	return format, nil
}

// sniff is Sniff, but returns no format for a file that has no signature that it knows.
func sniff(head []byte, size seedbed.Bytes) (Format, error) {
	switch {
	case len(head) == 0:
		return "", invalid("is empty: " + wanted)
	case at(head, 0, "QFI\xfb"):
		return QCOW2, checkQCOW2(head, false)
	case at(head, 0, "KDMV"):
		return VMDK, checkVMDK(head)
	case at(head, 64, "\x7f\x10\xda\xbe"):
		return VDI, checkVDI(head, size)
	}
	for _, o := range others {
		if at(head, o.at, o.signature) {
			return "", invalid(o.what)
		}
	}
	switch {
	case at(head, 32769, "CD001"): // first, because many have a boot sector as well
		return ISO, nil
	case at(head, 510, "\x55\xaa"), at(head, 512, "EFI PART"), at(head, 4096, "EFI PART"):
		return Raw, nil
	case text(head):
		return "", invalid("is a text file: " + wanted)
	}
	return "", nil
}

// isTar reports whether a file begins like a tar archive (POSIX ustar, which PAX and GNU share).
func isTar(head []byte) bool { return at(head, 257, "ustar") }

func invalid(predicate string) error { return seedbed.Errorf(seedbed.ErrInvalid, "%s", predicate) }

func at(head []byte, offset int, signature string) bool {
	return len(head) >= offset && bytes.HasPrefix(head[offset:], []byte(signature))
}

// Fields of the qcow2 header, big-endian.
const (
	qcow2Header        = 72 // version 2; in version 3 the feature bits follow
	qcow2Version       = 4
	qcow2BackingOffset = 8
	qcow2CryptMethod   = 32
	qcow2Incompatible  = 72
	qcow2Corrupt       = 1 << 1
	qcow2DataFile      = 1 << 2
)

// checkQCOW2 refuses a header that QEMU cannot read by itself. Only a volume may name a backing
// file, which its caller compares with the volume's image.
func checkQCOW2(head []byte, volume bool) error {
	if len(head) < qcow2Header {
		return invalid("is a qcow2 file that ends in its header")
	}
	version := binary.BigEndian.Uint32(head[qcow2Version:])
	if version != 2 && version != 3 {
		return seedbed.Errorf(seedbed.ErrInvalid, "is a qcow file of version %d: expected 2 or 3", version)
	}
	if !volume && binary.BigEndian.Uint64(head[qcow2BackingOffset:]) != 0 {
		return invalid("refers to another file (its backing file): flatten it first, with qemu-img convert -O qcow2")
	}
	if binary.BigEndian.Uint32(head[qcow2CryptMethod:]) != 0 {
		return invalid("is encrypted: the image must not be")
	}
	if version == 2 {
		return nil
	}
	if len(head) < qcow2Incompatible+8 {
		return invalid("is a qcow2 file that ends in its header")
	}
	features := binary.BigEndian.Uint64(head[qcow2Incompatible:])
	if features&qcow2DataFile != 0 {
		return invalid("refers to another file (its external data file): flatten it first, with qemu-img convert -O qcow2")
	}
	if features&qcow2Corrupt != 0 {
		return invalid("is marked corrupt: repair it first, with qemu-img check -r all")
	}
	return nil
}

// vmdkCapacity is the little-endian size in sectors. If it is zero, QEMU takes the file for a
// descriptor and opens the extents that it names.
const vmdkCapacity = 12

func checkVMDK(head []byte) error {
	if len(head) < 512 {
		return invalid("is a vmdk file that ends in its header")
	}
	if binary.LittleEndian.Uint64(head[vmdkCapacity:]) == 0 {
		return invalid("is a VMDK descriptor that refers to other files: expected one vmdk file with its data inside")
	}
	return nil
}

// Fields of the VDI header, little-endian (QEMU block/vdi.c).
const (
	vdiHeader    = 512
	vdiData      = 0x158
	vdiBlockSize = 0x178
	vdiAllocated = 0x184
)

// checkVDI refuses a truncated file, which qemu-img does not notice.
func checkVDI(head []byte, size seedbed.Bytes) error {
	if len(head) < vdiHeader {
		return invalid("is a vdi file that ends in its header")
	}
	field := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(head[at:])) }
	blocks := field(vdiBlockSize) * field(vdiAllocated) // of 32 bits each: no overflow
	if uint64(size) < blocks || uint64(size)-blocks < field(vdiData) {
		return invalid("is truncated: its blocks do not fit into the file")
	}
	return nil
}

// text reports whether the first 512 bytes are UTF-8 without control characters other than white
// space.
func text(head []byte) bool {
	if len(head) > 512 {
		head = head[:512]
	}
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		switch {
		case r == utf8.RuneError && len(head) >= utf8.UTFMax:
			return false
		case r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f', r == 0x7f:
			return false
		}
		head = head[n:]
	}
	return true
}
