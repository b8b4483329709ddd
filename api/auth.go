package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// authenticate lets a request pass that holds the token, as "Authorization:
// Bearer T" or "X-Api-Key: T", before anything else of it is looked at. The
// health tells nothing worth hiding, and is what a load balancer asks.
func (r *router) authenticate(c *fiber.Ctx) error {
	if c.Path() == healthPath && (c.Method() == fiber.MethodGet || c.Method() == fiber.MethodHead) {
		return c.Next()
	}
	header := httpserve.FieldsOf(c.Context())
	key, bearer := header.Get("x-api-key"), header.Get("authorization")
	held := key != "" || bearer != ""
	if key != "" && !r.holds(key) {
		held = false
	}
	if bearer != "" {
		scheme, token, _ := strings.Cut(bearer, " ")
		if !strings.EqualFold(scheme, "Bearer") || !r.holds(token) {
			held = false
		}
	}
	if held {
		return c.Next()
	}
	if key != "" || bearer != "" {
		r.Log.Warn("API request with a wrong token", "peer", c.Context().RemoteAddr().String())
	}
	c.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="seedbed"`)
	return seedbed.Errorf(seedbed.ErrUnauthenticated, "want the API's token, as Authorization: Bearer or X-Api-Key")
}

// holds compares in a time that tells nothing about the token, not even its length.
func (r *router) holds(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], r.token[:]) == 1
}
