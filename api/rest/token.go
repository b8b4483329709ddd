package rest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// secretPrefix identifies a secret to operators, and to scanners for leaked secrets.
const secretPrefix = "sbt_"

func (r *router) createToken(ctx context.Context, c *fiber.Ctx) error {
	var req wire.TokenRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	name, err := server.CallerOf(c).Qualified("token", req.Name)
	if err != nil {
		return err
	}
	if name == "admin" {
		return seedbed.Errorf(seedbed.ErrExists, `token "admin" is the one of the configuration (api.token_file)`)
	}
	var random [32]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	secret := secretPrefix + hex.EncodeToString(random[:])
	asked := seedbed.Token{
		Name: name, Project: seedbed.ProjectOf(name), Role: req.Role, Grants: req.Grants, Expires: req.Expires, Quota: req.Quota,
	}
	if err := r.checkGrants(ctx, server.CallerOf(c), asked.AllGrants()); err != nil {
		return err
	}
	t, err := r.Store.CreateToken(ctx, asked, sha256.Sum256([]byte(secret)))
	if err != nil {
		return err
	}
	return server.Created(c, "/tokens/"+url.PathEscape(t.Name), wire.NewToken{Token: t, Secret: secret})
}

// changeToken changes what a token may do, and when it expires. The caller must be able to give all that the token
// has afterwards: also one that only lets it live longer.
func (r *router) changeToken(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.NameOf(c, "token")
	if err != nil {
		return err
	}
	var req wire.TokenChange
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	if req == (wire.TokenChange{}) {
		return server.Invalid("nothing to change: expected role, grants or expires")
	}
	was, err := r.Store.Token(ctx, n)
	if err != nil {
		return err
	}
	next := was
	if req.Role != nil {
		next.Role = *req.Role
	}
	if req.Grants != nil {
		next.Grants = *req.Grants
	}
	if req.Expires != nil {
		next.Expires = *req.Expires
	}
	if err := r.checkGrants(ctx, server.CallerOf(c), next.AllGrants()); err != nil {
		return err
	}
	t, err := r.Store.ChangeToken(ctx, n, func(t *seedbed.Token) error {
		if err := server.Matches(c, tokenTag(c)(*t)); err != nil {
			return err
		}
		if t.Role != was.Role || !slices.Equal(t.Grants, was.Grants) {
			return seedbed.Errorf(seedbed.ErrConflict, "token %s has been changed: try again", t.Name)
		}
		t.Role, t.Grants, t.Expires = next.Role, next.Grants, next.Expires
		return nil
	})
	if err != nil {
		return err
	}
	return server.Tagged(c, tokenTag(c)(t), tokenFor(c, t))
}

// setTokenQuota sets the quota of a token. It applies from now on.
func (r *router) setTokenQuota(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.NameOf(c, "token")
	if err != nil {
		return err
	}
	var q seedbed.TokenQuota
	if err := server.Receive(c, &q); err != nil {
		return err
	}
	t, err := r.Store.SetTokenQuota(ctx, n, q, server.IfMatch(c, tokenTag(c)))
	if err != nil {
		return err
	}
	return server.Tagged(c, tokenTag(c)(t), tokenFor(c, t))
}

func (r *router) deleteToken(ctx context.Context, c *fiber.Ctx) error {
	return dropTagged(ctx, c, "token", r.Store.DeleteToken, tokenTag(c))
}

func (r *router) token(ctx context.Context, c *fiber.Ctx) error {
	read := func(ctx context.Context, name string) (seedbed.Token, error) {
		t, err := r.Store.Token(ctx, name)
		return tokenFor(c, t), err
	}
	return showTagged(ctx, c, "token", read, tokenTag(c))
}

// tokenFor returns a token as the caller sees it: without its roles in other projects, unless the caller
// sees these projects.
func tokenFor(c *fiber.Ctx, t seedbed.Token) seedbed.Token {
	if !server.CallerOf(c).Home {
		t.Grants = nil
	}
	return t
}

// tokenTag returns a function that returns the entity tag of a token as the caller sees it. The tag does
// not cover the token's last use.
func tokenTag(c *fiber.Ctx) func(seedbed.Token) string {
	return func(t seedbed.Token) string {
		t = tokenFor(c, t)
		t.Used = time.Time{}
		return server.ContentTag(t)
	}
}

// auditLog lists the entries of the audit log. The query's before is an older word for after.
func (r *router) auditLog(ctx context.Context, c *fiber.Ctx) (err error) {
	q := seedbed.AuditQuery{Actor: strings.Clone(c.Query("actor")), Tenant: seedbed.IsTenant(ctx)}
	if q.Scope, err = server.SiteScopeOf(c); err != nil {
		return err
	}
	if q.Limit, err = server.Limit(c, server.DefaultLimit); err != nil {
		return err
	}
	if q.Since, err = sinceOf(c); err != nil {
		return err
	}
	for _, name := range []string{"before", "after"} {
		n, err := server.Whole(c, name, q.Before)
		if err != nil || n < 0 {
			return server.Invalid("%s %q: expected the ID of an entry", name, seedbed.Clip(c.Query(name)))
		}
		q.Before = n
	}
	cursor := func(e seedbed.AuditEntry) string { return strconv.FormatInt(e.ID, 10) }
	return server.Page(c, q.Limit, cursor, func(n int) ([]seedbed.AuditEntry, error) {
		q.Limit = n
		return r.Store.Audit(ctx, q)
	})
}
