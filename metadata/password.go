package metadata

import (
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"seedbed"
)

// maxPassword bounds a posted password, as Nova does (nova/api/metadata/password.py).
const maxPassword = 4 * 255

// isPassword tells the one place of the trees that can be posted to.
func isPassword(where place) bool {
	name, rest := element(where.rest)
	more, _ := element(rest)
	return where.dialect == dialectOpenStack && name == openstackPassword.name && more == ""
}

// takePassword is POST /openstack/{version}/password: the administrator's
// password that the guest has set, encrypted with the user's key, once
// (cloudbase-init). It is kept before the guest is told so.
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
	life := who.life
	life.posting.Lock()
	defer life.posting.Unlock()
	switch {
	case who.record.guest.Password != "" || life.password != "":
		fail(ctx, http.StatusConflict)
		return nil
	case !who.at.state.InSync: // seedbedd may have one that an earlier process took
		later(ctx)
		return nil
	}
	err := s.keep(serving, seedbed.GuestEvent{Instance: who.who, Kind: seedbed.GuestPassword, At: s.now(),
		Method: fiber.MethodPost, Path: shownPath(ctx, who), Status: http.StatusOK, Fields: map[string]string{"password": string(body)}})
	if err != nil {
		s.notKept(ctx, who, err)
		return nil
	}
	life.password = string(body)
	ctx.SetContentType(typeText)
	return nil
}

// isPosted accepts what can be a password in base64, or any other printable text.
func isPosted(b []byte) bool {
	for _, c := range b {
		if (c < ' ' || c > '~') && c != '\n' && c != '\r' {
			return false
		}
	}
	return len(b) > 0 && len(b) <= maxPassword
}

// password is the one of the record now, whatever a crawl sees, or that which
// was posted in this process: the record has it later.
func (c *conn) password() []byte {
	if p := c.record.guest.Password; p != "" {
		return []byte(p)
	}
	c.life.posting.Lock()
	defer c.life.posting.Unlock()
	return []byte(c.life.password)
}
