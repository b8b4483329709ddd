package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"

	"seedbed"
	"seedbed/internal/httpserve"
	"seedbed/provision/backup"
	"seedbed/provision/effects"
)

// Spooler receives uploaded files for later imports, and keeps files that are downloaded.
type Spooler interface {
	// ReceiveUpload writes body to a file of the pool's own and returns what the file contains.
	// After an error nothing of it is left. Errors: ErrInvalid for a file that cannot be imported
	// or whose size or digest is not that of spec, ErrExists for an ID that is taken, ErrFull
	// without room, and otherwise the error that body returned.
	ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error)
	// OpenUpload opens the disk in such a file, which stays, for reading. The file must have that format, qcow2 or raw; empty means
	// either. Errors: ErrInvalid if it is not a usable disk, or is no longer there, ErrFull without room.
	OpenUpload(ctx context.Context, id, format string) (backup.Source, error)
	// WriteDownload writes a disk to a file of that format, qcow2 or raw, from which it is downloaded, and returns the size of the
	// file. Files of the same volume, whose IDs begin with the same 32 digits, are removed. A second call writes it again. Errors:
	// ErrFull without room. progress may be nil.
	WriteDownload(ctx context.Context, id, format string, disk backup.Source, progress func(seedbed.Progress)) (seedbed.Bytes, error)
	// OpenDownload opens such a file. It returns ErrNotFound if there is none.
	OpenDownload(ctx context.Context, id string) (io.ReadCloser, error)
	// DropUpload removes an uploaded file, or one to be downloaded; an absent file counts as removed.
	DropUpload(ctx context.Context, id string) error
}

const (
	// uploadIdle is how long an upload may make no progress.
	uploadIdle = time.Minute
	// maxUploadHead limits the line before the file, in bytes.
	maxUploadHead = 4 << 10
)

// callBody reads the request of a call without a file.
func callBody(c *fiber.Ctx) ([]byte, error) {
	raw, err := httpserve.ReadBody(c.Context(), effects.MaxRequest)
	if p, ok := errors.AsType[httpserve.Problem](err); ok {
		return nil, fiber.NewError(p.Status, p.Detail)
	}
	return raw, err
}

// receive receives a file. It reads the file in the handler, because the library releases a
// request's body when the handler returns.
func (s *Server) receive(base context.Context, c *fiber.Ctx) error {
	s.calls.Add(1)
	defer s.calls.Done()
	c.Context().SetConnectionClose()
	stream := c.Context().RequestBodyStream()
	if stream == nil {
		return fiber.NewError(fiber.StatusBadRequest, "the call is not readable: it has no body")
	}
	conn := c.Context().Conn()
	stop := context.AfterFunc(base, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	body := bufio.NewReaderSize(&patient{ctx: base, from: stream, conn: conn}, maxUploadHead)
	head, err := body.ReadSlice('\n')
	var spec seedbed.UploadSpec
	if err == nil {
		err = json.Unmarshal(head, &spec)
	}
	if err != nil {
		return fiber.NewError(fiber.StatusBadRequest, "the call is not readable: "+err.Error())
	}
	answer := effects.Line{}
	start := time.Now()
	up, err := s.takeIn(base, spec, effects.NewUnframed(body))
	s.log.Debug("upload", "pool", spec.Pool, "upload", spec.ID, "size", up.Size, "took", time.Since(start), "err", err)
	if err != nil {
		answer = effects.FailureLine(base, err)
	} else if answer.Result, err = json.Marshal(up); err != nil {
		return err
	}
	b, err := encode(answer)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, contentType)
	return c.Send(b)
}

// takeIn has the pool receive the file. It turns a panic of the driver into an error of the call.
func (s *Server) takeIn(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (up seedbed.Upload, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("driver panicked", "upload", spec.ID, "panic", r)
			err = fmt.Errorf("the driver panicked: %v", r)
		}
	}()
	pool, err := s.pool(spec.Pool)
	if err != nil {
		return up, err
	}
	return pool.ReceiveUpload(ctx, spec, body)
}

// patient reads from a connection as long as data keeps arriving.
type patient struct {
	ctx  context.Context
	from io.Reader
	conn net.Conn
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(uploadIdle)); err != nil {
		return 0, err
	}
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	return p.from.Read(b)
}
