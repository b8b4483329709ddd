package server

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"
	"seedbed/internal/sleep"

	"github.com/gofiber/fiber/v2"
)

// The header fields of requests with an idempotency key, and of answers that were given before.
const (
	idempotencyKey = "Idempotency-Key"
	replayed       = "Idempotent-Replayed"
)

const (
	// keyLeast and keyMost bound the length of an idempotency key. It also protects the answer, so it
	// must not be easy to guess.
	keyLeast, keyMost = 16, 255
	// onceWait is how long a request waits for another one with its key.
	onceWait = 10 * time.Second
	// endTime bounds the keeping of an answer.
	endTime = 5 * time.Second
)

// kept holds the header fields of an answer that are kept with it.
var kept = []string{fiber.HeaderContentType, fiber.HeaderLocation, fiber.HeaderETag, fiber.HeaderCacheControl}

// keptAnswer is an answer as it is kept, sealed.
type keptAnswer struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   []byte            `json:"body"`
}

// once returns a handler that carries out requests with the same idempotency key once, and answers
// each of them alike. most bounds a request's body; if it is 0, the body is not read, and what
// identifies the request is its length and its digest fields.
func (r *Router) once(h Handler, most int) Handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		key := httpserve.FieldsOf(c.Context()).Get("idempotency-key")
		change, ok := c.Locals(changeKey).(*seedbed.Change)
		if key == "" || !ok {
			return h(ctx, c)
		}
		if err := checkKey(key); err != nil {
			return err
		}
		digest, err := digestOf(c, most)
		if err != nil {
			return err
		}
		who := CallerOf(c)
		safe := newSafe(who, key)
		k := seedbed.KeyedRequest{ID: safe.id, Digest: digest}
		var answer []byte
		var busy error
		err = r.HoldBack(ctx, onceWait, func() (bool, error) {
			begun, was, err := r.Store.BeginRequest(ctx, k, seedbed.RequestSilence)
			if busy = nil; errors.Is(err, seedbed.ErrInUse) { // another one carries it out
				busy = err
				return false, nil
			}
			k, answer = begun, was
			return true, err
		})
		if err != nil {
			return err
		}
		if busy != nil {
			c.Set(fiber.HeaderRetryAfter, "1")
			return busy
		}
		if answer != nil {
			return safe.replay(c, answer)
		}
		change.Keyed = &k
		return r.carryOut(ctx, c, h, k, safe)
	}
}

// carryOut calls h, and keeps its answer.
func (r *Router) carryOut(ctx context.Context, c *fiber.Ctx, h Handler, k seedbed.KeyedRequest, safe safe) error {
	life, stop := context.WithCancel(ctx)
	defer stop()
	go r.renew(life, k)
	err := h(ctx, c)
	failed := err != nil || c.Response().StatusCode() >= fiber.StatusBadRequest
	if err != nil {
		if err := r.fail(c, err); err != nil {
			return err
		}
	}
	stop()
	answer, err := safe.seal(c)
	if err != nil {
		return err
	}
	// The answer is kept also if the caller has gone, or the server stops.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if err := r.Store.EndRequest(seedbed.WithChange(end, nil), k, answer, failed); err != nil {
		r.Log.Warn("the answer to a request with an idempotency key is not kept", "path", seedbed.Clip(c.Path()), "err", err)
	}
	return nil
}

// renew says every few seconds, until ctx ends, that the request is being carried out.
func (r *Router) renew(ctx context.Context, k seedbed.KeyedRequest) {
	for sleep.For(ctx, seedbed.RequestRenewal) {
		if err := r.Store.RenewRequest(seedbed.WithChange(ctx, nil), k); err != nil && ctx.Err() == nil {
			r.Log.Warn("a request with an idempotency key is not renewed", "err", err)
		}
	}
}

// checkKey returns ErrInvalid for a key that is too short or too long, or has bytes that are not
// visible ASCII.
func checkKey(key string) error {
	visible := true
	for i := range len(key) {
		visible = visible && key[i] > ' ' && key[i] <= '~'
	}
	if len(key) < keyLeast || len(key) > keyMost || !visible {
		return seedbed.Errorf(seedbed.ErrInvalid,
			"%s has %d bytes: expected %d to %d visible ASCII characters that nobody can guess, such as a random UUID",
			idempotencyKey, len(key), keyLeast, keyMost)
	}
	return nil
}

// digestOf returns the digest of a request. It reads the body, unless most is 0, and puts it back for
// the handler.
func digestOf(c *fiber.Ctx, most int) (sum [sha256.Size]byte, err error) {
	fields := httpserve.FieldsOf(c.Context())
	all := []string{c.Method(), c.OriginalURL(), fields.Get("content-type"), fields.Get("if-match"), fields.Get("prefer"),
		CallerOf(c).Project}
	if most == 0 {
		all = append(all, fmt.Sprint(c.Request().Header.ContentLength()), fields.Get("content-digest"), fields.Get("repr-digest"),
			fields.Get("digest"))
	} else {
		body, err := httpserve.ReadBody(c.Context(), most)
		if err != nil {
			return sum, err
		}
		all = append(all, string(body))
		c.Request().SetBodyStream(bytes.NewReader(body), len(body))
	}
	text, err := json.Marshal(all)
	return sha256.Sum256(text), err
}

// safe seals the answer to one request. The key to it is derived from the idempotency key, of which
// the database has only a digest.
type safe struct {
	id   [sha256.Size]byte
	aead cipher.AEAD
}

func newSafe(who Caller, key string) safe {
	derive := func(info string) []byte {
		b, err := hkdf.Key(sha256.New, []byte(key), append([]byte(who.Name+"\x00"), who.sum[:]...), info, sha256.Size)
		if err != nil {
			panic(err) // only for a key that is too long
		}
		return b
	}
	return safe{
		[sha256.Size]byte(derive("seedbed: request with an idempotency key")),
		newAEAD(derive("seedbed: answer to a request with an idempotency key")),
	}
}

// seal returns the answer of c.
func (s safe) seal(c *fiber.Ctx) ([]byte, error) {
	a := keptAnswer{Status: c.Response().StatusCode(), Header: map[string]string{}, Body: c.Response().Body()}
	for _, name := range kept {
		if v := c.GetRespHeader(name); v != "" {
			a.Header[name] = v
		}
	}
	plain, err := json.Marshal(a)
	return s.aead.Seal(nil, nil, plain, s.id[:]), err
}

// replay answers c with a sealed answer.
func (s safe) replay(c *fiber.Ctx, sealed []byte) error {
	var a keptAnswer
	plain, err := s.aead.Open(nil, nil, sealed, s.id[:])
	if err == nil {
		err = json.Unmarshal(plain, &a)
	}
	if err != nil {
		return fmt.Errorf("read the answer that was kept: %w", err)
	}
	for name, v := range a.Header {
		c.Set(name, v)
	}
	c.Set(replayed, "true")
	return c.Status(a.Status).Send(a.Body)
}
