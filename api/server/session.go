package server

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

const (
	sessionCookie = "session"
	sessionLength = 12 * time.Hour
)

// sessions turns a verified token, or the session of a person, into a cookie and back. The cookie is
// sealed with a key of this process, or of all control hosts if people sign in. It reveals nothing to its
// holder. The token or session is looked up for each request, so that its removal also ends the cookie's.
type sessions struct{ aead cipher.AEAD }

// newSessions returns sessions that are sealed with a key of 32 bytes.
func newSessions(key []byte) sessions { return sessions{sealing(key, "cookie of a session")} }

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

// seal returns the cookie for a secret, valid until the given time. It holds the secret and not the digest,
// which is in the database, as the key may be.
func (s sessions) seal(secret string, until time.Time) string {
	plain := append(binary.BigEndian.AppendUint64(nil, uint64(until.Unix())), secret...)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(sessionCookie)))
}

// open returns the digest of the secret that a cookie holds. ok is false if the cookie is not ours or has expired
// at now.
func (s sessions) open(cookie string, now time.Time) (sum [sha256.Size]byte, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return sum, false
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(sessionCookie))
	if err != nil || len(plain) < 8 {
		return sum, false
	}
	return sha256.Sum256(plain[8:]), now.Unix() < int64(binary.BigEndian.Uint64(plain))
}

// session returns the caller of the request's session, or nil if there is no valid session.
func (r *Router) session(c *fiber.Ctx, peer string) (*Caller, error) {
	sum, ok := r.sessions.open(c.Cookies(sessionCookie), time.Now())
	if !ok {
		return nil, nil
	}
	who, err := r.callerOf(sum, peer)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil, nil // the token or session was removed or has expired
	}
	if err != nil {
		return nil, err
	}
	who, err = r.enter(c, who)
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
	r.KeepCookie(c, secret, until)
	return nil
}

// KeepCookie makes a browser keep a session until then: that of the token or of the person with this
// secret.
func (r *Router) KeepCookie(c *fiber.Ctx, secret string, until time.Time) {
	c.Cookie(&fiber.Cookie{
		Name: sessionCookie, Value: r.sessions.seal(secret, until), Path: Prefix, Expires: until,
		Secure: r.overTLS(c), HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	})
}

// overTLS reports whether browsers reach this listener by TLS, which a proxy in front of it may end.
func (r *Router) overTLS(c *fiber.Ctx) bool {
	return c.Context().IsTLS() || r.SignIn != nil && strings.HasPrefix(r.SignIn.Redirect, "https:")
}

// EndSession ends the session of the caller's cookie. That of a person ends everywhere.
func (r *Router) EndSession(ctx context.Context, c *fiber.Ctx) error {
	if sum, ok := r.sessions.open(c.Cookies(sessionCookie), time.Now()); ok {
		s, grants, err := r.personOf(sum)
		if err == nil {
			if change := seedbed.ChangeOf(ctx); change != nil {
				change.Actor, change.Role, change.Project = s.Actor(), grants[0].Role, grants[0].Project
				change.From = c.Context().RemoteIP().String()
			}
			err = r.Store.EndSession(ctx, s.ID)
		}
		if err != nil && !errors.Is(err, seedbed.ErrNotFound) && !errors.Is(err, seedbed.ErrForbidden) {
			return err
		}
	}
	r.dropCookie(c)
	return nil
}

func (r *Router) dropCookie(c *fiber.Ctx) {
	c.Cookie(&fiber.Cookie{
		Name: sessionCookie, Path: Prefix, Expires: time.Unix(1, 0), HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	})
}
