package server

import (
	"errors"
	"mime"
	"net/url"
	"reflect"
	"strconv"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/gofiber/fiber/v2"
)

// AnswerOptions are the options of encoding/json's version 1, except that an empty list is [] and never
// null.
var AnswerOptions = json.JoinOptions(jsonv1.DefaultOptionsV1(), json.FormatNilSliceAsNull(false), json.FormatNilMapAsNull(false))

// Reply answers v as JSON, to a viewer without what only operators may read.
func Reply(c *fiber.Ctx, status int, v any) error {
	body, err := json.Marshal(v, optionsFor(CallerOf(c)))
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	c.Set(fiber.HeaderCacheControl, "no-store")
	return c.Status(status).Send(body)
}

// Created answers 201 with the location of v.
func Created(c *fiber.Ctx, place string, v any) error {
	c.Set(fiber.HeaderLocation, Prefix+place)
	return Reply(c, fiber.StatusCreated, v)
}

// Accepted answers 202 with the location of the job.
func Accepted(c *fiber.Ctx, r seedbed.Receipt) error {
	c.Set(fiber.HeaderLocation, Prefix+"/jobs/"+string(r.Job))
	return Reply(c, fiber.StatusAccepted, r)
}

// Receive is like ReceiveUpTo for a body of at most MaxBody bytes.
func Receive(c *fiber.Ctx, v any) error { return ReceiveUpTo(c, v, MaxBody) }

// ReceiveAny is Receive for a request that may have no body; v stays as it is then.
func ReceiveAny(c *fiber.Ctx, v any) error {
	if c.Context().Request.Header.ContentLength() == 0 {
		return nil
	}
	return Receive(c, v)
}

// ReceiveUpTo reads the body into v. The body must be one JSON object with known members, each at most
// once and spelled exactly. Its Content-Type must be JSON, which a page of another site cannot send
// without the browser asking first. most bounds its size in bytes.
func ReceiveUpTo(c *fiber.Ctx, v any, most int) error {
	header := httpserve.FieldsOf(c.Context())
	if header.Get("content-encoding") != "" {
		return httpserve.Problem{Status: fiber.StatusUnsupportedMediaType, Detail: "Content-Encoding is not supported"}
	}
	if kind, _, err := mime.ParseMediaType(header.Get("content-type")); err != nil || kind != fiber.MIMEApplicationJSON {
		return httpserve.Problem{Status: fiber.StatusUnsupportedMediaType, Detail: "expected Content-Type: application/json"}
	}
	body, err := httpserve.ReadBody(c.Context(), most)
	if err != nil {
		return err
	}
	NoteAsked(c, body)
	return Decode(body, v)
}

// Decode reads a JSON object into v, as ReceiveUpTo does.
func Decode(body []byte, v any) error {
	if jsontext.Value(body).Kind() != '{' {
		return BadJSON("the body is not a JSON object")
	}
	err := json.Unmarshal(body, v, json.RejectUnknownMembers(true), jsonv1.FormatDurationAsNano(true))
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(e, jsontext.ErrDuplicateName) {
			return BadJSON("member " + place(e.JSONPointer) + " is given twice")
		}
		return BadJSON("the body is not valid JSON at byte " + strconv.FormatInt(e.ByteOffset, 10) + ", in " + place(e.JSONPointer))
	}
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return BadJSON("the body is not valid JSON")
	}
	if errors.Is(e, json.ErrUnknownName) {
		return BadJSON("member " + place(e.JSONPointer) + " is unknown")
	}
	if inner, ok := errors.AsType[*seedbed.Error](e.Err); ok {
		return seedbed.Errorf(inner.Kind, "member %s: %s", place(e.JSONPointer), inner.Msg)
	}
	return BadJSON("member " + place(e.JSONPointer) + " has the wrong type: expected " + typeName(e.GoType))
}

// BadJSON returns the error for a body that is not as described.
func BadJSON(detail string) error {
	return httpserve.Problem{Status: fiber.StatusBadRequest, Detail: detail}
}

func place(p jsontext.Pointer) string {
	if p == "" {
		return "the body itself"
	}
	return seedbed.Clip(string(p))
}

func typeName(t reflect.Type) string {
	if t == nil {
		return "another"
	}
	if t == reflect.TypeFor[seedbed.Bytes]() {
		return `a size such as "512MiB"`
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "base64"
		}
		return "an array"
	}
	return "an object"
}

// Each returns the rows of all elements.
func Each[T, R any](found []T, row func(T) R) []R {
	all := make([]R, len(found))
	for i, v := range found {
		all[i] = row(v)
	}
	return all
}

// Param returns a decoded segment of the path.
func Param(c *fiber.Ctx, name string) string {
	raw := c.Params(name)
	if s, err := url.PathUnescape(raw); err == nil {
		return s
	}
	return raw
}
