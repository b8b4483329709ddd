package httpserve

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// ErrNoRoom is the error of Budget.Read when other bodies use up the budget.
var ErrNoRoom = errors.New("no room for the body")

// Budget bounds the bytes of bodies that a server holds in memory. Only the received bytes of a
// body count, so that a slow sender holds no more than it has sent. Its methods are safe for
// concurrent use. A nil Budget has no bound.
type Budget struct{ left atomic.Int64 }

// NewBudget returns a Budget of the given number of bytes.
func NewBudget(bytes int) *Budget {
	b := &Budget{}
	b.left.Store(int64(bytes))
	return b
}

func (b *Budget) take(n int) bool {
	if b == nil || b.left.Add(int64(-n)) >= 0 {
		return true
	}
	b.left.Add(int64(n))
	return false
}

func (b *Budget) give(n int) {
	if b != nil {
		b.left.Add(int64(n))
	}
}

// ReadBody reads the body, of at most limit bytes. It returns a Problem for a body that is longer,
// ends early or arrives too slowly.
func ReadBody(ctx *fasthttp.RequestCtx, limit int) ([]byte, error) {
	body, _, err := (*Budget)(nil).Read(ctx, limit)
	return body, err
}

// Read is like ReadBody, within the budget. The caller calls drop, which is never nil, to return
// the body's bytes to the budget. Read returns ErrNoRoom if the budget is used up.
func (b *Budget) Read(ctx *fasthttp.RequestCtx, limit int) (body []byte, drop func(), err error) {
	held := 0
	drop = func() {
		b.give(held)
		held = 0
	}
	defer func() {
		if err != nil {
			drop()
		}
	}()
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return nil, drop, nil
	}
	tooLarge := Problem{Status: fiber.StatusRequestEntityTooLarge, Detail: "the body is larger than " + strconv.Itoa(limit) + " bytes"}
	length := ctx.Request.Header.ContentLength() // -1 means chunked
	if length > limit {
		return nil, drop, tooLarge
	}
	body, err = readAll(stream, limit+1, func(n int) bool {
		if !b.take(n) {
			return false
		}
		held += n
		return true
	})
	if len(body) > limit {
		return nil, drop, tooLarge
	}
	if errors.Is(err, ErrNoRoom) {
		return nil, drop, err
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		ctx.SetConnectionClose()
		return nil, drop, Problem{Status: fiber.StatusRequestTimeout, Detail: "the body came too slowly"}
	}
	if err != nil || length >= 0 && len(body) != length {
		ctx.SetConnectionClose()
		return nil, drop, Problem{Status: fiber.StatusBadRequest, Detail: "the body ended early or is not well chunked"}
	}
	ctx.SetUserValue(consumedKey, true)
	return body, drop, nil
}

// readAll reads up to most bytes. Before the buffer grows, it asks more for the room.
func readAll(r io.Reader, most int, more func(n int) bool) (body []byte, err error) {
	for len(body) < most {
		if len(body) == cap(body) {
			size := min(most, max(512, 2*cap(body)))
			if !more(size - cap(body)) {
				return body, ErrNoRoom
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return body, err
		}
	}
	return body, nil
}
