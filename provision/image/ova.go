package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"seedbed"
)

// Archive is an OVA: a tar archive whose first file is an OVF descriptor.
type Archive struct {
	seedbed.Appliance
	members  map[string]member
	manifest map[string]digest // nil without a manifest
}

// member is the place of a file in the archive.
type member struct{ at, size seedbed.Bytes }

// maxMembers is more files than any appliance has.
const maxMembers = 200

// ReadOVA reads the directory, the descriptor and the manifest of an OVA of that size, but not the
// disks. It returns ErrInvalid, with a predicate of the file, for a file that is not a usable OVA:
// one with names other than plain file names, two files of one name, entries that are not files, or
// files that are truncated or do not match the manifest.
func ReadOVA(ctx context.Context, file io.ReaderAt, size seedbed.Bytes) (*Archive, error) {
	a := &Archive{members: map[string]member{}}
	section := io.NewSectionReader(file, 0, int64(size))
	archive := tar.NewReader(section)
	var descriptor, list []byte
	first, descriptorName := true, ""
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "is a tar archive that is damaged or truncated: %s", seedbed.Clip(err.Error()))
		}
		name, err := a.admit(h, section, size)
		if err != nil {
			return nil, err
		}
		suffix := strings.ToLower(path.Ext(name))
		switch {
		case first && suffix != ".ovf":
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "is a tar archive but not an OVA: its first file is %q instead of an .ovf descriptor",
				seedbed.Clip(name))
		case !first && suffix == ".ovf":
			return nil, invalid("has two OVF descriptors")
		case first:
			descriptorName = name
			descriptor, err = small(archive, h.Size, maxOVF, "an OVF descriptor")
		case suffix == ".mf" && list != nil:
			return nil, invalid("has two manifests")
		case suffix == ".mf":
			list, err = small(archive, h.Size, maxManifest, "a manifest")
		}
		if err != nil {
			return nil, err
		}
		first = false
	}
	if first {
		return nil, invalid("is an empty tar archive")
	}
	if err := a.trust(list, descriptorName, descriptor); err != nil {
		return nil, err
	}
	return a, a.describe(ctx, descriptor)
}

// admit checks the header of a file and records its place.
func (a *Archive) admit(h *tar.Header, section *io.SectionReader, size seedbed.Bytes) (name string, err error) {
	name = strings.TrimPrefix(h.Name, "./")
	if err := checkMember(name); err != nil {
		return "", err
	}
	if h.Typeflag != tar.TypeReg || h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.size"] != "" {
		return "", seedbed.Errorf(seedbed.ErrInvalid,
			"has %q, which is a link, a directory, a device or a sparse file: expected only plain files",
			seedbed.Clip(name))
	}
	if _, twice := a.members[name]; twice {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "has two files called %q", seedbed.Clip(name))
	}
	if len(a.members) == maxMembers {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "has more than %d files", maxMembers)
	}
	at, err := section.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", err
	}
	if h.Size < 0 || seedbed.Bytes(h.Size) > size-seedbed.Bytes(at) {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "is truncated in its file %q", seedbed.Clip(name))
	}
	a.members[name] = member{seedbed.Bytes(at), seedbed.Bytes(h.Size)}
	return name, nil
}

// checkMember refuses names that are not of a file in the archive's own directory.
func checkMember(name string) error {
	if name == "" || len(name) > 255 || name == "." || name == ".." || strings.ContainsAny(name, "/\\") || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return seedbed.Errorf(seedbed.ErrInvalid, "has a file called %q: expected plain names, without directories", seedbed.Clip(name))
	}
	return nil
}

// small reads a small file of the archive.
func small(r io.Reader, size int64, most seedbed.Bytes, what string) ([]byte, error) {
	if size > int64(most) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "has %s of %d bytes: expected at most %s", what, size, most)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "is truncated in %s", what)
	}
	return text, nil
}

// trust reads the manifest, if there is one, and checks the descriptor against it.
func (a *Archive) trust(list []byte, name string, descriptor []byte) (err error) {
	if list == nil {
		return nil
	}
	if a.manifest, err = parseManifest(list); err != nil {
		return err
	}
	d, ok := a.manifest[name]
	if !ok {
		return unlisted(name)
	}
	h := d.hash()
	h.Write(descriptor)
	return d.check(name, h)
}

func unlisted(name string) error {
	return seedbed.Errorf(seedbed.ErrInvalid, "has a manifest that does not list %q: create it again, or leave it out", seedbed.Clip(name))
}

// describe reads the descriptor and checks that the files of the disks exist.
func (a *Archive) describe(ctx context.Context, descriptor []byte) (err error) {
	if a.Appliance, err = ParseOVF(ctx, descriptor); err != nil {
		return err
	}
	for i := range a.Disks {
		d := &a.Disks[i]
		m, ok := a.members[d.File]
		if !ok {
			return seedbed.Errorf(seedbed.ErrInvalid, "lacks the file %q of a disk: it was truncated, or packed without it", seedbed.Clip(d.File))
		}
		if _, listed := a.manifest[d.File]; a.manifest != nil && !listed {
			return unlisted(d.File)
		}
		d.Size = m.size
	}
	return nil
}

// disk returns the disk of that file, or the only disk if file is empty.
func (a *Archive) disk(file string) (seedbed.ApplianceDisk, error) {
	if file == "" && len(a.Disks) == 1 {
		return a.Disks[0], nil
	}
	if file == "" {
		return seedbed.ApplianceDisk{}, seedbed.Errorf(seedbed.ErrInvalid,
			"is an OVA with %d disks, and an image has one: upload it as an OVA image (seedbed ova upload)", len(a.Disks))
	}
	for _, d := range a.Disks {
		if d.File == file {
			return d, nil
		}
	}
	return seedbed.ApplianceDisk{}, fmt.Errorf("the OVA no longer has a disk %q", seedbed.Clip(file))
}
