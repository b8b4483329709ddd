package image

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"

	"seedbed"
)

// Volume is a qcow2 file of our own. The QEMU of a guest can write to it, so nothing that it says of
// other files is believed.
type Volume struct {
	// Path is the file.
	Path string
	// Backing is the file of the image that it is a clone of, as a clean absolute path, or "".
	Backing string
}

// Header is what a qcow2 file's header says.
type Header struct {
	// Size is the virtual size of the disk.
	Size seedbed.Bytes
	// Backing is the name of the file that it reads from, or "", and Format that file's format, or "".
	Backing, Format string
	// Snapshots are the names of the snapshots in the file.
	Snapshots []string
}

// ReadHeader reads the header of the qcow2 file at path, without any program. It returns ErrInvalid,
// with a predicate of the file, if the file is not in qcow2 format, is encrypted or corrupt, or has
// its data in another file.
func ReadHeader(path string) (Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return Header{}, err
	}
	defer f.Close()
	return readHeader(f)
}

// Header reads the volume's header. It returns ErrConflict if the header names another file than the
// image's as its backing file. A clone need not name its image: it may have been flattened.
func (v Volume) Header() (Header, error) {
	h, err := ReadHeader(v.Path)
	if err != nil {
		if errors.Is(err, seedbed.ErrInvalid) {
			err = seedbed.Errorf(seedbed.ErrConflict, "the volume's file %s %v", v.Path, err)
		}
		return Header{}, err
	}
	return h, h.CheckBacking(v)
}

// CheckBacking returns ErrConflict if the header names another file than the volume's image.
func (h Header) CheckBacking(v Volume) error {
	backing := h.Backing
	if backing != "" && !filepath.IsAbs(backing) {
		backing = filepath.Join(filepath.Dir(v.Path), backing)
	}
	wanted := "no other file"
	if v.Backing != "" {
		wanted = v.Backing
	}
	switch {
	case backing != "" && (v.Backing == "" || filepath.Clean(backing) != v.Backing):
		return seedbed.Errorf(seedbed.ErrConflict, "%s says that it reads from %q, and not from %s: its guest may have changed that. Nothing "+
			"is done with the file until it is right (to remove the reference, qemu-img rebase -u -f qcow2 -b '' FILE)", v.Path,
			seedbed.Clip(h.Backing), wanted)
	case backing != "" && h.Format != "" && h.Format != string(QCOW2):
		return seedbed.Errorf(seedbed.ErrConflict, "%s says that its image %s is in the format %q: expected qcow2", v.Path, v.Backing,
			seedbed.Clip(h.Format))
	}
	return nil
}

// Limits of what a header may have, as in QEMU (block/qcow2.h), but for the snapshots, of which it
// allows 64 MiB.
const (
	maxBackingName   = 1023
	maxSnapshotBytes = 4 << 20
	maxClusterBits   = 21
	minClusterBits   = 9
)

// Extensions of the header (QEMU docs/interop/qcow2.txt).
const (
	extensionEnd    = 0
	extensionFormat = 0xe2792aca
	extensionData   = 0x44415441
)

// Further fields of the header, and of one snapshot in the table.
const (
	qcow2BackingSize     = 16
	qcow2ClusterBits     = 20
	qcow2Size            = 24
	qcow2SnapshotCount   = 60
	qcow2SnapshotsOffset = 64
	qcow2HeaderLength    = 100

	snapshotIDSize    = 12
	snapshotNameSize  = 14
	snapshotExtraSize = 36
	snapshotEntry     = 40
)

func readHeader(f io.ReaderAt) (Header, error) {
	head, err := io.ReadAll(io.NewSectionReader(f, 0, int64(HeadSize)))
	if err != nil {
		return Header{}, err
	}
	if !at(head, 0, "QFI\xfb") {
		return Header{}, invalid("is not in qcow2 format")
	}
	if err := checkQCOW2(head, true); err != nil {
		return Header{}, err
	}
	h := Header{Size: seedbed.Bytes(binary.BigEndian.Uint64(head[qcow2Size:]))}
	if h.Size < 0 || h.Size > MaxSize {
		return Header{}, seedbed.Errorf(seedbed.ErrInvalid, "is a disk of %d bytes: the largest that is accepted is %s", uint64(h.Size), MaxSize)
	}
	if err := h.backing(f, head); err != nil {
		return Header{}, err
	}
	return h, h.snapshots(f, head)
}

