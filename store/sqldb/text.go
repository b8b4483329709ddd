package sqldb

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Clean makes untrusted text fit for a text column: valid UTF-8 without NUL, at most max bytes.
func Clean(s string, max int) string {
	if len(s) > max {
		for max > 0 && !utf8.RuneStart(s[max]) {
			max--
		}
		s = s[:max]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// MaxText is the largest size in bytes of a message or error that is stored.
const MaxText = 4 << 10

// LikePrefix returns a LIKE pattern, for use with ESCAPE '\', that matches every string starting
// with s.
func LikePrefix(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s) + "%"
}

// Within puts the place before an error's text and keeps its kind.
func Within(place string, err error) error { return fmt.Errorf("%s: %w", place, err) }

// Quoted lists at most five names for a message.
func Quoted(names []string) string {
	var all []string
	for _, n := range names[:min(len(names), 5)] {
		all = append(all, fmt.Sprintf("%q", n))
	}
	if len(names) > 5 {
		all = append(all, "and others")
	}
	return strings.Join(all, ", ")
}
