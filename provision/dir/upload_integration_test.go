//go:build integration

package dir

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/ovatest"
	"seedbed/provision/worker/drivertest"
)

const anUpload = "UPLOADUPLOADUPLOAD"

// upload takes in a file, imports it, and drops it.
func upload(t *testing.T, p *Pool, data []byte, spec seedbed.ImageSpec) (seedbed.ImageInfo, error) {
	t.Helper()
	up, err := p.ReceiveUpload(t.Context(), seedbed.UploadSpec{Pool: "default", ID: anUpload, Size: seedbed.Bytes(len(data))},
		bytes.NewReader(data))
	if err != nil {
		return seedbed.ImageInfo{}, err
	}
	spec.Upload, spec.SHA256 = up.ID, up.SHA256
	info, err := p.ImportImage(t.Context(), "job", spec, nil)
	if e := p.DropUpload(t.Context(), up.ID); e != nil {
		t.Fatal(e)
	}
	return info, err
}

// converted is the disk in another format.
func converted(t *testing.T, disk string, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "converted")
	tool(t, append(append([]string{"convert", "-f", "raw"}, args...), disk, path)...)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestUploadsOfWhatReachesElsewhere(t *testing.T) {
	t.Parallel()
	disk, _ := drivertest.BootableFile(t)
	dir := t.TempDir()
	made := func(name string, args ...string) []byte {
		path := filepath.Join(dir, name)
		tool(t, append(args, path)...)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	flat := made("flat.vmdk", "convert", "-f", "raw", "-O", "vmdk", "-o", "subformat=monolithicFlat", disk)
	backed := made("backed.qcow2", "create", "-q", "-f", "qcow2", "-b", disk, "-F", "raw")
	base := filepath.Join(dir, "base.vmdk")
	tool(t, "convert", "-f", "raw", "-O", "vmdk", disk, base)
	child := made("child.vmdk", "create", "-q", "-f", "vmdk", "-b", base, "-F", "vmdk")
	data := made("data.qcow2", "create", "-q", "-f", "qcow2", "-o", "data_file="+filepath.Join(dir, "data.raw")+",size=4M")
	whole := made("whole.vmdk", "convert", "-f", "raw", "-O", "vmdk", "-o", "subformat=streamOptimized", disk)
	qcow2 := made("whole.qcow2", "convert", "-f", "raw", "-O", "qcow2", disk)
	twoExtents := bytes.Replace(bytes.Clone(flat), []byte("flat-flat.vmdk"), []byte("../../etc/hosts"), 1)
	for name, c := range map[string]struct {
		data    []byte
		problem string
	}{
		"a flat vmdk":                  {flat, "VMDK descriptor"},
		"a descriptor of another file": {twoExtents, "VMDK descriptor"},
		"a backing file":               {backed, "backing file"},
		"a parent of a vmdk":           {child, "refers to another file"},
		"a data file":                  {data, "data file"},
		"a cut vmdk":                   {whole[:len(whole)/2], ""},
		"a cut qcow2":                  {qcow2[:len(qcow2)/2], "damaged or truncated"},
		"an OVA with a flat vmdk": {ovatest.OVA{Disks: []ovatest.Disk{{Name: "m.vmdk", Content: flat, Capacity: 4}}}.Bytes(),
			"VMDK descriptor"},
		"an OVA with a child": {ovatest.OVA{Disks: []ovatest.Disk{{Name: "m.vmdk", Content: child, Capacity: 4}}}.Bytes(),
			"refers to another file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, filepath.Join(t.TempDir(), "pool"))
			_, err := upload(t, p, c.data, seedbed.ImageSpec{Name: "base"})
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v; want an error with %q", err, c.problem)
			}
			if left := tree(t, p); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// endless is a file that begins as a disk and has no end.
func endless() io.Reader {
	head := make([]byte, 1<<20)
	copy(head[510:], "\x55\xaa")
	return io.MultiReader(bytes.NewReader(head), repeating{})
}

type repeating struct{}

func (repeating) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestUploadFillsThePool(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		size, reserve seedbed.Bytes
		announced     seedbed.Bytes
	}{
		{"known before", 16 * seedbed.MiB, seedbed.MiB, 32 * seedbed.MiB},
		{"seen at the reserve", 96 * seedbed.MiB, 16 * seedbed.MiB, 0},
		{"in the middle", 8 * seedbed.MiB, -64 * seedbed.MiB, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := small(t, c.size, c.reserve)
			_, err := p.ReceiveUpload(t.Context(), seedbed.UploadSpec{ID: anUpload, Size: c.announced}, endless())
			if !errors.Is(err, seedbed.ErrFull) || !strings.Contains(err.Error(), "pool default") {
				t.Errorf("got %v", err)
			}
			if left := tree(t, p); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A small file that is a large disk, none of it zeros, is refused before it is written.
func TestUploadOfABomb(t *testing.T) {
	t.Parallel()
	p := small(t, 32*seedbed.MiB, seedbed.MiB)
	bomb := converted(t, random(t, 64*seedbed.MiB), "-c", "-O", "qcow2")
	if len(bomb) > 1<<20 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	if _, err := upload(t, p, bomb, seedbed.ImageSpec{Name: "base"}); !errors.Is(err, seedbed.ErrFull) {
		t.Errorf("got %v", err)
	}
	if left := tree(t, p); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
