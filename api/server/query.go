package server

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

const (
	// MaxTail bounds what is read of a console.
	MaxTail     = seedbed.MiB
	defaultTail = 64 * seedbed.KiB

	// DefaultLimit is how long a list is unless the query says otherwise.
	DefaultLimit = 100
	// MaxLimit is how long a list may be.
	MaxLimit = 1000
)

// Limit reads the query's bound on the length of a list, from 1 to 1000.
func Limit(c *fiber.Ctx, fallback int64) (int, error) {
	n, err := Whole(c, "limit", fallback)
	if err != nil || n < 1 || n > MaxLimit {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "limit %q: expected a whole number from 1 to %d", seedbed.Clip(c.Query("limit")), MaxLimit)
	}
	return int(n), nil
}

// Whole reads a whole number from the query. An absent one is fallback.
func Whole(c *fiber.Ctx, name string, fallback int64) (int64, error) {
	if !c.Context().QueryArgs().Has(name) {
		return fallback, nil
	}
	return strconv.ParseInt(c.Query(name), 10, 64)
}

// After reads the number of the last event that the caller has.
func After(c *fiber.Ctx) (int64, error) {
	n, err := Whole(c, "after", 0)
	if err != nil || n < 0 {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "after %q: expected the number of an event, 0 or more", seedbed.Clip(c.Query("after")))
	}
	return n, nil
}

// Wait reads how long the answer may wait, at most maxWait.
func Wait(c *fiber.Ctx) (time.Duration, error) {
	if !c.Context().QueryArgs().Has("wait") {
		return 0, nil
	}
	d, err := time.ParseDuration(c.Query("wait"))
	if err != nil || d < 0 {
		return 0, seedbed.Errorf(seedbed.ErrInvalid,
			"wait %q: expected a duration such as 20s, at most %s", seedbed.Clip(c.Query("wait")), MaxWait)
	}
	return min(d, MaxWait), nil
}

// Tail reads how many bytes of a console the caller wants.
func Tail(c *fiber.Ctx) (seedbed.Bytes, error) {
	if !c.Context().QueryArgs().Has("tail") {
		return defaultTail, nil
	}
	n, err := seedbed.ParseBytes(c.Query("tail"))
	if err != nil || n < 1 || n > MaxTail {
		return 0, seedbed.Errorf(seedbed.ErrInvalid,
			"tail %q: expected a size from 1 to %s, such as 64KiB", seedbed.Clip(c.Query("tail")), MaxTail)
	}
	return n, nil
}

// NameOf reads the name of an object of a kind from the path. The name of a token, a hook, an endpoint or an
// image is its qualified one: see Caller.Qualified.
func NameOf(c *fiber.Ctx, kind string) (string, error) {
	s := c.Params("name")
	switch kind {
	case "token", "hook", "endpoint", "security group", "placement group", "backup schedule", "snapshot schedule":
		if plain, err := url.PathUnescape(s); err == nil {
			s = plain
		}
		return CallerOf(c).Qualified(kind, s)
	case "image", "OVA image":
		return CallerOf(c).Qualified(kind, qualifiedName(c))
	}
	return s, seedbed.CheckName(kind, s)
}

// qualifiedName returns the name in the path with the slash of a qualified one.
func qualifiedName(c *fiber.Ctx) string {
	return strings.NewReplacer("%2F", "/", "%2f", "/").Replace(c.Params("name"))
}

// NodeQuery returns the node that the query names, or an empty string for all nodes.
func NodeQuery(c *fiber.Ctx) (string, error) {
	node := strings.Clone(c.Query("node"))
	if node == "" {
		return "", nil
	}
	return node, seedbed.CheckName("node", node)
}

// Invalid returns an ErrInvalid.
func Invalid(format string, args ...any) error {
	return seedbed.Errorf(seedbed.ErrInvalid, format, args...)
}
