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

// sessions turns a token that was proven into a cookie and back. The cookie is
// sealed under a key of this process: it tells its holder nothing, and ends with
// the process. The token is looked up each time, so that revoking it counts.
type sessions struct{ aead cipher.AEAD }

func newSessions() sessions {
	var key [32]byte
	rand.Read(key[:]) // never fails (crypto/rand)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has a length that AES takes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block has the size that GCM takes
	}
	return sessions{aead}
}

// seal is the cookie of the token with that digest, until then.
func (s sessions) seal(sum [sha256.Size]byte, until time.Time) string {
	plain := binary.BigEndian.AppendUint64(sum[:], uint64(until.Unix()))
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(sessionCookie)))
}

// open is the digest that a cookie holds; false for one that is not ours or is over at now.
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

// login begins a session with a token, which comes in the body: what is in a
// URL ends up in logs. On the control socket there is nothing to log in to.
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

// wrongLogin answers a token that is none, which costs its time.
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

// session is whoever has a session; nil without one that counts.
func (r *router) session(c *fiber.Ctx, peer string) (*caller, error) {
	sum, ok := r.sessions.open(c.Cookies(sessionCookie), time.Now())
	if !ok {
		return nil, nil
	}
	t, err := r.tokenOf(sum)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil, nil // it was revoked, or is over
	}
	return &caller{name: "token " + t.Name, role: t.Role, peer: peer, token: t.Name, quota: t.Quota, sum: sum}, err
}

// logout ends the session of whoever asks.
func (r *router) logout(_ context.Context, c *fiber.Ctx) error {
	if !r.auth {
		return welcome(c)
	}
	c.Cookie(&fiber.Cookie{Name: sessionCookie, Path: prefix, Expires: time.Unix(1, 0), HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode})
	return say(c, "Deauthentication successful")
}

// welcome leads to the root.
func welcome(c *fiber.Ctx) error {
	c.Set(fiber.HeaderLocation, prefix+"/")
	return reply(c, fiber.StatusFound, message{pvcVersion})
}
