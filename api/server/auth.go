package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/time/rate"

	"seedbed"
	"seedbed/internal/header"
	"seedbed/internal/httpserve"
)

// authenticate admits a request that holds a token ("Authorization: Bearer T" or "X-Api-Key: T") or
// has a session. It runs before anything else of the request is read. Unguarded paths reveal
// nothing secret.
func (r *Router) authenticate(c *fiber.Ctx) error {
	if r.isOpen(c) {
		c.Locals(callerKey, Caller{Project: seedbed.DefaultProject, Home: true})
		return c.Next()
	}
	fields := httpserve.FieldsOf(c.Context())
	peer := c.Context().RemoteIP().String()
	var who *Caller
	given := false
	for _, sent := range []struct{ header, secret string }{
		{fields.Get("x-api-key"), fields.Get("x-api-key")},
		{fields.Get("authorization"), bearer(fields.Get("authorization"))},
	} {
		if sent.header == "" {
			continue
		}
		holder, err := r.callerWith(sent.secret, peer)
		if errors.Is(err, seedbed.ErrNotFound) {
			who, given = nil, true
			break
		}
		if err != nil {
			return err
		}
		if holder, err = r.enter(c, holder); err != nil {
			return err
		}
		// If two tokens were sent, the first one counts only if the second may do all that it may.
		if who == nil || len(who.Actions().Without(holder.Actions())) > 0 {
			who, given = &holder, true
		}
	}
	if who == nil && !given {
		var err error
		if who, err = r.session(c, peer); err != nil {
			return err
		}
		if who != nil && foreignPage(c, fields) {
			return seedbed.Errorf(seedbed.ErrForbidden,
				"a page of another origin sent this with the cookie of a session: send a token in X-Api-Key instead")
		}
	}
	if who == nil {
		return r.unauthenticated(c, given, peer)
	}
	if err := r.slow(c, *who); err != nil {
		return err
	}
	c.Locals(callerKey, *who)
	return c.Next()
}

// slow refuses a request with 429 if the caller's project is above its rate. The admins of the installation
// are not slowed down, whatever project they act in.
func (r *Router) slow(c *fiber.Ctx, who Caller) error {
	if who.May(seedbed.ActionProjectEnter) {
		return nil
	}
	rates, err := r.Store.ProjectRates(r.base, who.Project)
	if err != nil {
		return err
	}
	wait := r.rates.Enter(who.Project, rates.Requests(), time.Now())
	if wait == 0 {
		return nil
	}
	c.Set(fiber.HeaderRetryAfter, httpserve.Seconds(wait))
	return httpserve.Problem{Status: fiber.StatusTooManyRequests, Kind: "unavailable",
		Detail: fmt.Sprintf("project %q is above its rate of %g requests per second to the API: try again later", who.Project, rates.APIRate)}
}

// callerWith returns the holder of a secret: of a token, or of the session of a person. It returns
// ErrNotFound if there is none, or it has expired.
func (r *Router) callerWith(secret, peer string) (Caller, error) {
	if secret == "" {
		return Caller{}, errEmptyToken
	}
	return r.callerOf(sha256.Sum256([]byte(secret)), peer)
}

// callerOf is like callerWith, but takes the digest of the secret.
func (r *Router) callerOf(sum [sha256.Size]byte, peer string) (Caller, error) {
	t, err := r.tokenOf(sum)
	if err == nil {
		return Caller{Name: "token " + t.Name, Grants: t.AllGrants(), peer: peer, token: t.Name, quota: t.Quota, sum: sum}, nil
	}
	if !errors.Is(err, seedbed.ErrNotFound) {
		return Caller{}, err
	}
	s, grants, err := r.personOf(sum)
	if err != nil {
		return Caller{}, err
	}
	return Caller{Name: s.Actor(), Grants: grants, Session: s, peer: peer, sum: sum}, nil
}

// ForeignPage reports whether a browser sent a request that may change something for a page of another
// origin.
func (r *Router) ForeignPage(c *fiber.Ctx) bool {
	return foreignPage(c, httpserve.FieldsOf(c.Context()))
}

// foreignPage reports whether a browser sent a request that may change something for a page of another
// origin. The cookie's SameSite does not keep out pages of another port of this host.
func foreignPage(c *fiber.Ctx, h header.Fields) bool {
	if c.Method() == fiber.MethodGet || c.Method() == fiber.MethodHead {
		return false
	}
	switch site := h.Get("sec-fetch-site"); site {
	case "": // an older browser, or none
	case "same-origin", "none":
		return false
	default:
		return true
	}
	origin := h.Get("origin")
	_, host, _ := strings.Cut(origin, "://")
	return origin != "" && !strings.EqualFold(host, h.Get("host"))
}

// bearer returns the token of an Authorization header, or an empty string for another scheme.
func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

func (r *Router) unauthenticated(c *fiber.Ctx, given bool, peer string) error {
	if given {
		r.Log.Warn("API request with a wrong token", "peer", peer)
		if !r.SlowGuess() {
			return httpserve.Problem{Status: fiber.StatusTooManyRequests, Kind: "unauthenticated", Detail: "too many wrong tokens: try again later"}
		}
	}
	c.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="seedbed"`)
	if given {
		return seedbed.Errorf(seedbed.ErrUnauthenticated,
			"the token is not one of this API, or has expired (seedbed: SEEDBED_TOKEN or --token-file, seedbed login; seedbed token list)")
	}
	return seedbed.Errorf(seedbed.ErrUnauthenticated,
		"a token of the API is required, as Authorization: Bearer or X-Api-Key (seedbed: SEEDBED_TOKEN or --token-file, or seedbed login)")
}

var errEmptyToken = seedbed.Errorf(seedbed.ErrNotFound, "an empty token is not a token")

// holder returns the token with that secret: the configured one, or one that was created. It
// returns ErrNotFound if the token does not exist or has expired.
func (r *Router) holder(secret string) (seedbed.Token, error) {
	if secret == "" {
		return seedbed.Token{}, errEmptyToken
	}
	return r.tokenOf(sha256.Sum256([]byte(secret)))
}

// tokenOf is like holder, but takes the digest of the secret.
func (r *Router) tokenOf(sum [sha256.Size]byte) (seedbed.Token, error) {
	// The comparison of digests takes constant time, so that it reveals nothing, not even the
	// length.
	if subtle.ConstantTimeCompare(sum[:], r.token[:]) == 1 {
		return seedbed.Token{Name: "admin", Project: seedbed.DefaultProject, Role: seedbed.RoleAdmin}, nil
	}
	ctx, cancel := context.WithTimeout(r.base, CallTimeout)
	defer cancel()
	t, err := r.Store.TokenOf(ctx, sum)
	if err == nil && t.Expired(time.Now()) {
		err = seedbed.Errorf(seedbed.ErrNotFound, "token %s has expired", t.Name)
	}
	return t, err
}

// Guarded reports whether callers need a token. On the control socket, they do not.
func (r *Router) Guarded() bool { return r.auth }

// SlowGuess waits for the time that a wrong guess costs. It returns false when too many callers wait.
func (r *Router) SlowGuess() bool { return r.guesses.wait(r.stopping) }

// guesses slows down callers who try tokens. After a burst, wrong tokens are answered late. When
// too many callers already wait, they are answered at once with 429. Right tokens never wait.
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

// wait blocks for the time that a wrong guess costs. It returns false when too many callers wait.
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
