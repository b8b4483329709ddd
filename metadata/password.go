package metadata

import (
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"seedbed"
)

// maxPassword bounds a posted password, as Nova does (nova/api/metadata/password.py).
const maxPassword = 4 * 255

// isPassword reports whether where is the only place in the trees that accepts a POST.
func isPassword(where place) bool {
	name, rest := element(where.rest)
	more, _ := element(rest)
	return where.dialect == dialectOpenStack && name == openstackPassword.name && more == ""
}

// takePassword serves POST /openstack/{version}/password. cloudbase-init posts, once, the
// administrator's password that it has set, encrypted with the user's key. The password is stored
// before the guest gets an answer.
func (s *Server) takePassword(serving context.Context, c *fiber.Ctx) error {
	ctx := c.Context()
	who, body := callerOf(ctx), ctx.Request.Body()
	if !isPassword(who.where) {
		return s.otherMethod(c)
	}
	if !isPosted(body) {
		fail(ctx, http.StatusBadRequest)
		return nil
	}
	session := who.session
	session.posting.Lock()
	defer session.posting.Unlock()
	switch {
	case len(who.password()) > 0:
		fail(ctx, http.StatusConflict)
		return nil
	case !who.at.state.InSync: // seedbedd may have one that an earlier process took
		later(ctx)
		return nil
	}
	token := seedbed.TokenDigest(who.record.guest.ReportToken)
	session.password.Store(&posted{string(body), token}) // before a record can have it
	err := s.keep(serving, seedbed.GuestEvent{Instance: who.who, Kind: seedbed.GuestPassword, At: s.now(),
		Method: fiber.MethodPost, Path: shownPath(ctx, who), Status: http.StatusOK, Fields: map[string]string{"password": string(body)},
		Token: token})
	if err != nil {
		session.password.Store(nil)
		s.notKept(ctx, who, err)
		return nil
	}
	ctx.SetContentType(typeText)
	return nil
}

// isPosted reports whether b can be a posted password: base64 or other printable text.
func isPosted(b []byte) bool {
	for _, c := range b {
		if (c < ' ' || c > '~') && c != '\n' && c != '\r' {
			return false
		}
	}
	return len(b) > 0 && len(b) <= maxPassword
}

// password returns the password in the current record, whatever a crawl sees, or the one that was
// posted to this process and is not in the record yet.
func (c *conn) password() []byte {
	if p := c.record.guest.Password; p != "" {
		return []byte(p)
	}
	return []byte(c.session.passwordFor(c.record.guest.ReportToken))
}
