package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"seedbed"
	"seedbed/internal/ovatest"
	"seedbed/provision/backup"
	"seedbed/provision/effects"
	"seedbed/provision/worker"
)

// uploadCases are the cases of TestPool that upload files.
var uploadCases = []poolCase{
	{"upload", testUpload},
	{"upload of a volume", testUploadVolume},
	{"upload of an OVA", testUploadOVA},
	{"upload refused", testUploadRefused},
}

const anUpload = "UPLOADUPLOADUPLOAD"

func bootableDisk(t *testing.T) (disk []byte, sum string) {
	t.Helper()
	path, sum := BootableFile(t)
	disk, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return disk, sum
}

func testUpload(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	disk, sum := bootableDisk(t)
	up, err := p.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "p", ID: anUpload, Size: BootableSize, SHA256: sum},
		iotest.HalfReader(bytes.NewReader(disk)))
	ok(t, "upload", err)
	if up.ID != anUpload || up.Size != BootableSize || up.SHA256 != sum || up.Appliance != nil {
		t.Errorf("got %+v", up)
	}
	spec := seedbed.ImageSpec{Name: "base", Upload: up.ID, SHA256: up.SHA256, Format: "raw"}
	last := 0
	got, err := p.ImportImage(ctx, job, spec, func(p seedbed.Progress) { last = p.Percent() })
	ok(t, "import", err)
	want := seedbed.ImageInfo{Pool: got.Pool, Name: "base", Job: job, Size: BootableSize, Format: "raw", SHA256: sum}
	if got != want || last != 100 {
		t.Errorf("got %+v at %d%%; want %+v", got, last, want)
	}
	ok(t, "drop", p.DropUpload(ctx, up.ID))
	again, err := p.ImportImage(ctx, job, spec, nil)
	ok(t, "import what is there", err)
	if again != want {
		t.Errorf("got %+v; want %+v", again, want)
	}
	spec.Name = "other"
	if _, err := p.ImportImage(ctx, job, spec, nil); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("import of what was dropped: %v", err)
	}
	images(t, p, want)
	ok(t, "drop again", p.DropUpload(ctx, up.ID))
}

// testUploadVolume makes a volume of an uploaded disk.
func testUploadVolume(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	disk, _ := bootableDisk(t)
	refusesDisks(t, p, disk)
	up, err := p.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "p", ID: anUpload, Disk: true}, bytes.NewReader(disk))
	ok(t, "upload", err)
	if up.Disk != BootableSize {
		t.Errorf("its disk has %s", up.Disk)
	}
	spec := clone(BootableSize + 8*seedbed.MiB)
	spec.Image = ""
	order := effects.UploadedVolume{VolumeSpec: spec, Upload: up.ID, Format: "qcow2"}
	_, err = worker.FillUploaded(ctx, job, p, order, nil)
	is(t, "another format", err, seedbed.ErrInvalid)
	order.Format, order.Size = "", BootableSize/2
	_, err = worker.FillUploaded(ctx, job, p, order, nil)
	is(t, "a smaller volume", err, seedbed.ErrInvalid)
	volumes(t, p)
	order.Format, order.Size = "raw", spec.Size
	last := 0
	got, err := worker.FillUploaded(ctx, job, p, order, func(p seedbed.Progress) { last = p.Percent() })
	ok(t, "make the volume", err)
	if last != 100 || got.Size != spec.Size || got.Instance != spec.Instance || got.Disk.Backing != "" {
		t.Errorf("made %+v at %d%%", got, last)
	}
	ok(t, "drop", p.DropUpload(ctx, up.ID))
	same, err := worker.FillUploaded(ctx, job, p, order, nil)
	if err != nil || same != got {
		t.Errorf("make it again: %+v, %v", same, err)
	}
	readsTexts(t, d, p, spec, map[int64]string{1 << 20: "seedbed ", int64(BootableSize): "\x00\x00"})
	other := order
	other.VolumeSpec = clone(spec.Size)
	other.Image = ""
	_, err = worker.FillUploaded(ctx, job, p, other, nil)
	is(t, "of what was dropped", err, seedbed.ErrInvalid)
	volumes(t, p, got)
	ok(t, "remove", p.RemoveVolume(ctx, spec.Name, spec.Instance))
}

