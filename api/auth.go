package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/time/rate"

	"seedbed"
	"seedbed/internal/httpserve"
)

// authenticate lets a request pass that holds a token, as "Authorization:
// Bearer T" or "X-Api-Key: T", or has a session, before anything else of it is
// looked at. What is unguarded tells nothing worth hiding.
func (r *router) authenticate(c *fiber.Ctx) error {
	if unguarded(c.Method(), c.Path()) {
		c.Locals(callerKey, caller{role: seedbed.RoleViewer})
		return c.Next()
	}
	header := httpserve.FieldsOf(c.Context())
	peer := c.Context().RemoteIP().String()
	var who *caller
	given := false
	for _, sent := range []struct{ header, secret string }{
		{header.Get("x-api-key"), header.Get("x-api-key")},
		{header.Get("authorization"), bearer(header.Get("authorization"))},
	} {
		if sent.header == "" {
			continue
		}
		t, err := r.holder(sent.secret)
		if errors.Is(err, seedbed.ErrNotFound) {
			who, given = nil, true
			break
		}
		if err != nil {
			return err
		}
		// Of two tokens the lesser counts.
		if who == nil || !t.Role.Allows(who.role) {
			who, given = &caller{name: "token " + t.Name, role: t.Role, peer: peer, token: t.Name, quota: t.Quota, sum: sha256.Sum256([]byte(sent.secret))}, true
		}
	}
	if who == nil && !given {
		var err error
		if who, err = r.session(c, peer); err != nil {
			return err
		}
	}
	if who == nil {
		return r.unauthenticated(c, given, peer)
	}
	c.Locals(callerKey, *who)
	return c.Next()
}

// bearer is the token of an Authorization header; empty for one of another scheme.
func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

func (r *router) unauthenticated(c *fiber.Ctx, given bool, peer string) error {
	if given {
		r.Log.Warn("API request with a wrong token", "peer", peer)
		if !r.guesses.wait(r.stopping) {
			return httpserve.Problem{Status: fiber.StatusTooManyRequests, Kind: "unauthenticated", Detail: "too many wrong tokens: try again later"}
		}
	}
	c.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="seedbed"`)
	return seedbed.Errorf(seedbed.ErrUnauthenticated, "want a token of the API, as Authorization: Bearer or X-Api-Key")
}

// holder is the token whose secret that is: the configured one, or one that was
// made. ErrNotFound: there is none, or it has expired.
func (r *router) holder(secret string) (seedbed.Token, error) {
	if secret == "" {
		return seedbed.Token{}, seedbed.Errorf(seedbed.ErrNotFound, "an empty token is none")
	}
	return r.tokenOf(sha256.Sum256([]byte(secret)))
}

// tokenOf is holder by the digest of the secret.
func (r *router) tokenOf(sum [sha256.Size]byte) (seedbed.Token, error) {
	// The digests are compared in a time that tells nothing, not even of the length.
	if subtle.ConstantTimeCompare(sum[:], r.token[:]) == 1 {
		return seedbed.Token{Name: "admin", Role: seedbed.RoleAdmin}, nil
	}
	ctx, cancel := context.WithTimeout(r.base, callTimeout)
	defer cancel()
	t, err := r.Store.TokenOf(ctx, sum)
	if err == nil && t.Expired(time.Now()) {
		err = seedbed.Errorf(seedbed.ErrNotFound, "token %s has expired", t.Name)
	}
	return t, err
}

// guesses slows who tries tokens: after a burst, wrong ones are answered late,
// and at once, but with 429, when too many are waiting already. Right ones never wait.
type guesses struct {
	mu      sync.Mutex
	bucket  *rate.Limiter
	waiting int
}

const (
	guessBurst   = 20
	guessEvery   = time.Second
	guessWaiting = 16
)

// wait returns after the guess has cost its time; false when too many wait.
func (g *guesses) wait(stopping <-chan struct{}) bool {
	g.mu.Lock()
	if g.bucket == nil {
		g.bucket = rate.NewLimiter(rate.Every(guessEvery), guessBurst)
	}
	if g.bucket.Allow() {
		g.mu.Unlock()
		return true
	}
	if g.waiting == guessWaiting {
		g.mu.Unlock()
		return false
	}
	g.waiting++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
	}()
	select {
	case <-time.After(guessEvery):
	case <-stopping:
	}
	return true
}
