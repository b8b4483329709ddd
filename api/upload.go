package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// Uploads receives files for later imports.
type Uploads interface {
	// ReceiveUpload reads body to its end into a file of the pool, on the node that spec names or
	// on one that it chooses. It returns an error of body unchanged. When it fails, nothing of the
	// file stays.
	ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error)
	// DropUpload removes such a file.
	DropUpload(ctx context.Context, up seedbed.Upload) error
}

const (
	// uploadTimeout bounds one upload, including the import. uploadIdle bounds the time without
	// progress.
	uploadTimeout = 48 * time.Hour
	uploadIdle    = time.Minute
	// uploadLinger is how long the rest of a refused upload is read.
	uploadLinger = 20 * time.Second
	// uploadsAtOnce is the largest number of concurrent uploads.
	uploadsAtOnce = 8
	// defaultMaxUpload bounds a file's size unless the configuration does.
	defaultMaxUpload = 1 * seedbed.TiB
	// maxFrame bounds what a form has around its file.
	maxFrame = 64 * seedbed.KiB
)

// uploadImage receives a disk image, and starts its import.
func (r *router) uploadImage(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "image")
	if err != nil {
		return err
	}
	spec := seedbed.ImportSpec{SHA256: strings.ToLower(c.Query("sha256")), Format: c.Query("format"), Firmware: seedbed.Firmware(c.Query("firmware"))}
	if spec.SHA256, err = wantedDigest(c, spec.SHA256); err != nil {
		return err
	}
	pool := cmp.Or(c.Query("pool"), r.DefaultPool)
	if err := seedbed.CheckName("pool", pool); err != nil {
		return err
	}
	node, err := nodeQuery(c)
	if err != nil {
		return err
	}
	noteUpload(c, map[string]any{"name": n, "pool": pool, "node": node, "sha256": spec.SHA256, "format": spec.Format, "firmware": spec.Firmware})
	body, err := r.incoming(ctx, c, maxFrame)
	if body != nil {
		defer body.Close()
	}
	if err == nil {
		err = r.free(ctx, n)
	}
	var up seedbed.Upload
	if err == nil {
		up, err = r.takeIn(ctx, c, body, seedbed.UploadSpec{Pool: pool, Node: node, SHA256: spec.SHA256})
	}
	if err != nil {
		if body != nil {
			body.Linger(uploadLinger)
		}
		return err
	}
	spec.Upload, spec.SHA256, spec.Node = up.ID, up.SHA256, up.Node
	receipt, err := r.Intake.Import(ctx, n, up.Pool, spec)
	if err != nil {
		return r.unneeded(ctx, up, err)
	}
	return accepted(c, receipt)
}

// free refuses an image whose name is taken, before the file is sent.
func (r *router) free(ctx context.Context, name string) error {
	_, err := r.Store.Image(ctx, name)
	switch {
	case err == nil:
		return seedbed.Errorf(seedbed.ErrExists, "image %q exists already", name)
	case errors.Is(err, seedbed.ErrNotFound):
		return nil
	}
	return err
}

// incoming returns the body of a request that sends a file. frame is the allowance for the form
// around the file.
func (r *router) incoming(ctx context.Context, c *fiber.Ctx, frame seedbed.Bytes) (*httpserve.Stream, error) {
	if httpserve.FieldsOf(c.Context()).Get("content-encoding") != "" {
		return nil, httpserve.Problem{Status: fiber.StatusUnsupportedMediaType, Detail: "Content-Encoding is not supported: send the file as it is"}
	}
	return httpserve.NewStream(ctx, c.Context(), int64(cmp.Or(r.MaxUpload, defaultMaxUpload)+frame), uploadIdle)
}

// takeIn passes the file to a worker. The file is the body or, in a form, the first file part.
func (r *router) takeIn(ctx context.Context, c *fiber.Ctx, body *httpserve.Stream, spec seedbed.UploadSpec) (seedbed.Upload, error) {
	if r.Uploads == nil {
		return seedbed.Upload{}, seedbed.Errorf(seedbed.ErrUnavailable, "there is no worker that takes in files")
	}
	select {
	case r.uploads <- struct{}{}:
		defer func() { <-r.uploads }()
	default:
		return seedbed.Upload{}, seedbed.Errorf(seedbed.ErrUnavailable, "%d uploads are under way: wait for the end of one", uploadsAtOnce)
	}
	spec.ID = rand.Text()
	file, rest, err := fileOf(c, body)
	if err != nil {
		return seedbed.Upload{}, err
	}
	if rest == nil && spec.SHA256 == "" && body.Length() < 0 {
		return seedbed.Upload{}, httpserve.Problem{Status: fiber.StatusLengthRequired,
			Detail: "a file whose length is not known could end early unseen: want Content-Length, or the file's sha256"}
	}
	if rest == nil && spec.Size == 0 {
		spec.Size = seedbed.Bytes(max(body.Length(), 0))
	}
	up, err := r.Uploads.ReceiveUpload(ctx, spec, &bounded{from: file, left: int64(cmp.Or(r.MaxUpload, defaultMaxUpload))})
	if broken := body.Err(); broken != nil {
		return up, broken // why the worker did not get the whole file
	}
	if err == nil && rest != nil {
		err = rest()
		if broken := body.Err(); broken != nil {
			err = broken
		}
		if err != nil {
			return up, r.unneeded(ctx, up, err)
		}
	}
	return up, err
}

// unneeded removes a received file that will not be used, and returns why.
func (r *router) unneeded(ctx context.Context, up seedbed.Upload, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := r.Uploads.DropUpload(ctx, up); err != nil {
		r.Log.Warn("uploaded file stays for now", "pool", up.Pool, "upload", up.ID, "err", err)
	}
	return why
}

// noteUpload stores the input of an upload for the audit log.
func noteUpload(c *fiber.Ctx, asked map[string]any) {
	if raw, err := json.Marshal(asked); err == nil {
		noteAsked(c, raw)
	}
}
