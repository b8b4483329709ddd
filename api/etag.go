package api

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"
)

// instanceTag is the entity tag of an instance (RFC 9110 8.8.3): its revision,
// and which of those that had its name it is.
func instanceTag(i seedbed.Instance) string { return revisionTag(i.Revision, i.ID) }

// profileTag is the entity tag of a profile.
func profileTag(p seedbed.Profile) string { return revisionTag(p.Revision, p.Created.UnixMicro()) }

func revisionTag(revision int64, of any) string { return fmt.Sprintf(`"%d-%v"`, revision, of) }

// contentTag is the entity tag of what has no revision: a digest of the answer.
func contentTag[T any](v T) string {
	body, err := json.Marshal(v, answers, json.Deterministic(true))
	if err != nil {
		panic(err) // what is answered always marshals
	}
	return fmt.Sprintf(`"%x"`, sha256.Sum256(body))[:33] + `"`
}

// tagged answers v with its entity tag.
func tagged(c *fiber.Ctx, tag string, v any) error {
	c.Set(fiber.HeaderETag, tag)
	return reply(c, fiber.StatusOK, v)
}

// matches refuses, with 412, a change of something that is not as the caller
// knows it, if the caller says how that is (If-Match, RFC 9110 13.1.1).
func matches(c *fiber.Ctx, tag string) error {
	want := httpserve.FieldsOf(c.Context()).Get("if-match")
	if want == "" || strings.TrimSpace(want) == "*" {
		return nil
	}
	for known := range strings.SplitSeq(want, ",") {
		if strings.TrimSpace(known) == tag {
			return nil
		}
	}
	return httpserve.Problem{Status: fiber.StatusPreconditionFailed, Kind: "conflict",
		Detail: "it was changed since: its ETag is " + tag + " now, and If-Match says " + seedbed.Clip(want) + ": read it again, and change that"}
}

// unchanged is matches for what the path names, where a change cannot be
// decided together with the look at what is there: a deletion leaves nothing to
// mix up.
func unchanged[T any](ctx context.Context, c *fiber.Ctx, kind string, read func(context.Context, string) (T, error), tag func(T) string) error {
	if httpserve.FieldsOf(c.Context()).Get("if-match") == "" {
		return nil
	}
	n, err := name(c, kind)
	if err != nil {
		return err
	}
	v, err := read(ctx, n)
	if err != nil {
		return err
	}
	return matches(c, tag(v))
}
