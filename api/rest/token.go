package rest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
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
	if req.Name == "admin" {
		return seedbed.Errorf(seedbed.ErrExists, `token "admin" is the one of the configuration (api.token_file)`)
	}
	var random [32]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	secret := secretPrefix + hex.EncodeToString(random[:])
	t, err := r.Store.CreateToken(ctx, seedbed.Token{Name: req.Name, Role: req.Role, Expires: req.Expires, Quota: req.Quota},
		sha256.Sum256([]byte(secret)))
	if err != nil {
		return err
	}
	return server.Created(c, "/tokens/"+t.Name, wire.NewToken{Token: t, Secret: secret})
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
	t, err := r.Store.SetTokenQuota(ctx, n, q, server.IfMatch(c, tokenTag))
	if err != nil {
		return err
	}
	return server.Tagged(c, tokenTag(t), t)
}

func (r *router) deleteToken(ctx context.Context, c *fiber.Ctx) error {
	return dropTagged(ctx, c, "token", r.Store.DeleteToken, tokenTag)
}

func (r *router) token(ctx context.Context, c *fiber.Ctx) error {
	return showTagged(ctx, c, "token", r.Store.Token, tokenTag)
}

// tokenTag returns the entity tag of a token. It does not cover the token's last use.
func tokenTag(t seedbed.Token) string {
	t.Used = time.Time{}
	return server.ContentTag(t)
}

func (r *router) auditLog(ctx context.Context, c *fiber.Ctx) (any, error) {
	n, err := server.Limit(c, server.DefaultLimit)
	if err != nil {
		return nil, err
	}
	before, err := server.Whole(c, "before", 0)
	if err != nil || before < 0 {
		return nil, server.Invalid("before %q: expected the ID of an entry", seedbed.Clip(c.Query("before")))
	}
	return r.Store.Audit(ctx, before, n)
}
