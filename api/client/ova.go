package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// uploadTime bounds an upload.
const uploadTime = 48 * time.Hour

// upload sends size bytes of file to path, and starts a job that imports them.
func (c *Client) upload(ctx context.Context, path string, query url.Values, file io.Reader, size seedbed.Bytes) (seedbed.Receipt, error) {
	return send[seedbed.Receipt](ctx, c, call{
		method: http.MethodPost, path: path, query: query, timeout: uploadTime,
		upload: &upload{body: io.LimitReader(file, int64(size)), size: int64(size), kind: "application/octet-stream"},
	})
}

// OVAs lists the OVA images whose names match pattern. An empty pattern matches all.
func (c *Client) OVAs(ctx context.Context, in seedbed.Scope, pattern string) ([]wire.OVA, error) {
	return matching(ctx, c, "/ovas", in, pattern, func(o wire.OVA) string { return o.Name })
}

// OVA returns an OVA image, or seedbed.ErrNotFound.
func (c *Client) OVA(ctx context.Context, name string) (wire.OVA, error) {
	return get[wire.OVA](ctx, c, at("/ovas", name), nil)
}

// UploadOVA sends size bytes of file, and starts a job that makes an OVA image of them. An empty
// pool is the default pool.
func (c *Client) UploadOVA(ctx context.Context, name, pool string, file io.Reader, size seedbed.Bytes) (seedbed.Receipt, error) {
	return c.upload(ctx, at("/ovas", name)+"/content", given(map[string]string{"pool": pool}), file, size)
}

// RemoveOVA starts a job that removes an OVA image with its disks, its system template and its
// profile.
func (c *Client) RemoveOVA(ctx context.Context, name string) (seedbed.Receipt, error) {
	return c.removal(ctx, at("/ovas", name))
}

// UploadImage sends size bytes of file, and starts a job that imports them. r.Path is not used, and
// r.Node is the node that receives the file.
func (c *Client) UploadImage(ctx context.Context, r wire.ImageRequest, file io.Reader, size seedbed.Bytes) (seedbed.Receipt, error) {
	return c.upload(ctx, at("/images", r.Name)+"/content", given(map[string]string{
		"pool": r.Pool, "node": r.Node, "sha256": r.SHA256, "format": r.Format, "firmware": string(r.Firmware),
	}), file, size)
}

// UploadVolume sends size bytes of file, and starts a job that makes a volume of the disk in them.
func (c *Client) UploadVolume(ctx context.Context, r wire.VolumeUpload, file io.Reader, size seedbed.Bytes) (seedbed.Receipt, error) {
	query := map[string]string{"pool": r.Pool, "node": r.Node, "sha256": r.SHA256, "format": r.Format}
	if r.Size > 0 {
		query["size"] = r.Size.String()
	}
	return c.upload(ctx, at("/volumes", r.Name)+"/content", given(query), file, size)
}
