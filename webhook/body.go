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

// kindOf returns the kind of body that a content type declares; empty for an unsupported one.
func kindOf(contentType string) string {
	if contentType == fiber.MIMEApplicationJSON { // the form of most senders
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

// decodeBody returns a verified body in the form that rules see.
func decodeBody(kind string, body []byte) (any, error) {
	if kind == kindForm {
		return decodeForm(string(body))
	}
	return decodeJSON(body)
}

// decodeJSON decodes one JSON value. Repeated names and data after the value are errors. Whole
// numbers become int64. The error does not quote values.
func decodeJSON(body []byte) (any, error) {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			if errors.Is(e, jsontext.ErrDuplicateName) {
				return nil, errors.New("member " + place(e.JSONPointer) + " is given twice")
			}
			return nil, errors.New("the body is not valid JSON near " + place(e.JSONPointer))
		}
		return nil, errors.New("the body is not valid JSON")
	}
	return wholeNumbers(v), nil
}

// wholeNumbers converts numbers that are whole and exact as a float64 to int64, because CEL
// arithmetic does not mix the two types.
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

// decodeForm decodes a form. A repeated name is an error.
func decodeForm(body string) (map[string]any, error) {
	values, err := url.ParseQuery(body)
	if err != nil {
		return nil, errors.New("the body is not a valid form")
	}
	m := make(map[string]any, len(values))
	for name, all := range values {
		if len(all) > 1 {
			return nil, errors.New("field " + seedbed.Clip(name) + " is given twice")
		}
		m[name] = all[0]
	}
	return m, nil
}