// backing reads the name of the backing file, and the extensions, of which one has its format.
func (h *Header) backing(f io.ReaderAt, head []byte) error {
	length := uint64(qcow2Header)
	if binary.BigEndian.Uint32(head[qcow2Version:]) > 2 {
		if len(head) < qcow2HeaderLength+4 {
			return invalid("is a qcow2 file that ends in its header")
		}
		length = uint64(binary.BigEndian.Uint32(head[qcow2HeaderLength:]))
	}
	bits := binary.BigEndian.Uint32(head[qcow2ClusterBits:])
	if bits < minClusterBits || bits > maxClusterBits || length > 1<<bits {
		return invalid("is a qcow2 file with a header that cannot be")
	}
	end := uint64(1) << bits // header, extensions and name share the first cluster
	if offset := binary.BigEndian.Uint64(head[qcow2BackingOffset:]); offset != 0 {
		size := uint64(binary.BigEndian.Uint32(head[qcow2BackingSize:]))
		if size == 0 || size > maxBackingName || offset > end || size > end-offset {
			return invalid("is a qcow2 file with a name of its backing file that cannot be")
		}
		name := make([]byte, size)
		if _, err := f.ReadAt(name, int64(offset)); err != nil {
			return invalid("is a qcow2 file that ends in its header")
		}
		h.Backing, end = string(name), offset
	}
	return h.extensions(f, length, end)
}

// extensions reads the extensions from at to end.
func (h *Header) extensions(f io.ReaderAt, at, end uint64) error {
	var head [8]byte
	for at+uint64(len(head)) <= end {
		if _, err := f.ReadAt(head[:], int64(at)); err != nil {
			return invalid("is a qcow2 file that ends in its header")
		}
		kind, size := binary.BigEndian.Uint32(head[:]), uint64(binary.BigEndian.Uint32(head[4:]))
		at += uint64(len(head))
		switch {
		case kind == extensionEnd:
			return nil
		case size > end-at:
			return invalid("is a qcow2 file with a header that cannot be")
		case kind == extensionData:
			return invalid("refers to another file (its external data file)")
		case kind == extensionFormat:
			format := make([]byte, min(size, maxBackingName))
			if _, err := f.ReadAt(format, int64(at)); err != nil {
				return invalid("is a qcow2 file that ends in its header")
			}
			h.Format = string(format)
		}
		at += (size + 7) &^ 7
	}
	return nil
}

// snapshots reads the names of the snapshots in the file.
func (h *Header) snapshots(f io.ReaderAt, head []byte) error {
	count, offset := binary.BigEndian.Uint32(head[qcow2SnapshotCount:]), binary.BigEndian.Uint64(head[qcow2SnapshotsOffset:])
	table := int64(0)
	for range count {
		var entry [snapshotEntry]byte
		if offset > 1<<62 {
			return invalid("has a table of snapshots that cannot be")
		}
		if _, err := f.ReadAt(entry[:], int64(offset)+table); err != nil {
			return invalid("is a qcow2 file that ends in its table of snapshots")
		}
		id := int64(binary.BigEndian.Uint16(entry[snapshotIDSize:]))
		name := make([]byte, binary.BigEndian.Uint16(entry[snapshotNameSize:]))
		extra := int64(binary.BigEndian.Uint32(entry[snapshotExtraSize:]))
		from := table + snapshotEntry + extra + id
		if table = (from + int64(len(name)) + 7) &^ 7; table > maxSnapshotBytes {
			return invalid("has more snapshots than are accepted")
		}
		if _, err := f.ReadAt(name, int64(offset)+from); err != nil {
			return invalid("is a qcow2 file that ends in its table of snapshots")
		}
		h.Snapshots = append(h.Snapshots, string(name))
	}
	return nil
}