// refusesDisks uploads files that cannot be volumes, and one that can only be if its format is given.
func refusesDisks(t *testing.T, p worker.Pool, disk []byte) {
	t.Helper()
	ctx := t.Context()
	overlay := make([]byte, 512) // it has a backing file
	copy(overlay, "QFI\xfb\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x01\x00")
	plain := bytes.Repeat([]byte{0, 1, 2, 3}, 1024)
	for _, c := range []struct {
		what, format string
		data         []byte
	}{
		{"an OVA", "", ovatest.Tar(ovatest.File{Name: "a.vmdk", Content: disk[:4096]})},
		{"a file that refers to another", "", overlay},
		{"the same as qcow2", "qcow2", overlay},
		{"the same as raw", "raw", overlay},
		{"another format", "qcow2", disk},
		{"a program", "raw", append([]byte("\x7fELF"), plain...)},
		{"a disk without a signature", "", plain},
	} {
		_, err := p.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "p", ID: anUpload, Disk: true, Format: c.format}, bytes.NewReader(c.data))
		is(t, c.what, err, seedbed.ErrInvalid)
	}
	up, err := p.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "p", ID: anUpload, Disk: true, Format: "raw"}, bytes.NewReader(plain))
	ok(t, "a raw disk without a signature", err)
	src, err := p.OpenUpload(ctx, up.ID, "raw")
	ok(t, "open it", err)
	got := make([]byte, len(plain))
	ok(t, "read it", src.Read(ctx, got, 0))
	ok(t, "close it", src.Close())
	if !bytes.Equal(got, plain) || src.Size() != up.Size {
		t.Errorf("its disk has %s and begins with %x", src.Size(), got[:8])
	}
	ok(t, "drop it", p.DropUpload(ctx, up.ID))
}

func testUploadOVA(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	disk, _ := bootableDisk(t)
	data := ovatest.OVA{Firmware: "efi", Manifest: "SHA256", VCPUs: 3, MemoryMB: 700,
		Disks: []ovatest.Disk{{Name: "a.img", Content: disk}, {Name: "b.img", Content: disk[:1<<20]}}}.Bytes()
	up, err := p.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "p", ID: anUpload}, bytes.NewReader(data))
	ok(t, "upload", err)
	if a := up.Appliance; a == nil || a.VCPUs != 3 || a.Memory != 700*seedbed.MiB || a.Firmware != seedbed.FirmwareUEFI ||
		len(a.Disks) != 2 || a.Disks[1].File != "b.img" {
		t.Fatalf("got %+v", up)
	}
	if _, err := p.ImportImage(ctx, job,
		seedbed.ImageSpec{Name: "one", Upload: up.ID, SHA256: up.SHA256}, nil); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("import of two disks as one image: %v", err)
	}
	var all []seedbed.ImageInfo
	for i, size := range []seedbed.Bytes{BootableSize, seedbed.MiB} {
		spec := seedbed.ImageSpec{Name: "ova_x_" + seedbed.DiskName(i), Upload: up.ID, SHA256: up.SHA256, Member: up.Appliance.Disks[i].File}
		got, err := p.ImportImage(ctx, job, spec, nil)
		ok(t, "import", err)
		want := seedbed.ImageInfo{Pool: got.Pool, Name: spec.Name, Job: job, Size: size, Format: "raw", SHA256: up.SHA256,
			Firmware: seedbed.FirmwareUEFI}
		if got != want {
			t.Errorf("got %+v; want %+v", got, want)
		}
		all = append(all, want)
	}
	images(t, p, all...)
	ok(t, "drop", p.DropUpload(ctx, up.ID))
}

