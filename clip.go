package seedbed

import (
	"fmt"
	"strings"
)

// clipAt is how many bytes Clip leaves.
const clipAt = 80

// Clip bounds what a message quotes of a stranger's text: 80 bytes of it as ClipTo
// leaves them, and how many there were.
func Clip(s string) string {
	if len(s) <= clipAt {
		return ClipTo(s, clipAt)
	}
	return fmt.Sprintf("%s (%d bytes)", ClipTo(s, clipAt), len(s))
}

// ClipTo is at most n bytes of s, and "…" when that is not all; what is no UTF-8 becomes U+FFFD.
func ClipTo(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
