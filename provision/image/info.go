package image

import (
	"encoding/json"
	"fmt"

	"seedbed"
)

// Info is what qemu-img info reports of an image file.
type Info struct {
	Format Format
	// Size is the virtual size of the disk.
	Size seedbed.Bytes
	// Backing and DataFile are the other files to which it refers, or "".
	Backing, DataFile string
	Encrypted         bool
	Corrupt           bool
	// Subformat is the create type of a vmdk, and Extents are the files that hold its data.
	Subformat string
	Extents   []string
	// Snapshots are the names of the snapshots inside a qcow2 file.
	Snapshots []string
}

// ParseInfo reads the answer of qemu-img info --output=json (QEMU's qapi/block-core.json,
// ImageInfo).
func ParseInfo(answer []byte) (Info, error) {
	var a struct {
		Size        int64  `json:"virtual-size"`
		Format      string `json:"format"`
		Backing     string `json:"backing-filename"`
		FullBacking string `json:"full-backing-filename"`
		Encrypted   bool   `json:"encrypted"`
		Snapshots   []struct {
			Name string `json:"name"`
		} `json:"snapshots"`
		Specific struct {
			Data struct {
				DataFile   string          `json:"data-file"`
				Corrupt    bool            `json:"corrupt"`
				Encrypt    json.RawMessage `json:"encrypt"`
				CreateType string          `json:"create-type"`
				Extents    []struct {
					File string `json:"filename"`
				} `json:"extents"`
			} `json:"data"`
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return Info{}, fmt.Errorf("answer of qemu-img info: %w", err)
	}
	d := a.Specific.Data
	info := Info{
		Format: Format(a.Format), Size: seedbed.Bytes(a.Size), Backing: a.Backing, DataFile: d.DataFile,
		Encrypted: a.Encrypted || len(d.Encrypt) > 0, Corrupt: d.Corrupt, Subformat: d.CreateType,
	}
	if info.Backing == "" {
		info.Backing = a.FullBacking
	}
	for _, e := range d.Extents {
		info.Extents = append(info.Extents, e.File)
	}
	for _, s := range a.Snapshots {
		info.Snapshots = append(info.Snapshots, s.Name)
	}
	return info, nil
}

// Check returns ErrInvalid for an image that cannot be used by itself. path is the file that Info
// describes. The message is a predicate, like Sniff's.
func (i Info) Check(path string) error {
	switch i.Format {
	case QCOW2, Raw, VMDK, VDI:
	default:
		return seedbed.Errorf(seedbed.ErrInvalid, "is in %q format: %s", i.Format, wanted)
	}
	switch {
	case i.Backing != "":
		return seedbed.Errorf(seedbed.ErrInvalid, "refers to another file (%q): flatten it first, with qemu-img convert -O qcow2", i.Backing)
	case i.DataFile != "":
		return seedbed.Errorf(seedbed.ErrInvalid, "refers to another file (%q): flatten it first, with qemu-img convert -O qcow2", i.DataFile)
	case i.Encrypted:
		return invalid("is encrypted: the image must not be")
	case i.Corrupt:
		return invalid("is marked corrupt: repair it first, with qemu-img check -r all")
	case i.Size <= 0:
		return invalid("is a disk without a size")
	case i.Size > MaxSize:
		return seedbed.Errorf(seedbed.ErrInvalid, "is a disk of %s: the largest that is accepted is %s", i.Size, MaxSize)
	case i.Format != VMDK:
		return nil
	}
	if i.Subformat != "monolithicSparse" && i.Subformat != "streamOptimized" {
		return seedbed.Errorf(seedbed.ErrInvalid, "is a vmdk of type %q: expected monolithicSparse or streamOptimized", i.Subformat)
	}
	if len(i.Extents) != 1 || i.Extents[0] != path {
		return invalid("is a vmdk that refers to other files: expected one vmdk file with its data inside")
	}
	return nil
}
