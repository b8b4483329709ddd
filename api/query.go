package api

import (
	"strconv"
	"time"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
)

// limit reads the query's bound on the length of a list, from 1 to 1000.
func limit(c *fiber.Ctx, fallback int64) (int, error) {
	n, err := whole(c, "limit", fallback)
	if err != nil || n < 1 || n > maxLimit {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "limit %q: want a whole number from 1 to %d", seedbed.Clip(c.Query("limit")), maxLimit)
	}
	return int(n), nil
}

func whole(c *fiber.Ctx, name string, fallback int64) (int64, error) {
	if !c.Context().QueryArgs().Has(name) {
		return fallback, nil
	}
	return strconv.ParseInt(c.Query(name), 10, 64)
}

// after reads the number of the last event that the caller has.
func after(c *fiber.Ctx) (int64, error) {
	n, err := whole(c, "after", 0)
	if err != nil || n < 0 {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "after %q: want the number of an event, 0 or more", seedbed.Clip(c.Query("after")))
	}
	return n, nil
}

// wait reads how long the answer may wait, at most maxWait.
func wait(c *fiber.Ctx) (time.Duration, error) {
	if !c.Context().QueryArgs().Has("wait") {
		return 0, nil
	}
	d, err := time.ParseDuration(c.Query("wait"))
	if err != nil || d < 0 {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "wait %q: want a duration such as 20s, at most %s", seedbed.Clip(c.Query("wait")), maxWait)
	}
	return min(d, maxWait), nil
}

// tail reads how many bytes of a console the caller wants.
func tail(c *fiber.Ctx) (seedbed.Bytes, error) {
	if !c.Context().QueryArgs().Has("tail") {
		return defaultTail, nil
	}
	n, err := seedbed.ParseBytes(c.Query("tail"))
	if err != nil || n < 1 || n > maxTail {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "tail %q: want a size from 1 to %s, such as 64KiB", seedbed.Clip(c.Query("tail")), maxTail)
	}
	return n, nil
}

// name reads the name of a catalogue object from the path.
func name(c *fiber.Ctx, kind string) (string, error) {
	s := c.Params("name")
	return s, seedbed.CheckName(kind, s)
}
