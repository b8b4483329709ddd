package instance

import (
	"bytes"
	"strings"
	"testing"

	"seedbed/internal/cli"
)

func TestAskAll(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer, want string
		names              []string
		terminal           bool
	}{
		{name: "one", names: []string{"web1"}, want: "stopping 1 instance interrupts guests: add -y (--yes) to confirm"},
		{name: "several", names: []string{"web1", "web2"}, want: "stopping 2 instances interrupts guests: add -y (--yes) to confirm"},
		{name: "yes", names: []string{"web1", "web2"}, terminal: true, answer: "y\n"},
		{name: "no", names: []string{"web1", "web2"}, terminal: true, answer: "\n", want: "no instance was changed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			a := &cli.App{Out: &out, Err: &out, In: strings.NewReader(tt.answer), Terminal: tt.terminal}
			err, got := askAll(a, risk{"stop", "stopping", "interrupts guests"}, tt.names), ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("askAll = %q, want %q", got, tt.want)
			}
			asked := ""
			if tt.terminal {
				asked = "Stop web1, web2? This interrupts guests. [y/N] "
			}
			if out.String() != asked {
				t.Errorf("it asks %q, want %q", out.String(), asked)
			}
		})
	}
}
