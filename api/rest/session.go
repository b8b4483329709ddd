package rest

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// sessions lists the sessions that the caller may see: its own, or all for an admin of the installation.
func (r *router) sessions() listing[wire.Session] {
	return listing[wire.Session]{
		kind: "session", read: r.readSessions, place: func(s wire.Session) string { return placed(s.Name, s.ID) },
		filters: []filterBy[wire.Session]{{
			param: "user", check: func(v string) error { return seedbed.CheckPersonName(v) }, of: func(s wire.Session) string { return s.Name },
		}},
	}
}

func (r *router) readSessions(ctx context.Context, c *fiber.Ctx) ([]wire.Session, error) {
	who := server.CallerOf(c)
	all, err := r.Store.Sessions(ctx)
	all = slices.DeleteFunc(all, func(s seedbed.Session) bool { return !who.SeesSession(s) })
	return server.Each(all, func(s seedbed.Session) wire.Session { return r.shownSession(s, who.Session.ID) }), err
}

// shownSession returns a session as the API shows it to the holder of the session with the ID current.
func (r *router) shownSession(s seedbed.Session, current string) wire.Session {
	shown := wire.Session{Session: s, Current: s.ID == current, Grants: []seedbed.Grant{}}
	if r.SignIn != nil {
		shown.Grants = append(shown.Grants, r.SignIn.GrantsOf(s.Person)...)
	}
	return shown
}

// sessionOf returns the ID of the session that the path names, which the caller may see. "current" is
// the caller's own.
func sessionOf(c *fiber.Ctx) (string, error) {
	id, who := server.Param(c, "id"), server.CallerOf(c)
	if id == "current" {
		if who.Session.ID == "" {
			return "", seedbed.Errorf(seedbed.ErrNotFound, "%s has no session", who.Name)
		}
		return who.Session.ID, nil
	}
	return id, seedbed.CheckSessionID(id)
}

func (r *router) session(ctx context.Context, c *fiber.Ctx) error {
	id, err := sessionOf(c)
	if err != nil {
		return err
	}
	s, err := r.Store.Session(ctx, id)
	if err == nil {
		err = seenBy(server.CallerOf(c))(s)
	}
	if err != nil {
		return err
	}
	return server.Tagged(c, sessionTag(s), r.shownSession(s, server.CallerOf(c).Session.ID))
}

// endSession ends a session. Its holder is refused from now on.
func (r *router) endSession(ctx context.Context, c *fiber.Ctx) error {
	id, err := sessionOf(c)
	if err != nil {
		return err
	}
	if err := r.Store.EndSession(ctx, id, seenBy(server.CallerOf(c)), server.IfMatch(c, sessionTag)); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}

// seenBy returns the check that a caller may see a session. One of another person does not exist for it.
func seenBy(who server.Caller) func(seedbed.Session) error {
	return func(s seedbed.Session) error {
		if !who.SeesSession(s) {
			return seedbed.NoSession(s.ID)
		}
		return nil
	}
}

// sessionTag returns the entity tag of a session. Nothing of it changes but its last use.
func sessionTag(s seedbed.Session) string { return `"` + s.ID + `"` }
