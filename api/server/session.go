package server

import (
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
	return sessions{newAEAD(key[:])}
}

// newAEAD returns AES-256-GCM with that key of 32 bytes, which draws its nonces.
func newAEAD(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has a valid AES length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block has GCM's size
	}
	return aead
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

// session returns the caller of the request's session, or nil if there is no valid session.
func (r *Router) session(c *fiber.Ctx, peer string) (*Caller, error) {
	sum, ok := r.sessions.open(c.Cookies(sessionCookie), time.Now())
	if !ok {
		return nil, nil
	}
	t, err := r.tokenOf(sum)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil, nil // the token was removed or has expired
	}
	if err != nil {
		return nil, err
	}
	who, err := r.enter(c, callerWith(t, peer, sum))
	return &who, err
}

// NewSession begins a session of the holder of a token. It returns ErrNotFound for a wrong token.
func (r *Router) NewSession(c *fiber.Ctx, secret string) error {
	t, err := r.holder(secret)
	if err != nil {
		return err
	}
	until := time.Now().Add(sessionLength)
	if !t.Expires.IsZero() && t.Expires.Before(until) {
		until = t.Expires
	}
	c.Cookie(&fiber.Cookie{
		Name: sessionCookie, Value: r.sessions.seal(sha256.Sum256([]byte(secret)), until), Path: Prefix, Expires: until,
		Secure: c.Context().IsTLS(), HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	})
	return nil
}

// EndSession ends the caller's session.
func EndSession(c *fiber.Ctx) {
	c.Cookie(&fiber.Cookie{
		Name: sessionCookie, Path: Prefix, Expires: time.Unix(1, 0), HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	})
}
