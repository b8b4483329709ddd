package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

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
	query := url.Values{}
	for name, value := range map[string]string{"pool": u.Pool, "node": u.Node, "sha256": u.SHA256, "format": u.Format, "firmware": string(u.Firmware)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var r seedbed.Receipt
	err := c.do(ctx, call{
		method: http.MethodPost, path: at("/images", u.Name) + "/content", query: query, timeout: uploadTime, answer: &r,
		upload: &upload{body: io.LimitReader(file, int64(size)), size: int64(size), kind: "application/octet-stream"},
	})
	return r, err
}
