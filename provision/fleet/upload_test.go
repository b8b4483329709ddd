package fleet_test

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
	"seedbed/provision/effects"
	"seedbed/provision/worker/drivertest"
)

const anUpload = "UPLOADUPLOADUPLOAD"

func bootable(t *testing.T) (disk []byte, sum string) {
	t.Helper()
	path, sum := drivertest.BootableFile(t)
	disk, err := os.ReadFile(path)
	must(t, "read", err)
	return disk, sum
}

func TestUpload(t *testing.T) {
	t.Parallel()
	l, ctx := start(t), t.Context()
	disk, sum := bootable(t)
	up, err := l.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "default", ID: anUpload, Size: drivertest.BootableSize, SHA256: sum},
		iotest.HalfReader(bytes.NewReader(disk)))
	must(t, "upload", err)
	if up.ID != anUpload || up.Size != drivertest.BootableSize || up.SHA256 != sum {
		t.Errorf("got %+v", up)
	}
	_, err = l.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "default", ID: anUpload}, bytes.NewReader(disk))
	if !errors.Is(err, seedbed.ErrExists) {
		t.Errorf("again: %v", err)
	}
	info, err := effects.ImportImage.Do(ctx, l, call(1), seedbed.ImageSpec{Pool: "default", Name: "base", Upload: up.ID, SHA256: up.SHA256})
	must(t, "import", err)
	if info.Size != drivertest.BootableSize {
		t.Errorf("got %+v", info)
	}
	must(t, "drop", second(effects.DropUpload.Ask(ctx, l, effects.UploadRef{Pool: "default", ID: up.ID})))
	if n := l.pool.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	// An ordinary call still works at the same time.
	if _, err := effects.Inventory.Ask(ctx, l, effects.None{}); err != nil {
		t.Error(err)
	}
}

// endless counts what is read of a file without an end, and ends with ctx.
type endless struct {
	ctx  context.Context
	read int
}

func (e *endless) Read(b []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, e.ctx.Err()
	}
	e.read += len(b)
	return len(b), nil
}

func TestUploadRefused(t *testing.T) {
	t.Parallel()
	l := start(t)
	disk, _ := bootable(t)
	broken := errors.New("the caller's line broke")
	for _, c := range []struct {
		name    string
		spec    seedbed.UploadSpec
		body    io.Reader
		want    error
		problem string
	}{
		{"broken", seedbed.UploadSpec{}, io.MultiReader(bytes.NewReader(disk), iotest.ErrReader(broken)), broken, "line broke"},
		{"broken unexpectedly", seedbed.UploadSpec{}, io.MultiReader(bytes.NewReader(disk), iotest.ErrReader(io.ErrUnexpectedEOF)),
			io.ErrUnexpectedEOF, ""},
		{"short", seedbed.UploadSpec{Size: drivertest.BootableSize + 1}, bytes.NewReader(disk), seedbed.ErrInvalid, "announced"},
		{"digest", seedbed.UploadSpec{SHA256: strings.Repeat("0", 64)}, bytes.NewReader(disk), seedbed.ErrInvalid, "digest"},
		{"no such pool", seedbed.UploadSpec{Pool: "other"}, &endless{ctx: t.Context()}, seedbed.ErrNotFound, "not configured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.spec.Pool == "" {
				c.spec.Pool = "default"
			}
			c.spec.ID = anUpload
			_, err := l.ReceiveUpload(t.Context(), c.spec, c.body)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v; want %v with %q", err, c.want, c.problem)
			}
			if n := l.pool.Uploads(); n != 0 {
				t.Errorf("%d uploads are left", n)
			}
		})
	}
}

func TestUploadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	body := &endless{ctx: t.Context()}
	_, err := l.ReceiveUpload(ctx, seedbed.UploadSpec{Pool: "default", ID: anUpload}, &after{body, 32 << 20, cancel})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := l.pool.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// after calls do after that many bytes were read.
type after struct {
	*endless
	most int
	do   func()
}

func (a *after) Read(b []byte) (int, error) {
	if a.read >= a.most {
		a.do()
	}
	return a.endless.Read(b)
}

func TestUploadEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	l := start(t)
	body := &after{&endless{ctx: t.Context()}, 32 << 20, func() {}}
	stopped := make(chan error, 1)
	body.do = func() {
		body.do = func() {}
		go func() { stopped <- l.stop() }()
	}
	_, err := l.ReceiveUpload(t.Context(), seedbed.UploadSpec{Pool: "default", ID: anUpload}, body)
	if !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	must(t, "stop", <-stopped)
	if _, err := l.ReceiveUpload(t.Context(), seedbed.UploadSpec{Pool: "default", ID: anUpload},
		strings.NewReader("x")); !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("without a worker: %v", err)
	}
}
