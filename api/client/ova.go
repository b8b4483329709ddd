package client

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"seedbed"
)

// OVA is an OVA image, as PVC shows it.
type OVA struct {
	ID      int64       `json:"id"`
	Name    string      `json:"name"`
	Volumes []OVAVolume `json:"volumes"`
}

// OVAVolume is one disk of an OVA image. SizeGB is in GiB.
type OVAVolume struct {
	Pool   string `json:"pool"`
	Name   string `json:"volume_name"`
	Format string `json:"volume_format"`
	DiskID string `json:"disk_id"`
	SizeGB int64  `json:"disk_size_gb"`
}

// OVAs lists the OVA images whose names match limit. An empty limit matches all.
func (c *Client) OVAs(ctx context.Context, limit string) ([]OVA, error) {
	return matching[OVA](ctx, c, "/ova", limit)
}

// RemoveOVA removes an OVA image.
func (c *Client) RemoveOVA(ctx context.Context, name string) (string, error) {
	return c.tell(ctx, http.MethodDelete, at("/ova", name), nil)
}

// uploadTime bounds an upload.
const uploadTime = 48 * time.Hour

// UploadOVA makes an OVA image in the pool from size bytes of file. It sends them as the only part
// of a form, as PVC's API requires.
func (c *Client) UploadOVA(ctx context.Context, name, pool string, file io.Reader, size seedbed.Bytes) (string, error) {
	var frame bytes.Buffer
	form := multipart.NewWriter(&frame)
	if _, err := form.CreateFormFile("file", "filename"); err != nil {
		return "", err
	}
	head := bytes.Clone(frame.Bytes())
	frame.Reset()
	if err := form.Close(); err != nil {
		return "", err
	}
	var s said
	err := c.do(ctx, call{
		method: http.MethodPost, path: at(provisioner+"/ova", name), timeout: uploadTime, answer: &s,
		query: url.Values{"pool": {pool}, "ova_size": {strconv.FormatInt(int64(size), 10)}},
		upload: &upload{
			body: io.MultiReader(bytes.NewReader(head), io.LimitReader(file, int64(size)), bytes.NewReader(frame.Bytes())),
			size: int64(len(head)) + int64(size) + int64(frame.Len()), kind: form.FormDataContentType(),
		},
	})
	return s.Message, err
}
