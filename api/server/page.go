package server

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// OneOf reads a parameter of the query that must be one of words.
func OneOf[T ~string](c *fiber.Ctx, name string, words []T) (T, error) {
	v := T(strings.Clone(c.Query(name)))
	if v != "" && !slices.Contains(words, v) {
		return "", Invalid("%s %q is unknown: expected %s",
			name, seedbed.Clip(string(v)), strings.Join(Each(words, func(w T) string { return string(w) }), ", "))
	}
	return v, nil
}

// Page answers at most n objects, with a link to the next page if there are more (RFC 8288). It
// reads n+1 objects to find out.
func Page[T any](c *fiber.Ctx, n int, cursor func(T) string, read func(n int) ([]T, error)) error {
	found, err := read(n + 1)
	if err != nil {
		return err
	}
	if len(found) > n {
		found = found[:n]
		query, err := url.ParseQuery(string(c.Context().URI().QueryString()))
		if err != nil {
			return Invalid("the query is not well formed: expected name=value, separated by &, with %%XX for other characters")
		}
		query.Set("limit", strconv.Itoa(n))
		query.Set("after", cursor(found[n-1]))
		c.Set(fiber.HeaderLink, "<"+c.Path()+"?"+query.Encode()+`>; rel="next"`)
	}
	return Reply(c, fiber.StatusOK, found)
}
