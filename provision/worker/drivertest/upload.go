package drivertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"strings"

	"seedbed"
	"seedbed/provision/backup"
	"seedbed/provision/image"
	"seedbed/provision/pooltag"
)

// ReceiveUpload implements worker.Spooler.
func (p *Pool) ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (up seedbed.Upload, err error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return up, err
	}
	err = p.effect(ctx, "ReceiveUpload", func() error {
		if err := p.room(); err != nil {
			return err
		}
		if _, taken := p.uploads[spec.ID]; taken {
			return seedbed.Errorf(seedbed.ErrExists, "upload %s exists already", spec.ID)
		}
		sum := sha256.Sum256(data)
		up = seedbed.Upload{Pool: p.name, ID: spec.ID, Size: seedbed.Bytes(len(data)), SHA256: hex.EncodeToString(sum[:])}
		switch {
		case spec.Size > 0 && spec.Size != up.Size:
			return seedbed.Errorf(seedbed.ErrInvalid, "the uploaded file has %d bytes and was announced with %d", up.Size, spec.Size)
		case spec.SHA256 != "" && spec.SHA256 != up.SHA256:
			return seedbed.Errorf(seedbed.ErrInvalid, "the uploaded file has the SHA-256 digest %s: expected %s", up.SHA256, spec.SHA256)
		}
		if spec.Disk {
			if _, err := image.SniffDisk(data[:min(up.Size, image.HeadSize)], up.Size, spec.Format); err != nil {
				return fmt.Errorf("the uploaded file %w", err)
			}
			up.Disk = up.Size
		} else if !bootable(data) {
			a, err := image.ReadOVA(ctx, bytes.NewReader(data), up.Size)
			if err != nil {
				return fmt.Errorf("the uploaded file %w", err)
			}
			up.Appliance = &a.Appliance
		}
		p.uploads[spec.ID] = data
		return nil
	})
	return up, err
}

// DropUpload implements worker.Spooler.
func (p *Pool) DropUpload(ctx context.Context, id string) error {
	return p.effect(ctx, "DropUpload", func() error {
		delete(p.uploads, id)
		return nil
	})
}

// Uploads returns how many files wait for their import.
func (p *Pool) Uploads() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.uploads)
}

// uploaded returns the disk that an uploaded file holds; the lock is held.
func (p *Pool) uploaded(ctx context.Context, spec seedbed.ImageSpec) ([]byte, error) {
	data, ok := p.uploads[spec.Upload]
	if !ok {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "upload %s is not there any more", spec.Upload)
	}
	if bootable(data) {
		return data, nil
	}
	a, err := image.ReadOVA(ctx, bytes.NewReader(data), seedbed.Bytes(len(data)))
	if err != nil {
		return nil, err
	}
	for _, d := range a.Disks {
		if d.File == spec.Member || spec.Member == "" && len(a.Disks) == 1 {
			return make([]byte, max(d.Size, 512)), nil // its content does not matter
		}
	}
	return nil, seedbed.Errorf(seedbed.ErrInvalid, "the OVA has no disk %q alone", spec.Member)
}

// fromUpload completes the tag of an image with what is known about its upload; the lock is held.
func (p *Pool) fromUpload(ctx context.Context, spec seedbed.ImageSpec, t *pooltag.Tag) {
	data, ok := p.uploads[spec.Upload]
	if !ok {
		return
	}
	t.SHA256 = spec.SHA256
	if a, err := image.ReadOVA(ctx, bytes.NewReader(data), seedbed.Bytes(len(data))); err == nil {
		t.Firmware = a.Firmware
	}
}

func bootable(data []byte) bool { return len(data) >= 512 && data[510] == 0x55 && data[511] == 0xaa }

// OpenUpload implements worker.Spooler.
func (p *Pool) OpenUpload(ctx context.Context, id, format string) (backup.Source, error) {
	return effect(ctx, p, "OpenUpload", func() (backup.Source, error) {
		data, ok := p.uploads[id]
		if !ok {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "upload %s is not there any more", id)
		}
		size := seedbed.Bytes(len(data))
		if _, err := image.SniffDisk(data[:min(size, image.HeadSize)], size, format); err != nil {
			return nil, fmt.Errorf("the uploaded file %w", err)
		}
		return &archived{content: string(data), size: size}, nil
	})
}

// WriteDownload implements worker.Spooler. Whatever the format, the file has the raw disk.
func (p *Pool) WriteDownload(
	ctx context.Context, id, _ string, disk backup.Source, _ func(seedbed.Progress),
) (size seedbed.Bytes, err error) {
	data := make([]byte, min(disk.Size(), seedbed.MiB))
	if err := disk.Read(ctx, data, 0); err != nil {
		return 0, err
	}
	return seedbed.Bytes(len(data)), p.effect(ctx, "WriteDownload", func() error {
		if err := p.room(); err != nil {
			return err
		}
		maps.DeleteFunc(p.uploads, func(other string, _ []byte) bool { return strings.HasPrefix(other, id[:32]) })
		p.uploads[id] = data
		return nil
	})
}

// OpenDownload implements worker.Spooler.
func (p *Pool) OpenDownload(ctx context.Context, id string) (io.ReadCloser, error) {
	return effect(ctx, p, "OpenDownload", func() (io.ReadCloser, error) {
		data, ok := p.uploads[id]
		if !ok {
			return nil, seedbed.Errorf(seedbed.ErrNotFound, "file %s is not there any more", id)
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	})
}

// AddFile gives the pool a file to be downloaded.
func (p *Pool) AddFile(f seedbed.VolumeFile, data []byte) error {
	return p.effect(context.Background(), "AddFile", func() error {
		p.uploads[f.ID] = data
		return nil
	})
}
