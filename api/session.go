package api

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

const (
	sessionCookie = "session"
	sessionLength = 12 * time.Hour
)

// sessions turns a verified token into a cookie and back. The cookie is sealed with a key of this
// process. It reveals nothing to its holder, and becomes invalid when the process ends. The token
// is looked up for each request, so that its removal also ends the session.
type sessions struct{ aead cipher.AEAD }

func newSessions() sessions {
	var key [32]byte
	rand.Read(key[:]) // never fails (crypto/rand)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has a valid AES length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block has GCM's size
	}
	return sessions{aead}
}

// seal returns the cookie for the token with that digest, valid until the given time.
func (s sessions) seal(sum [sha256.Size]byte, until time.Time) string {
	plain := binary.BigEndian.AppendUint64(sum[:], uint64(until.Unix()))
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(sessionCookie)))
}

// open returns the digest that a cookie holds. ok is false if the cookie is not ours or has expired
// at now.
func (s sessions) open(cookie string, now time.Time) (sum [sha256.Size]byte, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return sum, false
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(sessionCookie))
	if err != nil || len(plain) != sha256.Size+8 {
		return sum, false
	}
	copy(sum[:], plain)
	return sum, now.Unix() < int64(binary.BigEndian.Uint64(plain[sha256.Size:]))
}

// login begins a session with a token. The token comes in the body, because URLs end up in logs.
// The control socket has no sessions.
func (r *router) login(_ context.Context, c *fiber.Ctx) error {
	if !r.auth {
		return welcome(c)
	}
	f, err := r.parameters(c)
	if err != nil {
		return err
	}
	f.query = nil
	secret := f.must("token", "The token to authenticate with must be specified, in the form.")
	if f.err != nil {
		return f.err
	}
	t, err := r.holder(secret)
	if err != nil {
		return r.wrongLogin(c, err)
	}
	until := time.Now().Add(sessionLength)
	if !t.Expires.IsZero() && t.Expires.Before(until) {
		until = t.Expires
	}
	c.Cookie(&fiber.Cookie{
		Name: sessionCookie, Value: r.sessions.seal(sha256.Sum256([]byte(secret)), until), Path: prefix, Expires: until,
		Secure: c.Context().IsTLS(), HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	})
	return say(c, "Authentication successful")
}

// wrongLogin answers a wrong token, after the time that a wrong guess costs.
func (r *router) wrongLogin(c *fiber.Ctx, err error) error {
	if !errors.Is(err, seedbed.ErrNotFound) {
		return err
	}
	r.Log.Warn("API login with a wrong token", "peer", c.Context().RemoteIP().String())
	if !r.guesses.wait(r.stopping) {
		return refused(fiber.StatusTooManyRequests, "Too many wrong tokens: try again later.")
	}
	return refused(fiber.StatusUnauthorized, "Authentication failed")
}

// session returns the caller of the request's session, or nil if there is no valid session.
func (r *router) session(c *fiber.Ctx, peer string) (*caller, error) {
	sum, ok := r.sessions.open(c.Cookies(sessionCookie), time.Now())
	if !ok {
		return nil, nil
	}
	t, err := r.tokenOf(sum)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil, nil // the token was removed or has expired
	}
	return &caller{name: "token " + t.Name, role: t.Role, peer: peer, token: t.Name, quota: t.Quota, sum: sum}, err
}

// logout ends the caller's session.
func (r *router) logout(_ context.Context, c *fiber.Ctx) error {
	if !r.auth {
		return welcome(c)
	}
	c.Cookie(&fiber.Cookie{Name: sessionCookie, Path: prefix, Expires: time.Unix(1, 0), HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode})
	return say(c, "Deauthentication successful")
}

// welcome redirects to the root.
func welcome(c *fiber.Ctx) error {
	c.Set(fiber.HeaderLocation, prefix+"/")
	return reply(c, fiber.StatusFound, message{pvcVersion})
}
