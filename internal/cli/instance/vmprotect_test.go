package instance

import (
	"bytes"
	"strings"
	"testing"

	"seedbed"
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

func TestFate(t *testing.T) {
	t.Parallel()
	one := seedbed.Instance{Volumes: make([]seedbed.Volume, 1)}
	two := seedbed.Instance{Volumes: make([]seedbed.Volume, 2),
		Attached: []seedbed.ProjectVolume{{Name: "a"}, {Name: "b"}, {Name: "c", Keep: true}}}
	for _, c := range []struct {
		of             seedbed.Instance
		keep           bool
		question, fate string
	}{
		{one, false, " and permanently delete its 1 disk", "its 1 disk will be permanently deleted"},
		{one, true, ", whose 1 disk becomes a volume", "its 1 disk becomes a volume"},
		{two, false, " and permanently delete its 2 disks and the volumes a, b, which were attached with --keep=false",
			"its 2 disks and the volumes a, b, which were attached with --keep=false, will be permanently deleted"},
		{two, true, ", whose 2 disks become volumes, and permanently delete the volumes a, b, which were attached with --keep=false",
			"its 2 disks become volumes, and the volumes a, b, which were attached with --keep=false, will be permanently deleted"},
	} {
		gone := goesWith(c.of)
		if got := andDelete(c.of, c.keep, gone); got != c.question {
			t.Errorf("it asks %q, want %q", got, c.question)
		}
		if got := fate(c.of, c.keep, gone); got != c.fate {
			t.Errorf("it says %q, want %q", got, c.fate)
		}
	}
}