func testUploadRefused(t *testing.T, _ PoolDriver, p worker.Pool) {
	disk, _ := bootableDisk(t)
	broken := errors.New("the line broke")
	for _, c := range []struct {
		name string
		spec seedbed.UploadSpec
		body io.Reader
		want error
	}{
		{"broken", seedbed.UploadSpec{}, io.MultiReader(bytes.NewReader(disk), iotest.ErrReader(broken)), broken},
		{"short", seedbed.UploadSpec{Size: BootableSize + 1}, bytes.NewReader(disk), seedbed.ErrInvalid},
		{"another digest", seedbed.UploadSpec{SHA256: strings.Repeat("0", 64)}, bytes.NewReader(disk), seedbed.ErrInvalid},
		{"gzip", seedbed.UploadSpec{}, strings.NewReader("\x1f\x8b" + strings.Repeat("\x00", 600)), seedbed.ErrInvalid},
	} {
		c.spec.Pool, c.spec.ID = "p", anUpload
		if _, err := p.ReceiveUpload(t.Context(), c.spec, c.body); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v; want %v", c.name, err, c.want)
		}
		if _, err := p.ImportImage(t.Context(), seedbed.NewJobID(), seedbed.ImageSpec{Name: "base", Upload: anUpload},
			nil); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%s: import: %v", c.name, err)
		}
	}
	images(t, p)
}

// testDownload makes files of a volume, of which the last one stays until it is dropped.
func testDownload(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	spec := clone(BootableSize)
	spec.Image = ""
	_, err := p.FillVolume(ctx, job, spec, "test", func(ctx context.Context, to backup.Sink) error {
		return to.Write(ctx, []byte("seedbed"), 1000)
	})
	ok(t, "make the volume", err)
	volume := seedbed.NewVolumeID()
	var files []seedbed.VolumeFile
	for _, format := range []string{seedbed.FileQCOW2, seedbed.FileRaw, seedbed.FileRaw} {
		f := seedbed.FileOf("p", volume, seedbed.NewJobID())
		order := effects.VolumeExport{VolumeFile: f, Format: format,
			Source: seedbed.CopySource{From: spec.Name, Of: spec.Instance, Snapshot: "copy-1"}}
		for range 2 {
			size, err := worker.Export(ctx, job, p, order, nil)
			ok(t, "make a "+format+" file", err)
			if size < 1007 {
				t.Errorf("the %s file has %s", format, size)
			}
		}
		files = append(files, f)
		if len(files) > 1 {
			_, err := p.OpenDownload(ctx, files[len(files)-2].ID)
			is(t, "open an earlier file", err, seedbed.ErrNotFound)
		}
		in, err := p.OpenDownload(ctx, f.ID)
		ok(t, "open the file", err)
		got, err := io.ReadAll(in)
		ok(t, "read the file", errors.Join(err, in.Close()))
		switch {
		case bytes.HasPrefix(got, []byte("QFI\xfb")):
			if format == seedbed.FileRaw {
				t.Error("the raw file is qcow2")
			}
		case len(got) < 1007 || string(got[1000:1007]) != "seedbed":
			t.Errorf("the %s file has %d bytes, and not what the volume has", format, len(got))
		case seedbed.Bytes(len(got)) > BootableSize:
			t.Errorf("the %s file has %d bytes: more than the volume", format, len(got))
		}
	}
	taken, err := p.Snapshots(ctx, spec.Name, spec.Instance)
	if ok(t, "snapshots", err); len(taken) != 0 {
		t.Errorf("the snapshots %v are left", taken)
	}
	last := files[len(files)-1].ID
	ok(t, "drop", p.DropUpload(ctx, last))
	ok(t, "drop again", p.DropUpload(ctx, last))
	_, err = p.OpenDownload(ctx, last)
	is(t, "open what was dropped", err, seedbed.ErrNotFound)
	ok(t, "remove", p.RemoveVolume(ctx, spec.Name, spec.Instance))
}
