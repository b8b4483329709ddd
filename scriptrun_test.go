package seedbed_test

import (
	"testing"

	"seedbed"
)

// A text that quotes a script is cut where that begins, wherever in the text the stage is.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "",
		"rolled back, nothing is left":     "rolled back, nothing is left",
		"stage define: volume x: in use":   "stage define: volume x: in use",
		"stage install: hush":              "stage install: " + seedbed.ScriptWithheld,
		"failed: stage prepare: a: hush":   "failed: stage prepare: " + seedbed.ScriptWithheld,
		"cancelled; left behind: setup: x": "cancelled; left behind: setup: " + seedbed.ScriptWithheld,
		"stage start: no; left behind: a: b; install: hush": "stage start: no; left behind: a: b; install: " + seedbed.ScriptWithheld,
		"the install of x: ended":                           "the install of x: ended",
	} {
		if got := seedbed.WithoutScript(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
