package dir

import (
	"context"
	"io"

	"seedbed"
)

// ReceiveUpload implements worker.Spooler. The file is kept in the pool's own directory, so that
// its import only needs space for the result.
func (p *Pool) ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error) {
	up, err := p.spool.Receive(ctx, spec, body)
	return up, p.room(err)
}

// DropUpload implements worker.Spooler.
func (p *Pool) DropUpload(_ context.Context, id string) error { return p.spool.Drop(id) }
