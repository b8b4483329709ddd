package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/httpserve"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"
)

// InstanceTag returns the entity tag of an instance (RFC 9110 8.8.3). It holds the revision and the
// ID, since a later instance may have the same name.
func InstanceTag(i seedbed.Instance) string { return RevisionTag(i.Revision, i.ID) }

// ProfileTag returns the entity tag of a profile.
func ProfileTag(p seedbed.Profile) string { return wire.Tag(p.Revision, p.Created, p.Published) }

// ObjectTag returns the entity tag of an object that a profile can name.
func ObjectTag(m seedbed.ObjectMeta) string { return wire.Tag(m.Revision, m.Created, m.Published) }

// RevisionTag returns the entity tag of a revision of an object. of distinguishes the object from
// later ones of the same name.
func RevisionTag(revision int64, of any) string { return fmt.Sprintf(`"%d-%v"`, revision, of) }

// ContentTag returns the entity tag of an object without a revision: a digest of the answer.
func ContentTag[T any](v T) string {
	body, err := json.Marshal(v, AnswerOptions, json.Deterministic(true))
	if err != nil {
		panic(err) // answers always marshal
	}
	return fmt.Sprintf(`"%x"`, sha256.Sum256(body))[:33] + `"`
}

// Tagged answers v with its entity tag.
func Tagged(c *fiber.Ctx, tag string, v any) error {
	c.Set(fiber.HeaderETag, tag)
	return Reply(c, fiber.StatusOK, v)
}

// Matches refuses a change with 412 if the request has an If-Match header (RFC 9110 13.1.1) that
// does not match the tag.
func Matches(c *fiber.Ctx, tag string) error {
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
		Detail: "it has been changed: its ETag is now " + tag + ", but If-Match has " + seedbed.Clip(want) +
			": read it again, and change that version"}
}

// IfMatch returns the check whether an object is the version that the request's If-Match header names.
// The store calls it in the transaction that changes the object.
func IfMatch[T any](c *fiber.Ctx, tag func(T) string) func(T) error {
	return func(v T) error { return Matches(c, tag(v)) }
}

// OnMatch returns ctx for a request that starts a job on an existing object: an instance, an image or
// an OVA image. The job is accepted only if the object is the version that the If-Match header names.
func OnMatch(ctx context.Context, c *fiber.Ctx) context.Context {
	asked := seedbed.ChangeOf(ctx)
	if asked == nil || httpserve.FieldsOf(c.Context()).Get("if-match") == "" {
		return ctx
	}
	asked.Match = func(object any) error {
		switch v := object.(type) {
		case seedbed.Instance:
			return Matches(c, InstanceTag(v))
		case seedbed.OVA:
			return Matches(c, ObjectTag(v.ObjectMeta))
		}
		return Matches(c, ContentTag(object))
	}
	return ctx
}
