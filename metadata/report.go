package metadata

import (
	"context"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"seedbed"
)

// maxField bounds one reported value, in bytes.
const maxField = 256

// reported are the fields of cloud-init's phone_home that are kept. Of the host keys, one is enough.
var reported = []string{"instance_id", "hostname", "fqdn", seedbed.HostKeyField}

// report takes the guest's phone-home: POST /seedbed/report/{token} with a form (cloud-init,
// cc_phone_home). Only the first of a token is recorded. Later ones, which come if an answer was lost,
// get the same answer. A rebuilt guest has another token.
func (s *Server) report(serving context.Context, c *fiber.Ctx) error {
	ctx := c.Context()
	who := callerOf(ctx)
	want := who.record.guest.ReportToken
	if want == "" || subtle.ConstantTimeCompare([]byte(want), []byte(c.Params("token"))) != 1 {
		fail(ctx, http.StatusNotFound)
		return nil
	}
	if err := s.takeReport(serving, who, want, formFields(ctx.Request.Body())); err != nil {
		s.notKept(ctx, who, err)
		return nil
	}
	ctx.SetContentType(typeText)
	ctx.Response.SetBodyString("ok")
	return nil
}

func (s *Server) takeReport(serving context.Context, who *conn, token string, fields map[string]string) error {
	session := who.session
	session.posting.Lock()
	defer session.posting.Unlock()
	if session.reported == token {
		return nil
	}
	err := s.keep(serving, seedbed.GuestEvent{Instance: who.who, Kind: seedbed.GuestReport, At: s.now(),
		Method: fiber.MethodPost, Path: reportPrefix, Status: http.StatusOK, Fields: fields,
		Token: seedbed.TokenDigest(token)})
	if err == nil {
		session.reported = token
	}
	return err
}

// keep returns nil once an event is durable.
func (s *Server) keep(serving context.Context, e seedbed.GuestEvent) error {
	if s.cfg.OnReport == nil {
		s.cfg.OnEvent(e)
		return nil
	}
	ctx, cancel := context.WithTimeout(serving, s.cfg.Limits.Read)
	defer cancel()
	return s.cfg.OnReport(ctx, e)
}

// notKept logs that a post could not be stored and asks the guest to post again.
func (s *Server) notKept(ctx *fasthttp.RequestCtx, who *conn, err error) {
	s.log.Error("keep what a guest posted", "instance", string(who.who), "err", err)
	later(ctx)
}

// later asks the guest to post again.
func later(ctx *fasthttp.RequestCtx) {
	fail(ctx, http.StatusServiceUnavailable)
	ctx.Response.Header.Set("Retry-After", "1")
}

// formFields reads the known fields of a form, each clipped. A form that is partly malformed gives
// what could be read.
func formFields(body []byte) map[string]string {
	values, _ := url.ParseQuery(string(body))
	fields := map[string]string{}
	for _, name := range reported {
		if v := values.Get(name); v != "" {
			fields[name] = strings.ToValidUTF8(v[:min(len(v), maxField)], "?")
		}
	}
	return fields
}
