package metadata

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"seedbed"
)

const (
	tokenPath    = "/latest/api/token"
	reportPrefix = "/seedbed/report/"
)

// answer serves GET and HEAD.
func (s *Server) answer(ctx *fasthttp.RequestCtx, who *conn) {
	where := who.where
	if where.dialect == dialectToken {
		notAllowed(ctx, "PUT")
		return
	}
	var a answer
	var r *record
	if w, asked, problem := readWait(ctx); asked && where.dialect == dialectEC2 {
		if problem != "" {
			explain(ctx, http.StatusBadRequest, problem)
			return
		}
		var ok bool
		if a, ok = s.await(ctx, who, w); !ok {
			return
		}
		r = who.record
	} else {
		now := s.now()
		var x *index
		x, r = who.seen(now)
		if a = r.at(where); a.crawl {
			s.dir.sessions.pinTo(who.session, x, now)
		}
	}
	s.reply(ctx, who, r, a)
}

// reply sends what r has at the place of a request.
func (s *Server) reply(ctx *fasthttp.RequestCtx, who *conn, r *record, a answer) {
	if a.node == openstackPassword {
		a.body = who.password()
	}
	status := http.StatusOK
	if a.ok {
		ctx.SetContentType(a.mediaType)
		ctx.Response.SetBodyRaw(a.body)
	} else {
		status = http.StatusNotFound
		fail(ctx, status)
	}
	if who.where.dialect == dialectEC2 && a.node != nil {
		tag := r.etag(a)
		ctx.Response.Header.SetBytesV("ETag", tag[:])
	}
	switch a.node {
	case userDataLeaf, openstackUserData, nocloudUserData:
	default:
		return
	}
	if token := who.record.guest.ReportToken; ctx.IsGet() && who.session.firstFetch(token) {
		s.cfg.OnEvent(seedbed.GuestEvent{
			Instance: who.who, Kind: seedbed.GuestUserData, At: s.now(),
			Method: fiber.MethodGet, Path: shownPath(ctx, who), Status: status, Bytes: sentBytes(ctx),
			Token: seedbed.TokenDigest(token),
		})
	}
}

// issueToken answers PUT /latest/api/token (EC2 user guide, "Use IMDSv2"). It begins a crawl, as a
// listing does.
func (s *Server) issueToken(c *fiber.Ctx) error {
	ctx := c.Context()
	who := callerOf(ctx)
	f, _ := readFraming(&ctx.Request.Header)
	ttl, ok := parseTTL(f.ttl)
	if !ok {
		fail(ctx, http.StatusBadRequest)
		return nil
	}
	key := who.at.token
	if !key.ok() {
		who.drop(ctx) // any status would make cloud-init give up
		return nil
	}
	if err := who.limitHops(max(1, who.record.guest.Options.HopLimit)); err != nil {
		s.warnf("limit the hops of a token", "peer", ctx.RemoteAddr().String(), "err", err)
		who.drop(ctx)
		return nil
	}
	now := s.now()
	x, _ := who.seen(now)
	s.dir.sessions.pinTo(who.session, x, now)
	ctx.SetContentType(typeText)
	ctx.Response.Header.Set(ttlHeader, strconv.FormatInt(int64(ttl/time.Second), 10))
	ctx.Response.SetBodyString(key.issue(who.who, now, ttl))
	return nil
}

// otherMethod answers PUT and POST at paths without a route of their own.
func (s *Server) otherMethod(c *fiber.Ctx) error {
	ctx := c.Context()
	where := callerOf(ctx).where
	if ctx.IsPut() && where.dialect == dialectEC2 && where.rest == strings.TrimPrefix(tokenPath, "/latest/") {
		fail(ctx, http.StatusForbidden) // the token path has no dated version
		return nil
	}
	notAllowed(ctx, allowed(where))
	return nil
}

// allowed returns the methods of a place, as in the header Allow.
func allowed(where place) string {
	switch {
	case where.dialect == dialectToken:
		return "PUT"
	case where.dialect == dialectReport:
		return "POST"
	case isPassword(where):
		return "GET, HEAD, POST"
	}
	return "GET, HEAD"
}

// malformed answers input that is not a request: too large, too slow, or not HTTP.
func (s *Server) malformed(c *fiber.Ctx, err error) error {
	status := http.StatusBadRequest
	if e, ok := err.(*fiber.Error); ok {
		status = e.Code
	}
	s.count.malformed.Add(1)
	fail(c.Context(), status)
	return nil
}
