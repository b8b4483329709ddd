package seedbed

import (
	"fmt"
	"strings"
)

// clipAt is how many bytes Clip keeps.
const clipAt = 80

// Clip bounds what a message quotes of untrusted text. It returns at most 80 bytes, as ClipTo does,
// and adds the length of s if that is longer.
func Clip(s string) string {
	if len(s) <= clipAt {
		return ClipTo(s, clipAt)
	}
	return fmt.Sprintf("%s (%d bytes)", ClipTo(s, clipAt), len(s))
}

// ClipTo returns at most n bytes of s, and "…" if s is longer. It replaces invalid UTF-8 by U+FFFD.
func ClipTo(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
