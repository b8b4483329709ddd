package seedbed

import (
	"strings"
	"testing"
)

func TestClipTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		n    int
		want string
	}{
		"short":                {"abc", 3, "abc"},
		"long":                 {"abcd", 3, "abc…"},
		"cut within a letter":  {"aß", 2, "a…"},
		"not UTF-8":            {"a\xffb", 10, "a\ufffdb"},
		"not UTF-8, then long": {"\xff\xffb", 3, "\ufffd…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ClipTo(c.text, c.n); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := Clip(strings.Repeat("x", 81)); got != strings.Repeat("x", 80)+"… (81 bytes)" {
		t.Errorf("Clip: %q", got)
	}
}
