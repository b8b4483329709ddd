package webhook

import (
	"errors"
	"math"
	"mime"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"seedbed"
)

// The kinds of body.
const (
	kindJSON = "json"
	kindForm = "form"
)

// kindOf is the kind of body that a content type declares; empty for another.
func kindOf(contentType string) string {
	if contentType == fiber.MIMEApplicationJSON { // as most have it
		return kindJSON
	}
	kind, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return ""
	case kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"):
		return kindJSON
	case kind == "application/x-www-form-urlencoded":
		return kindForm
	}
	return ""
}

// decodeBody gives a verified body as rules see it.
func decodeBody(kind string, body []byte) (any, error) {
	if kind == kindForm {
		return decodeForm(string(body))
	}
	return decodeJSON(body)
}

// decodeJSON reads one JSON value with no name twice and nothing after it.
// Whole numbers are int64. The error quotes no value.
func decodeJSON(body []byte) (any, error) {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			if errors.Is(e, jsontext.ErrDuplicateName) {
				return nil, errors.New("member " + place(e.JSONPointer) + " comes twice")
			}
			return nil, errors.New("the body is not valid JSON near " + place(e.JSONPointer))
		}
		return nil, errors.New("the body is not valid JSON")
	}
	return wholeNumbers(v), nil
}

// wholeNumbers makes the numbers that are whole, and exact as a float64, ints:
// arithmetic does not mix the two.
func wholeNumbers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = wholeNumbers(v[k])
		}
	}
	return v
}

// decodeForm reads a form whose names come once each.
func decodeForm(body string) (map[string]any, error) {
	values, err := url.ParseQuery(body)
	if err != nil {
		return nil, errors.New("the body is not a valid form")
	}
	m := make(map[string]any, len(values))
	for name, all := range values {
		if len(all) > 1 {
			return nil, errors.New("field " + seedbed.Clip(name) + " comes twice")
		}
		m[name] = all[0]
	}
	return m, nil
}
