package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"seedbed"
)

// ImageUpload says what an uploaded file is to become. What is empty is the server's choice.
type ImageUpload struct {
	Name, Pool string
	// Node is where the file is to be taken in; empty for any that has the pool.
	Node string
	// SHA256 is the digest that the file must have.
	SHA256 string
	// Format is what the file must be: qcow2, raw, vmdk, vdi, iso or ova.
	Format   string
	Firmware seedbed.Firmware
}

// UploadImage sends the size bytes that file gives, and starts an import job of them.
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
