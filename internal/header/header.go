// Package header parses the header fields of an HTTP request as they were received.
package header

import (
	"errors"
	"fmt"
	"strings"
)

// Fields holds the header fields of a request: the values by lower-case name.
type Fields map[string][]string

// Has reports whether the field is present, even if empty.
func (f Fields) Has(name string) bool { return len(f[name]) > 0 }

// Get returns the only value of a field that must not occur twice, or "".
func (f Fields) Get(name string) string {
	if len(f[name]) == 0 {
		return ""
	}
	return f[name][0]
}

// usual is the capacity that suffices for most requests.
const usual = 8

// framing holds the headers on which every server's decisions depend.
var framing = []string{"host", "content-length", "transfer-encoding", "content-type", "content-encoding", "expect"}

// Parse parses a header block as it was received, without the request line. It exists because
// a parsed header no longer shows that a line was folded, that a field occurred twice, or that both
// lengths were given (RFC 9112 5.2 and 6.3). Each of these is an error, whose text quotes no value.
// The headers in framing, and those in single, must not occur twice.
func Parse(raw []byte, single ...string) (Fields, error) {
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
				return nil, fmt.Errorf("header %s is given more than once", name)
			}
		}
	}
	if f.Has("content-length") && f.Has("transfer-encoding") {
		return nil, errors.New("Content-Length together with Transfer-Encoding")
	}
	return f, nil
}
