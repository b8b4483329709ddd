package seedbed

import (
	"strings"
	"testing"
)

// TestHostname checks the name by which a guest may call itself.
func TestHostname(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 51)
	for _, c := range []struct{ name, project, want string }{
		{"web1", "", "web1"},
		{"web1", "acme", "web1.acme.internal"},
		{"web1", "com", "web1.com.internal"},
		{long[1:], "acme", long[1:] + ".acme.internal"}, // 64 characters
		{long, "acme", long},
	} {
		if got := (Guest{Name: c.name, Project: c.project}).Hostname(); got != c.want {
			t.Errorf("%s in %q: %s, want %s", c.name, c.project, got, c.want)
		}
	}
}
