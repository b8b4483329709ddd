package client

import (
	"context"
	"io"

	"seedbed"
)

// ImageUpload describes the image that an uploaded file becomes. The server chooses the fields that
// are empty.
type ImageUpload struct {
	Name, Pool string
	// Node is the node that receives the file. Empty means any node that has the pool.
	Node string
	// SHA256 is the digest that the file must have.
	SHA256 string
	// Format is the format that the file must have: qcow2, raw, vmdk, vdi, iso or ova.
	Format   string
	Firmware seedbed.Firmware
}

// UploadImage sends size bytes of file, and starts a job that imports them.
func (c *Client) UploadImage(ctx context.Context, u ImageUpload, file io.Reader, size seedbed.Bytes) (seedbed.Receipt, error) {
	return c.upload(ctx, at("/images", u.Name)+"/content", given(map[string]string{
		"pool": u.Pool, "node": u.Node, "sha256": u.SHA256, "format": u.Format, "firmware": string(u.Firmware),
	}), file, size)
}
