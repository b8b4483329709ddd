package pvc

import (
	"context"
	"errors"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// maxLogin bounds the body of a login, which anyone may send.
const maxLogin = 4 << 10

// login begins a session with a token. The token comes in the body, because URLs end up in logs.
// The control socket has no sessions.
func (r *router) login(_ context.Context, c *fiber.Ctx) error {
	if !r.Guarded() {
		return welcome(c)
	}
	f, err := r.parametersUpTo(c, maxLogin)
	if err != nil {
		return err
	}
	f.query = nil
	secret := f.must("token", "The token to authenticate with must be specified, in the form.")
	if f.err != nil {
		return f.err
	}
	if err := r.NewSession(c, secret); err != nil {
		return r.wrongLogin(c, err)
	}
	return say(c, "Authentication successful")
}

// wrongLogin answers a wrong token, after the time that a wrong guess costs.
func (r *router) wrongLogin(c *fiber.Ctx, err error) error {
	if !errors.Is(err, seedbed.ErrNotFound) {
		return err
	}
	r.Log.Warn("API login with a wrong token", "peer", c.Context().RemoteIP().String())
	if !r.SlowGuess() {
		return refused(fiber.StatusTooManyRequests, "Too many wrong tokens: try again later.")
	}
	return refused(fiber.StatusUnauthorized, "Authentication failed")
}

// logout ends the caller's session.
func (r *router) logout(ctx context.Context, c *fiber.Ctx) error {
	if !r.Guarded() {
		return welcome(c)
	}
	if err := r.EndSession(ctx, c); err != nil {
		return err
	}
	return say(c, "Deauthentication successful")
}

// welcome redirects to the root.
func welcome(c *fiber.Ctx) error {
	c.Set(fiber.HeaderLocation, server.Prefix+"/")
	return server.Reply(c, fiber.StatusFound, message{version})
}
