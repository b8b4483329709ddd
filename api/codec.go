package api

import (
	"cmp"
	"errors"
	"mime"
	"reflect"
	"strconv"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/gofiber/fiber/v2"
)

// answers are the options of encoding/json's version 1, except that an empty list is [] and never
// null.
var answers = json.JoinOptions(jsonv1.DefaultOptionsV1(), json.FormatNilSliceAsNull(false), json.FormatNilMapAsNull(false))

// reply answers v as JSON.
func reply(c *fiber.Ctx, status int, v any) error {
	body, err := json.Marshal(v, answers)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	c.Set(fiber.HeaderCacheControl, "no-store")
	return c.Status(status).Send(body)
}

// created answers 201 with the location of v.
func created(c *fiber.Ctx, place string, v any) error {
	c.Set(fiber.HeaderLocation, prefix+place)
	return reply(c, fiber.StatusCreated, v)
}

// accepted answers 202 with the location of the job.
func accepted(c *fiber.Ctx, r seedbed.Receipt) error {
	c.Set(fiber.HeaderLocation, prefix+"/jobs/"+string(r.Job))
	return reply(c, fiber.StatusAccepted, r)
}

// receive reads the body into v. The body must be one JSON object with known members, each at most
// once and spelled exactly. Its Content-Type must be JSON, which a page of another site cannot send
// without the browser asking first. most bounds its size in bytes.
func receive(c *fiber.Ctx, v any, most ...int) error {
	header := httpserve.FieldsOf(c.Context())
	if header.Get("content-encoding") != "" {
		return httpserve.Problem{Status: fiber.StatusUnsupportedMediaType, Detail: "Content-Encoding is not supported"}
	}
	if kind, _, err := mime.ParseMediaType(header.Get("content-type")); err != nil || kind != fiber.MIMEApplicationJSON {
		return httpserve.Problem{Status: fiber.StatusUnsupportedMediaType, Detail: "want Content-Type: application/json"}
	}
	body, err := httpserve.ReadBody(c.Context(), cmp.Or(append(most, maxBody)...))
	if err != nil {
		return err
	}
	noteAsked(c, body)
	return decode(body, v)
}

func decode(body []byte, v any) error {
	if jsontext.Value(body).Kind() != '{' {
		return badJSON("the body is not a JSON object")
	}
	err := json.Unmarshal(body, v, json.RejectUnknownMembers(true), jsonv1.FormatDurationAsNano(true))
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(e, jsontext.ErrDuplicateName) {
			return badJSON("member " + place(e.JSONPointer) + " comes twice")
		}
		return badJSON("the body is not valid JSON at byte " + strconv.FormatInt(e.ByteOffset, 10) + ", in " + place(e.JSONPointer))
	}
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return badJSON("the body is not valid JSON")
	}
	if errors.Is(e, json.ErrUnknownName) {
		return badJSON("member " + place(e.JSONPointer) + " is unknown")
	}
	if inner, ok := errors.AsType[*seedbed.Error](e.Err); ok {
		return seedbed.Errorf(inner.Kind, "member %s: %s", place(e.JSONPointer), inner.Msg)
	}
	return badJSON("member " + place(e.JSONPointer) + " has the wrong type: want " + typeName(e.GoType))
}

func badJSON(detail string) error {
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
