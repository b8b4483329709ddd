package metadata

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"seedbed"
)

const (
	tokenPath    = "/latest/api/token"
	reportPrefix = "/seedbed/report/"
)

// answer serves GET and HEAD of the tree.
func (s *Server) answer(c *fiber.Ctx) error {
	ctx := c.Context()
	if c.Path() == tokenPath {
		notAllowed(ctx, "PUT")
		return nil
	}
	who := callerOf(ctx)
	now := s.now()
	r := who.entry.view(now)
	a := get(r, c.Path())
	if a.listing {
		who.entry.pinTo(r, now)
	}
	status := http.StatusOK
	if a.ok {
		ctx.SetContentType(a.mediaType)
		ctx.Response.SetBodyRaw(a.body)
	} else {
		status = http.StatusNotFound
		fail(ctx, status)
	}
	if a.userData && ctx.IsGet() && !who.entry.life.fetched.Swap(true) {
		s.cfg.OnEvent(seedbed.GuestEvent{
			Instance: who.entry.id(), Kind: seedbed.GuestUserData, At: now,
			Method: fiber.MethodGet, Path: shownPath(ctx, who), Status: status, Bytes: sentBytes(ctx),
		})
	}
	return nil
}

// issueToken answers PUT /latest/api/token (EC2 user guide, "Use IMDSv2").
func (s *Server) issueToken(c *fiber.Ctx) error {
	ctx := c.Context()
	who := callerOf(ctx)
	if _, sent := peek(&ctx.Request.Header, forwardedHeader); sent {
		fail(ctx, http.StatusForbidden)
		return nil
	}
	value, _ := peek(&ctx.Request.Header, ttlHeader)
	ttl, ok := parseTTL(value)
	if !ok {
		fail(ctx, http.StatusBadRequest)
		return nil
	}
	if !who.index.token.ok() {
		who.conn.drop(ctx) // any status would make cloud-init give up
		return nil
	}
	if err := who.conn.limitHops(); err != nil {
		s.warnf("limit the hops of a token", "peer", ctx.RemoteAddr().String(), "err", err)
		who.conn.drop(ctx)
		return nil
	}
	ctx.SetContentType(typeText)
	ctx.Response.Header.Set(ttlHeader, strconv.FormatInt(int64(ttl/time.Second), 10))
	ctx.Response.SetBodyString(who.index.token.issue(who.entry.id(), s.now(), ttl))
	return nil
}

// otherMethod answers what the other routes leave: PUT and POST elsewhere.
func (s *Server) otherMethod(c *fiber.Ctx) error {
	ctx := c.Context()
	version, rest, _ := strings.Cut(strings.TrimPrefix(c.Path(), "/"), "/")
	switch {
	case ctx.IsPut() && "/"+rest == strings.TrimPrefix(tokenPath, "/latest") && isVersion(version):
		fail(ctx, http.StatusForbidden) // a token has no dated version
	case c.Path() == tokenPath:
		notAllowed(ctx, "PUT")
	case strings.HasPrefix(c.Path(), reportPrefix):
		notAllowed(ctx, "POST")
	default:
		notAllowed(ctx, "GET, HEAD")
	}
	return nil
}

// malformed answers what never became a request: too large, too slow, not HTTP.
func (s *Server) malformed(c *fiber.Ctx, err error) error {
	status := http.StatusBadRequest
	if e, ok := err.(*fiber.Error); ok {
		status = e.Code
	}
	s.count.malformed.Add(1)
	fail(c.Context(), status)
	return nil
}
