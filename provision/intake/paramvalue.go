package intake

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"

	"seedbed"
)

// document64 parses a document: a string, in base64 if encoded, because it may then hold any bytes.
func document64(param string, v any, encoded bool) ([]byte, error) {
	text, ok := v.(string)
	if !ok {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "param %s is %s: expected a string", param, kindOf(v))
	}
	if !encoded {
		return []byte(text), nil
	}
	doc, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "param %s is not base64 (RFC 4648, with padding)", param)
	}
	return doc, nil
}

// word parses a string.
func word(param string, v any) (string, error) {
	text, ok := v.(string)
	if !ok || text == "" {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "param %s is %s: expected a word", param, kindOf(v))
	}
	return text, nil
}

// truth parses true or false, which a command line gives as text.
func truth(param string, v any) (*bool, error) {
	on, ok := v.(bool)
	if text, isText := v.(string); isText && (text == "true" || text == "false") {
		on, ok = text == "true", true
	}
	if !ok {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "param %s is %s: expected true or false", param, kindOf(v))
	}
	return &on, nil
}

// tags returns the profile's tags overridden by the given ones; null removes a tag.
func tags(of map[string]string, v any) (map[string]string, error) {
	out := maps.Clone(of)
	if out == nil {
		out = map[string]string{}
	}
	switch given := v.(type) {
	case map[string]string:
		maps.Copy(out, given)
		return out, nil
	case map[string]any:
		for k, e := range given {
			switch value := e.(type) {
			case nil:
				delete(out, k)
			case string:
				out[k] = value
			default:
				return nil, seedbed.Errorf(seedbed.ErrInvalid,
					"param tags: the value of %q is %s: expected a string, or null for none", seedbed.Clip(k), kindOf(e))
			}
		}
		return out, nil
	}
	return nil, seedbed.Errorf(seedbed.ErrInvalid, "param tags is %s: expected an object of strings", kindOf(v))
}

// size parses a size: a string such as "2GiB", or a whole number of bytes.
func size(param string, v any) (seedbed.Bytes, error) {
	if s, ok := v.(string); ok {
		b, err := seedbed.ParseBytes(s)
		if err != nil {
			return 0, seedbed.Errorf(seedbed.ErrInvalid, "param %s: %s", param, err)
		}
		return b, nil
	}
	n, ok := whole(v)
	if !ok || n < 0 {
		return 0, seedbed.Errorf(seedbed.ErrInvalid,
			"param %s is %s: expected a size such as \"2GiB\", or a whole number of bytes", param, kindOf(v))
	}
	return seedbed.Bytes(n), nil
}

// whole parses a number from a JSON decoder or a Go caller. It rejects numbers above 2^53, where a
// float64 is not exact.
func whole(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) <= 1<<53
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	}
	return 0, false
}

// kindOf describes a JSON value without repeating it.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any, []string:
		return "an array"
	case map[string]any:
		return "an object"
	}
	if n, ok := whole(v); ok && n < 0 {
		return "negative"
	}
	return "a number that does not fit"
}
