package dir

import (
	"context"
	"fmt"
	"io"
	"os"

	"seedbed"
	"seedbed/provision/backup"
	"seedbed/provision/image"
)

// ReceiveUpload implements worker.Spooler. The file is kept in the pool's own directory, so that
// its import only needs space for the result.
func (p *Pool) ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error) {
	if err := p.ready(ctx); err != nil {
		return seedbed.Upload{}, fmt.Errorf("receive upload %s: %w", spec.ID, err)
	}
	up, err := p.spool.Receive(ctx, spec, body)
	return up, p.room(err)
}

// DropUpload implements worker.Spooler.
func (p *Pool) DropUpload(ctx context.Context, id string) error {
	if err := p.ready(ctx); err != nil {
		return fmt.Errorf("remove upload %s: %w", id, err)
	}
	return p.spool.Drop(id)
}

// OpenUpload implements worker.Spooler. The disk is converted to a sparse file beside it, so there must be space for it.
func (p *Pool) OpenUpload(ctx context.Context, id, format string) (backup.Source, error) {
	if err := p.ready(ctx); err != nil {
		return nil, fmt.Errorf("read upload %s: %w", id, err)
	}
	f, size, err := p.spool.OpenDisk(ctx, id, format)
	if err != nil {
		return nil, p.room(err)
	}
	src, err := backup.NewFile(f, size)
	if err != nil {
		return nil, err
	}
	return src, nil
}

// WriteDownload implements worker.Spooler.
func (p *Pool) WriteDownload(
	ctx context.Context, id, format string, disk backup.Source, progress func(seedbed.Progress),
) (seedbed.Bytes, error) {
	if err := p.ready(ctx); err != nil {
		return 0, fmt.Errorf("write file %s: %w", id, err)
	}
	size, err := p.spool.WriteDownload(ctx, id, image.Format(format), disk.Size(), func(f *os.File) error {
		return backup.Copy(ctx, disk, backup.FileSink{File: f, Need: p.need}, progress)
	})
	return size, p.room(err)
}

// OpenDownload implements worker.Spooler.
func (p *Pool) OpenDownload(ctx context.Context, id string) (io.ReadCloser, error) {
	if err := p.ready(ctx); err != nil {
		return nil, fmt.Errorf("open file %s: %w", id, err)
	}
	return p.spool.OpenDownload(id)
}
