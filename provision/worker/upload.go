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
	"seedbed/provision/effects"
)

// Spooler takes in files that are uploaded, for imports to come.
type Spooler interface {
	// ReceiveUpload writes what body gives into a file of the pool's own and tells
	// what it is. Whatever the error, nothing of it stays. Errors: ErrInvalid for a file that
	// has another size or digest than spec says or cannot be imported, ErrExists for an
	// ID that is taken, ErrFull without room, else what body returned.
	ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error)
	// DropUpload removes such a file; one that is absent is removed already.
	DropUpload(ctx context.Context, id string) error
}

const (
	// uploadIdle is how long an upload may stand still.
	uploadIdle = time.Minute
	// maxUploadHead bounds the line before the file, in bytes.
	maxUploadHead = 4 << 10
)

// callBody reads the request of a call that has no file after it.
func callBody(c *fiber.Ctx) ([]byte, error) {
	raw, err := httpserve.ReadBody(c.Context(), effects.MaxRequest)
	if p, ok := errors.AsType[httpserve.Problem](err); ok {
		return nil, fiber.NewError(p.Status, p.Detail)
	}
	return raw, err
}

// receive takes in a file. It is read in the handler, since the library lets go
// of a request's body when that returns.
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

// takeIn has the pool take in the file. A panic of its driver is an error of the call.
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

// patient reads from a connection as long as something comes.
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
