package httpserve

import (
	"errors"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"
)

// Fields are the header fields of a request: the values by lower-case name.
type Fields map[string][]string

// Has tells whether the field is there, even if empty.
func (f Fields) Has(name string) bool { return len(f[name]) > 0 }

// Get is the only value of a field that must not come twice, or "".
func (f Fields) Get(name string) string {
	if len(f[name]) == 0 {
		return ""
	}
	return f[name][0]
}

// FieldsOf are the fields of a request that a Guard let through.
func FieldsOf(ctx *fasthttp.RequestCtx) Fields {
	f, _ := ctx.UserValue(fieldsKey).(Fields)
	return f
}

// usual is how many fields most requests have at most.
const usual = 8

// framing are the headers that decide something on any server.
var framing = []string{"host", "content-length", "transfer-encoding", "content-type", "content-encoding", "expect"}

// ParseFields reads a header block as it came off the wire, without the request
// line. It does so itself because a parsed header no longer tells that a line
// was folded, that a field came twice, or that both lengths were given
// (RFC 9112 5.2 and 6.3): each is an error, which quotes no value. The headers
// that must not come twice are those of framing and coding, and the given ones.
func ParseFields(raw []byte, single ...string) (Fields, error) {
	f := make(Fields, usual)
	text, values := string(raw), make([]string, 0, usual) // once for all fields
	for line := range strings.SplitSeq(text, "\r\n") {
		if len(line) == 0 {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' || strings.ContainsAny(line, "\r\n\x00") {
			return nil, errors.New("a header line is folded or holds a control character")
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || len(name) == 0 || strings.ContainsAny(name, " \t") {
			return nil, errors.New("a header line has no name")
		}
		key := strings.ToLower(name)
		values = append(values, strings.Trim(value, " \t"))
		if n := len(values); f[key] == nil {
			f[key] = values[n-1 : n : n]
		} else {
			f[key] = append(f[key], values[n-1])
		}
	}
	for _, names := range [][]string{framing, single} {
		for _, name := range names {
			if len(f[name]) > 1 {
				return nil, fmt.Errorf("header %s comes more than once", name)
			}
		}
	}
	if f.Has("content-length") && f.Has("transfer-encoding") {
		return nil, errors.New("Content-Length together with Transfer-Encoding")
	}
	return f, nil
}
