package libvirt_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/image"
	"seedbed/provision/libvirt"
)

// backed is the beginning of a qcow2 file that reads from another file, unless that is "".
func backed(backing string) []byte {
	h := make([]byte, 4<<10)
	copy(h, "QFI\xfb\x00\x00\x00\x03")
	for at, v := range map[int]uint32{20: 16, 28: 1 << 20, 100: 112} {
		binary.BigEndian.PutUint32(h[at:], v)
	}
	if backing != "" {
		binary.BigEndian.PutUint32(h[12:], 200)
		binary.BigEndian.PutUint32(h[16:], uint32(len(backing)))
		copy(h[200:], backing)
	}
	return h
}

// What a domain reads from is what its pool knows and its file says, whatever release has defined
// it: never another file of the host, and never zeros where there is data.
func TestChained(t *testing.T) {
	t.Parallel()
	const ends, goesOn = "<backingStore></backingStore>", "images/base.qcow2"
	const old = "<backingStore type='file'><format type='qcow2'/><source file='/old.qcow2'/><backingStore/></backingStore>"
	for _, c := range []struct {
		name    string
		clone   bool   // so the tag
		header  string // so the file
		defined string // so the definition
		want    []string
		changed bool
	}{
		{"a definition of an earlier release", false, "", "", []string{ends}, true},
		{"one of a clone", true, "../images/base.qcow2", "", []string{goesOn, ends}, true},
		{"a definition that ends the chain", false, "", "<backingStore/>", []string{"<backingStore/>"}, false},
		{"one that ends too early", true, "../images/base.qcow2", "<backingStore/>", []string{goesOn, ends}, true},
		{"one of before the flatten", true, "", old, []string{ends}, true},
		{"a file of the host", false, "/etc/shadow", "", nil, false},
		{"a file of the host, which the definition does not open", false, "/etc/shadow", "<backingStore/>", nil, false},
		{"a file of the host instead of the image", true, "/etc/shadow", "", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pool := t.TempDir()
			file := image.Volume{Path: filepath.Join(pool, "volumes", "v.qcow2")}
			if c.clone {
				file.Backing = filepath.Join(pool, "images", "base.qcow2")
			}
			if err := os.Mkdir(filepath.Dir(file.Path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file.Path, backed(c.header), 0o600); err != nil {
				t.Fatal(err)
			}
			doc := `<domain type='kvm'><name>n</name><devices>
				<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/srv/own.qcow2'/><target dev='vda'/></disk>
				<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='` + file.Path + `'/>` + c.defined +
				`<target dev='vdb'/></disk></devices></domain>`
			volumes := func(path string) (image.Volume, bool, error) { return file, path == file.Path, nil }
			got, changed, err := libvirt.Chained(doc, volumes)
			if c.want == nil {
				if !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), c.header) {
					t.Errorf("got %v\n%s", err, got)
				}
				return
			}
			if err != nil || changed != c.changed {
				t.Fatalf("changed %t, %v", changed, err)
			}
			_, second, _ := strings.Cut(got, file.Path)
			for _, want := range c.want {
				if !strings.Contains(second, want) {
					t.Errorf("without %s:\n%s", want, got)
				}
			}
			if strings.Contains(second, goesOn) != (c.header != "") || strings.Count(got, "</backingStore>") > len(c.want) {
				t.Errorf("got\n%s", got)
			}
			if again, changed, err := libvirt.Chained(got, volumes); err != nil || changed {
				t.Errorf("again: %t, %v\n%s", changed, err, again)
			}
		})
	}
}

// An adopted domain no longer believes its files, but for the image that a file is a clone of.
func TestAdoptedChain(t *testing.T) {
	t.Parallel()
	const base = "/pool/images/base.qcow2"
	for backing, want := range map[string]string{"": "<backingStore></backingStore>", base: `file="` + base + `"`} {
		a := adoption()
		a.Disks[0].Backing = backing
		doc, err := libvirt.AdoptedXML(foreignDoc(t), a, "/console")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(doc, "/pool/volumes/x-0.qcow2")
		disk, _, _ := strings.Cut(rest, "</disk>")
		if !strings.Contains(disk, want) || !strings.Contains(disk, "<backingStore></backingStore>") {
			t.Errorf("backing %q: without %s:\n%s", backing, want, doc)
		}
		back, err := libvirt.GivenBackXML(doc, a, "/console")
		if err != nil || strings.Contains(back, "backingStore") {
			t.Errorf("given back, it is %v\n%s", err, back)
		}
	}
}
