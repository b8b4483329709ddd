package client

import (
	"context"
	"io"

	"seedbed"
	"seedbed/api/wire"
)

// UploadImage sends size bytes of file, and starts a job that imports them. r.Path is not used, and
// r.Node is the node that receives the file.
func (c *Client) UploadImage(ctx context.Context, r wire.ImageRequest, file io.Reader, size seedbed.Bytes) (seedbed.Receipt, error) {
	return c.upload(ctx, at("/images", r.Name)+"/content", given(map[string]string{
		"pool": r.Pool, "node": r.Node, "sha256": r.SHA256, "format": r.Format, "firmware": string(r.Firmware),
	}), file, size)
}
