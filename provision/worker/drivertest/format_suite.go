package drivertest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"seedbed"
	"seedbed/internal/ovatest"
	"seedbed/provision/worker"
)

// formatCases are the cases of TestPool for drivers that keep real disks.
var formatCases = []poolCase{{"upload of every format", testUploadFormats}, {"random operations", testRandom}}

// diskFile is a file to upload, and the disk that it contains.
type diskFile struct {
	name, format string
	file, disk   []byte
	firmware     seedbed.Firmware
}

// diskFiles returns the bootable disk in every format that can be uploaded, except raw.
func diskFiles(t *testing.T) []diskFile {
	t.Helper()
	path, _ := BootableFile(t)
	disk, err := os.ReadFile(path)
	ok(t, "read the disk", err)
	into := func(args ...string) []byte {
		to := filepath.Join(t.TempDir(), "converted")
		out, err := exec.Command("qemu-img", append(append([]string{"convert", "-f", "raw", "-O"}, args...), path, to)...).CombinedOutput()
		if err != nil {
			t.Fatalf("qemu-img convert -O %v: %v\n%s", args, err, out)
		}
		file, err := os.ReadFile(to)
		ok(t, "read what was converted", err)
		return file
	}
	iso := bytes.Clone(disk)
	copy(iso[32769:], "CD001") // ISO 9660, ECMA-119 8.1: the first volume descriptor
	streamed := into("vmdk", "-o", "subformat=streamOptimized")
	machine := ovatest.OVA{Firmware: "efi", Manifest: "SHA1", Disks: []ovatest.Disk{{Name: "m.vmdk", Content: streamed, Capacity: 4}}}
	return []diskFile{
		{"qcow2, compressed", "qcow2", into("qcow2", "-c"), disk, ""},
		{"vdi", "vdi", into("vdi"), disk, ""},
		{"vmdk", "vmdk", into("vmdk", "-o", "subformat=monolithicSparse"), disk, ""},
		{"vmdk of a stream", "vmdk", streamed, disk, ""},
		{"iso", "iso", iso, iso, ""},
		{"ova", "vmdk", machine.Bytes(), disk, seedbed.FirmwareUEFI},
	}
}

// testUploadFormats checks that a volume has the disk's bytes, whatever the format of the upload.
func testUploadFormats(t *testing.T, _ PoolDriver, p worker.Pool) {
	for _, c := range diskFiles(t) {
		t.Run(c.name, func(t *testing.T) {
			ctx, job := t.Context(), seedbed.NewJobID()
			up, err := p.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "p", ID: anUpload, Size: seedbed.Bytes(len(c.file))}, bytes.NewReader(c.file))
			ok(t, "upload", err)
			got, err := p.ImportImage(ctx, job, seedbed.ImageSpec{Name: "base", Upload: up.ID, SHA256: up.SHA256}, nil)
			ok(t, "import", err)
			ok(t, "drop", p.DropUpload(ctx, up.ID))
			images(t, p, seedbed.ImageInfo{Pool: got.Pool, Name: "base", Job: job, Size: BootableSize, Format: c.format, SHA256: up.SHA256,
				Firmware: c.firmware})
			if held := contentOfClone(t, p); !bytes.Equal(held, c.disk) {
				t.Errorf("a volume of it has %d other bytes; want the %d of the disk", len(held), len(c.disk))
			}
			ok(t, "remove the image", p.RemoveImage(ctx, job, "base"))
			images(t, p)
		})
	}
}

// contentOfClone returns the content of a new volume of the image "base", read through its device.
func contentOfClone(t *testing.T, p worker.Pool) []byte {
	t.Helper()
	ctx, v := t.Context(), clone(0)
	_, err := p.CloneVolume(ctx, seedbed.NewJobID(), v)
	ok(t, "clone", err)
	device, err := p.MapVolume(ctx, seedbed.NewJobID(), v.Name, v.Instance)
	ok(t, "map", err)
	held, err := os.ReadFile(device)
	ok(t, "read the volume", err)
	ok(t, "unmap", p.UnmapVolume(ctx, v.Name, v.Instance))
	ok(t, "remove the volume", p.RemoveVolume(ctx, v.Name, v.Instance))
	return held
}
