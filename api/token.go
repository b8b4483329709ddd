package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// Tokens stores the tokens that authenticate callers.
type Tokens interface {
	CreateToken(ctx context.Context, t seedbed.Token, sum [sha256.Size]byte) (seedbed.Token, error)
	// TokenOf finds a token by the digest of its secret, expired or not.
	TokenOf(ctx context.Context, sum [sha256.Size]byte) (seedbed.Token, error)
	Tokens(ctx context.Context) ([]seedbed.Token, error)
	DeleteToken(ctx context.Context, name string) error
}

// Quotas bounds what the instances of a token may use.
type Quotas interface {
	SetTokenQuota(ctx context.Context, name string, q seedbed.TokenQuota) (seedbed.Token, error)
}

// Audits reads the log of requested changes.
type Audits interface {
	// Audit returns at most limit entries before the one with that ID, newest first. A before of 0
	// starts with the newest.
	Audit(ctx context.Context, before int64, limit int) ([]seedbed.AuditEntry, error)
}

// secretPrefix identifies a secret to operators, and to scanners for leaked secrets.
const secretPrefix = "sbt_"

func (r *router) tokens(ctx context.Context, c *fiber.Ctx) error {
	return list(ctx, c, r.Store.Tokens)
}

func (r *router) createToken(ctx context.Context, c *fiber.Ctx) error {
	var req wire.TokenRequest
	if err := receive(c, &req); err != nil {
		return err
	}
	if req.Name == "admin" {
		return seedbed.Errorf(seedbed.ErrExists, `token "admin" is the one of the configuration (api.token_file)`)
	}
	var random [32]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	secret := secretPrefix + hex.EncodeToString(random[:])
	t, err := r.Store.CreateToken(ctx, seedbed.Token{Name: req.Name, Role: req.Role, Expires: req.Expires, Quota: req.Quota}, sha256.Sum256([]byte(secret)))
	if err != nil {
		return err
	}
	return created(c, "/tokens/"+t.Name, wire.NewToken{Token: t, Secret: secret})
}

// setTokenQuota sets the quota of a token. It applies from now on.
func (r *router) setTokenQuota(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "token")
	if err != nil {
		return err
	}
	var q seedbed.TokenQuota
	if err := receive(c, &q); err != nil {
		return err
	}
	t, err := r.Store.SetTokenQuota(ctx, n, q)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, t)
}

func (r *router) deleteToken(ctx context.Context, c *fiber.Ctx) error {
	return drop(ctx, c, "token", r.Store.DeleteToken)
}

func (r *router) auditLog(ctx context.Context, c *fiber.Ctx) error {
	n, err := limit(c, defaultLimit)
	if err != nil {
		return err
	}
	before, err := whole(c, "before", 0)
	if err != nil || before < 0 {
		return invalid("before %q: want the ID of an entry", seedbed.Clip(c.Query("before")))
	}
	all, err := r.Store.Audit(ctx, before, n)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, all)
}
