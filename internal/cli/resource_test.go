package cli

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestAgree(t *testing.T) {
	t.Parallel()
	const question = "Remove network %[2]s from network template %[1]s"
	tests := []struct {
		name, answer, want string
		yes, terminal      bool
	}{
		{name: "given", yes: true},
		{name: "nobody to ask", want: `remove network "v\x1b" from network template "lan": add -y (--yes) to confirm`},
		{name: "yes", terminal: true, answer: "Yes\n"},
		{name: "no", terminal: true, answer: "n\n", want: "nothing was removed"},
		{name: "only return", terminal: true, answer: "\n", want: "nothing was removed"},
		{name: "gone", terminal: true, answer: "y", want: "nothing was removed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			a := onTerminal(&out)
			a.Terminal, a.In = tt.terminal, strings.NewReader(tt.answer)
			err := a.agree(tt.yes, question, []string{"lan", "v\x1b"})
			if got := message(err); got != tt.want {
				t.Errorf("agree = %q, want %q", got, tt.want)
			}
			asked := ""
			if tt.terminal && !tt.yes {
				asked = `Remove network "v\x1b" from network template "lan"? [y/N] `
			}
			if diff := cmp.Diff(asked, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestFlagWithOpposite(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"": "true -", "--start": "true true", "-s": "true true", "-S": "false false", "--no-start": "false false",
		"--start=false": "false false", "--no-start=false": "true true",
	} {
		c := &cobra.Command{}
		r := struct {
			Start bool `json:"start"`
		}{true}
		b := Bind(&App{}, c, &r, Flag{Field: "start", Short: "s", Off: "S", Usage: "start it"})
		if err := c.ParseFlags(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if err := b.Read(); err != nil {
			t.Fatal(err)
		}
		said := "-"
		if b.Given() {
			said = strconv.FormatBool(r.Start)
		}
		if got := strconv.FormatBool(r.Start) + " " + said; got != want {
			t.Errorf("%q gives %s, want %s", args, got, want)
		}
	}
}

func TestOneOf(t *testing.T) {
	t.Parallel()
	value := "provisioner"
	o := oneOf{&value, []string{"provisioner", "ova"}}
	if err := o.Set("OVA"); err != nil || value != "ova" || o.String() != "ova" {
		t.Errorf("Set(OVA): %v, %q", err, value)
	}
	if err := o.Set("ov"); err == nil || value != "ova" {
		t.Errorf("Set(ov): %v, %q, want it refused", err, value)
	}
	if (oneOf{}).String() != "" {
		t.Error("the zero value has a text")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for want, head := range map[string][]string{
		"a\nb\uFFFD c\n": {"name", "id"},
		"1\n2\n":         {"received", "id"},
		"x\nx\n":         {"x", "y"},
	} {
		rows := [][]string{{"a", "1"}, {"b\x1b\nc", "2"}}
		if head[0] == "x" {
			rows = [][]string{{"x", "1"}, {"x", "2"}}
		}
		var out bytes.Buffer
		onTerminal(&out).printNames(head, rows)
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%v: %s", head, diff)
		}
	}
}
