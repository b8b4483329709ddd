package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	words := []string{"list", "show", "start", "stop", "log", "reboot", "rebuild", "resize", "remove", "tag"}
	for text, want := range map[string][]string{
		"lits":     {"list"},
		"shwo":     {"show"},
		"satrt":    {"start"},
		"strt":     {"start"},
		"STOP":     {"stop"},
		"stp":      {"stop"},
		"logs":     {"log"},
		"rebuidl":  {"rebuild"},
		"re":       {"reboot", "rebuild", "remove"}, // the first three
		"frob":     nil,
		"x":        nil,
		"":         nil,
		"tax":      {"tag"},
		"listings": nil,
	} {
		got := nearest(text, words)
		if len(got) == 0 {
			got = nil
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
}

func TestEdits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"web1", "web1", 0}, {"", "ab", 2}, {"ab", "", 2}, {"lits", "list", 1}, {"web1", "web2", 1},
		{"bulid", "build", 1}, {"kitten", "sitting", 3}, {"é", "e", 1},
	} {
		if got := edits(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: %d edits, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
