//go:build ceph

package ceph

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"seedbed"
	"seedbed/provision/backup"
	"seedbed/provision/image"
)

// openSpool prepares the scratch directory for uploads.
func (p *Pool) openSpool() (err error) {
	if err := os.MkdirAll(p.cfg.Scratch, 0o711); err != nil {
		return fmt.Errorf("make the scratch directory of pool %s: %w", p.cfg.Name, err)
	}
	dir := filepath.Join(p.cfg.Scratch, "seedbed-uploads-"+p.cfg.Name)
	if p.spool, err = image.OpenSpool(dir, image.Room(p.cfg.Scratch, scratchReserve), p.log); err != nil {
		return fmt.Errorf("open the uploads of pool %s: %w", p.cfg.Name, err)
	}
	return nil
}

// scratchReserve is the free space that uploads leave on the scratch directory's file system.
const scratchReserve = 1 * seedbed.GiB

// ReceiveUpload implements worker.Spooler. The file waits in the scratch directory.
func (p *Pool) ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error) {
	return p.spool.Receive(ctx, spec, body)
}

// DropUpload implements worker.Spooler.
func (p *Pool) DropUpload(_ context.Context, id string) error { return p.spool.Drop(id) }

// OpenUpload implements worker.Spooler. The disk is converted to a sparse file in the scratch directory, so there must be space for it.
func (p *Pool) OpenUpload(ctx context.Context, id, format string) (backup.Source, error) {
	f, size, err := p.spool.OpenDisk(ctx, id, format)
	if err != nil {
		return nil, err
	}
	src, err := backup.NewFile(f, size)
	if err != nil {
		return nil, err
	}
	return src, nil
}

// WriteDownload implements worker.Spooler. The file waits in the scratch directory.
func (p *Pool) WriteDownload(
	ctx context.Context, id, format string, disk backup.Source, progress func(seedbed.Progress),
) (seedbed.Bytes, error) {
	return p.spool.WriteDownload(ctx, id, image.Format(format), disk.Size(), func(f *os.File) error {
		return backup.Copy(ctx, disk, backup.FileSink{File: f, Need: image.Room(p.cfg.Scratch, scratchReserve)}, progress)
	})
}

// OpenDownload implements worker.Spooler.
func (p *Pool) OpenDownload(_ context.Context, id string) (io.ReadCloser, error) {
	return p.spool.OpenDownload(id)
}
