package httpserve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// Stream is a body that is read as it arrives, because it may be too large for memory. One
// goroutine must read it, within the handler. The library cannot distinguish a chunked body that
// breaks off between two chunks from a complete one. A caller that has to know needs a length, a
// digest, or a content with an end of its own.
type Stream struct {
	life  context.Context
	ctx   *fasthttp.RequestCtx
	from  io.Reader
	idle  time.Duration
	limit int64
	read  int64
	err   error
	stop  func() bool
}

// NewStream returns the body of a request, of at most limit bytes. The sender may pause for at most
// idle, and the body is cut off when life ends. If the body is known to be longer than limit,
// NewStream returns a Problem. The caller must call Close.
func NewStream(life context.Context, ctx *fasthttp.RequestCtx, limit int64, idle time.Duration) (*Stream, error) {
	s := &Stream{life: life, ctx: ctx, from: ctx.RequestBodyStream(), idle: idle, limit: limit}
	if s.from == nil || s.Length() == 0 {
		return nil, Problem{Status: fiber.StatusBadRequest, Detail: "there is no body"}
	}
	conn := ctx.Conn()
	s.stop = context.AfterFunc(life, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	if s.Length() > limit {
		return s, s.fail(s.tooLarge())
	}
	return s, nil
}

// Length returns the length of the body in bytes, or -1 if it is not known in advance.
func (s *Stream) Length() int64 { return int64(max(s.ctx.Request.Header.ContentLength(), -1)) }

func (s *Stream) tooLarge() error {
	return Problem{Status: fiber.StatusRequestEntityTooLarge, Kind: "invalid",
		Detail: "the body is larger than " + strconv.FormatInt(s.limit, 10) + " bytes"}
}

func (s *Stream) fail(err error) error {
	if s.err == nil {
		s.err = err
		s.ctx.SetConnectionClose()
	}
	return s.err
}

// Read implements io.Reader. It returns a Problem for a body that is too long, ends early or
// arrives too slowly.
func (s *Stream) Read(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if err := s.ctx.Conn().SetReadDeadline(time.Now().Add(s.idle)); err != nil {
		return 0, s.fail(err)
	}
	if s.life.Err() != nil {
		return 0, s.fail(context.Cause(s.life))
	}
	n, err := s.from.Read(b)
	s.read += int64(n)
	length := s.Length()
	timeout, slow := errors.AsType[net.Error](err)
	switch {
	case s.read > s.limit:
		return 0, s.fail(s.tooLarge())
	case err == nil:
		return n, nil
	case err == io.EOF && (length < 0 || s.read == length):
		s.ctx.SetUserValue(consumedKey, true)
		return n, io.EOF
	case s.life.Err() != nil:
		return n, s.fail(context.Cause(s.life))
	case slow && timeout.Timeout():
		return n, s.fail(Problem{Status: fiber.StatusRequestTimeout, Detail: fmt.Sprintf("nothing of the body came for %s", s.idle)})
	}
	return n, s.fail(Problem{Status: fiber.StatusBadRequest, Detail: "the body ended early or is not well chunked"})
}

// Err returns the error of the body, if there was one.
func (s *Stream) Err() error { return s.err }

// Linger reads the rest of the body of a refused request, for at most the given time. This lets a
// caller that is still sending see the answer rather than a broken connection.
func (s *Stream) Linger(most time.Duration) {
	if s.ctx.UserValue(consumedKey) != nil {
		return
	}
	s.ctx.SetConnectionClose()
	end := time.Now().Add(most)
	buf := make([]byte, 64<<10)
	for time.Now().Before(end) && s.life.Err() == nil {
		if s.ctx.Conn().SetReadDeadline(end) != nil {
			return
		}
		if _, err := s.from.Read(buf); err != nil {
			return
		}
	}
}

// Close ends the supervision of the body, which cannot be read afterwards.
func (s *Stream) Close() { s.stop() }
