package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

const (
	// UploadTimeout bounds one upload, including the import. uploadIdle bounds the time without
	// progress.
	UploadTimeout = 48 * time.Hour
	uploadIdle    = time.Minute
	// UploadLinger is how long the rest of a refused upload is read.
	UploadLinger = 20 * time.Second
	// uploadsMost is the largest number of concurrent uploads, and uploadsEach that of one caller.
	uploadsMost = 8
	uploadsEach = 4
	// DefaultMaxUpload bounds a file's size unless the configuration does.
	DefaultMaxUpload = 1 * seedbed.TiB
	// MaxFrame bounds what a form has around its file.
	MaxFrame = 64 * seedbed.KiB
)

// Incoming returns the body of a request that sends a file. frame is the allowance for the form
// around the file.
func (r *Router) Incoming(ctx context.Context, c *fiber.Ctx, frame seedbed.Bytes) (*httpserve.Stream, error) {
	if httpserve.FieldsOf(c.Context()).Get("content-encoding") != "" {
		return nil, httpserve.Problem{
			Status: fiber.StatusUnsupportedMediaType, Detail: "Content-Encoding is not supported: send the file as it is",
		}
	}
	return httpserve.NewStream(ctx, c.Context(), int64(cmp.Or(r.MaxUpload, DefaultMaxUpload)+frame), uploadIdle)
}

// TakeIn passes the file to a worker. The file is the body or, in a form, the first file part.
func (r *Router) TakeIn(ctx context.Context, c *fiber.Ctx, body *httpserve.Stream, spec seedbed.UploadSpec) (seedbed.Upload, error) {
	if r.Uploads == nil {
		return seedbed.Upload{}, seedbed.Errorf(seedbed.ErrUnavailable, "no worker accepts uploads")
	}
	who := CallerOf(c).Name
	if !r.uploads.enter(who) {
		return seedbed.Upload{}, seedbed.Errorf(seedbed.ErrUnavailable,
			"too many uploads are under way: %s may have %d, and all together %d: wait for the end of one", who, uploadsEach, uploadsMost)
	}
	defer r.uploads.leave(who)
	spec.ID = rand.Text()
	file, rest, err := fileOf(c, body)
	if err != nil {
		return seedbed.Upload{}, err
	}
	if rest == nil && spec.SHA256 == "" && body.Length() < 0 {
		return seedbed.Upload{}, httpserve.Problem{Status: fiber.StatusLengthRequired,
			Detail: "a file of unknown length could end early unnoticed: expected Content-Length, or the file's sha256"}
	}
	if rest == nil && spec.Size == 0 {
		spec.Size = seedbed.Bytes(max(body.Length(), 0))
	}
	up, err := r.Uploads.ReceiveUpload(ctx, spec, &bounded{from: file, left: int64(cmp.Or(r.MaxUpload, DefaultMaxUpload))})
	if broken := body.Err(); broken != nil {
		return up, broken // why the worker did not get the whole file
	}
	if err == nil && rest != nil {
		err = rest()
		if broken := body.Err(); broken != nil {
			err = broken
		}
		if err != nil {
			return up, r.Unneeded(ctx, up, err)
		}
	}
	return up, err
}

// Unneeded removes a received file that will not be used, and returns why.
func (r *Router) Unneeded(ctx context.Context, up seedbed.Upload, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
	defer cancel()
	if err := r.Uploads.DropUpload(ctx, up); err != nil {
		r.Log.Warn("uploaded file stays for now", "pool", up.Pool, "upload", up.ID, "err", err)
	}
	return why
}

// NoteUpload stores the input of an upload for the audit log.
func NoteUpload(c *fiber.Ctx, asked map[string]any) {
	if raw, err := json.Marshal(asked); err == nil {
		NoteAsked(c, raw)
	}
}
