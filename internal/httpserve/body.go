package httpserve

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// ErrNoRoom is the error of Budget.Read when other bodies use up the budget. ErrShare is its error
// when those of the same peer use up that peer's share.
var (
	ErrNoRoom = errors.New("no room for the body")
	ErrShare  = errors.New("the bodies of this peer use up its share of the memory")
)

// Budget bounds the bytes of bodies that a server holds in memory, and how many of them one peer may
// have. Only the received bytes of a body count, so that a slow sender holds no more than it has
// sent. Its methods are safe for concurrent use. A nil Budget has no bound.
type Budget struct {
	mu    sync.Mutex
	left  int
	share int
	peers map[netip.Prefix]int
}

// NewBudget returns a Budget of the given number of bytes, of which one peer may have share.
func NewBudget(bytes, share int) *Budget {
	return &Budget{left: bytes, share: share, peers: map[netip.Prefix]int{}}
}

// take charges n bytes to the peer; the zero prefix has no share.
func (b *Budget) take(peer netip.Prefix, n int) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case peer.IsValid() && b.peers[peer]+n > b.share:
		return ErrShare
	case n > b.left:
		return ErrNoRoom
	}
	b.left -= n
	if peer.IsValid() {
		b.peers[peer] += n
	}
	return nil
}

func (b *Budget) give(peer netip.Prefix, n int) {
	if b == nil || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	if !peer.IsValid() {
		return
	}
	if b.peers[peer] -= n; b.peers[peer] == 0 {
		delete(b.peers, peer)
	}
}

// ReadBody reads the body, of at most limit bytes. It returns a Problem for a body that is longer,
// ends early or arrives too slowly.
func ReadBody(ctx *fasthttp.RequestCtx, limit int) ([]byte, error) {
	body, _, err := (*Budget)(nil).Read(ctx, netip.Prefix{}, limit)
	return body, err
}

// Read is like ReadBody, within the budget and the peer's share of it; PeerOf returns the peer. The
// caller calls drop, which is never nil, to return the body's bytes to the budget. Read returns
// ErrNoRoom or ErrShare if the budget or the share is used up.
func (b *Budget) Read(ctx *fasthttp.RequestCtx, peer netip.Prefix, limit int) (body []byte, drop func(), err error) {
	held := 0
	drop = func() {
		b.give(peer, held)
		held = 0
	}
	err = receive(ctx, limit, func(stream io.Reader) (n int, err error) {
		body, err = readAll(stream, limit+1, func(n int) error {
			err := b.take(peer, n)
			if err == nil {
				held += n
			}
			return err
		})
		return len(body), err
	})
	if err != nil {
		drop()
		return nil, drop, err
	}
	return body, drop, nil
}

// DiscardBody is like ReadBody, but keeps nothing of the body: it writes it to w, which must not
// fail, as it arrives.
func DiscardBody(ctx *fasthttp.RequestCtx, limit int, w io.Writer) error {
	return receive(ctx, limit, func(stream io.Reader) (int, error) {
		n, err := io.CopyN(w, stream, int64(limit)+1)
		if err == io.EOF {
			err = nil
		}
		return int(n), err
	})
}

// receive has read read the body, of which it wants at most limit+1 bytes. read returns how many
// bytes it has read. The errors are those of ReadBody, and the budget's.
func receive(ctx *fasthttp.RequestCtx, limit int, read func(io.Reader) (int, error)) error {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return nil
	}
	tooLarge := Problem{Status: fiber.StatusRequestEntityTooLarge, Detail: "the body is larger than " + strconv.Itoa(limit) + " bytes"}
	length := ctx.Request.Header.ContentLength() // -1 means chunked
	if length > limit {
		return tooLarge
	}
	n, err := read(stream)
	if n > limit {
		return tooLarge
	}
	if errors.Is(err, ErrNoRoom) || errors.Is(err, ErrShare) {
		return err
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		ctx.SetConnectionClose()
		return Problem{Status: fiber.StatusRequestTimeout, Detail: "the body came too slowly"}
	}
	if err != nil || length >= 0 && n != length {
		ctx.SetConnectionClose()
		return Problem{Status: fiber.StatusBadRequest, Detail: "the body ended early or is not well chunked"}
	}
	ctx.SetUserValue(consumedKey, true)
	return nil
}

// readAll reads up to most bytes. Before the buffer grows, it asks more for the room.
func readAll(r io.Reader, most int, more func(n int) error) (body []byte, err error) {
	for len(body) < most {
		if len(body) == cap(body) {
			size := min(most, max(512, 2*cap(body)))
			if err := more(size - cap(body)); err != nil {
				return body, err
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
