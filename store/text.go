package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// clean makes untrusted text fit for a text column: valid UTF-8 without NUL, at most max bytes.
func clean(s string, max int) string {
	if len(s) > max {
		for max > 0 && !utf8.RuneStart(s[max]) {
			max--
		}
		s = s[:max]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// maxText is the largest size in bytes of a message or error that is stored.
const maxText = 4 << 10

// likePrefix returns a LIKE pattern, for use with ESCAPE '\', that matches every string starting
// with s.
func likePrefix(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s) + "%"
}

// within puts the place before an error's text and keeps its kind.
func within(place string, err error) error { return fmt.Errorf("%s: %w", place, err) }

// quoted lists at most five names for a message.
func quoted(names []string) string {
	var all []string
	for _, n := range names[:min(len(names), 5)] {
		all = append(all, fmt.Sprintf("%q", n))
	}
	if len(names) > 5 {
		all = append(all, "and others")
	}
	return strings.Join(all, ", ")
}
