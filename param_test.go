package seedbed_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func text(s string) *seedbed.ParamText { t := seedbed.ParamText(s); return &t }

func TestCheckParams(t *testing.T) {
	t.Parallel()
	many := make([]seedbed.Param, seedbed.MaxParams+1)
	for _, tt := range []struct {
		name   string
		params []seedbed.Param
		want   string
	}{
		{"all", []seedbed.Param{
			{Name: "a", Type: "string", Pattern: "[a-z]+", Default: text("x"), Description: "what it is"},
			{Name: "_b2", Type: "int", Required: true}, {Name: "c", Type: "size"},
			{Name: "d", Type: "bool", Default: text("true")}, {Name: "e", Type: "enum", Values: []string{"x", "y z"}},
			{Name: "f", Type: "secret", Pattern: ".{8,}"},
		}, ""},
		{"none", nil, ""},
		{"too many", many, "at most 64"},
		{"no name", []seedbed.Param{{Type: "int"}}, "no usable name"},
		{"dash", []seedbed.Param{{Name: "a-b", Type: "int"}}, "no usable name"},
		{"twice", []seedbed.Param{{Name: "a", Type: "int"}, {Name: "a", Type: "bool"}}, "declared twice"},
		{"type", []seedbed.Param{{Name: "a", Type: "float"}}, `type "float" is unknown`},
		{"no type", []seedbed.Param{{Name: "a"}}, "is unknown"},
		{"enum without values", []seedbed.Param{{Name: "a", Type: "enum"}}, "needs the values"},
		{"values of an int", []seedbed.Param{{Name: "a", Type: "int", Values: []string{"1"}}}, "for the type enum"},
		{"empty value", []seedbed.Param{{Name: "a", Type: "enum", Values: []string{""}}}, "not usable"},
		{"pattern of an int", []seedbed.Param{{Name: "a", Type: "int", Pattern: "1"}}, "for the types string and secret"},
		{"bad pattern", []seedbed.Param{{Name: "a", Type: "string", Pattern: "("}}, "not a regular expression: missing closing )"},
		{"pattern that would be one only with what is around it", []seedbed.Param{{Name: "a", Type: "string", Pattern: "a)|(b"}},
			"not a regular expression"},
		{"secret with a default", []seedbed.Param{{Name: "a", Type: "secret", Default: text("x")}}, "a secret cannot have a default"},
		{"required with a default",
			[]seedbed.Param{{Name: "a", Type: "string", Required: true, Default: text("x")}}, "a required param cannot have a default"},
		{"description", []seedbed.Param{{Name: "a", Type: "string", Description: "a\nb"}}, "one line"},
		{"default with NUL", []seedbed.Param{{Name: "a", Type: "string", Default: text("\x00")}}, "default is not usable"},
	} {
		err := seedbed.CheckParams(tt.params)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v; want one that says %q", tt.name, err, tt.want)
		}
	}
}

func TestParamParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		param seedbed.Param
		text  string
		want  any // nil for a refusal
	}{
		{seedbed.Param{Type: "int"}, "-12", int64(-12)},
		{seedbed.Param{Type: "int"}, "1.5", nil},
		{seedbed.Param{Type: "int"}, "9223372036854775808", nil},
		{seedbed.Param{Type: "int"}, "", nil},
		{seedbed.Param{Type: "size"}, "2GiB", int64(2 << 30)},
		{seedbed.Param{Type: "size"}, "2XB", nil},
		{seedbed.Param{Type: "bool"}, "true", true},
		{seedbed.Param{Type: "bool"}, "yes", nil},
		{seedbed.Param{Type: "enum", Values: []string{"a", "b"}}, "b", "b"},
		{seedbed.Param{Type: "enum", Values: []string{"a", "b"}}, "c", nil},
		{seedbed.Param{Type: "string"}, "ä\n", "ä\n"},
		{seedbed.Param{Type: "string"}, "a\x00", nil},
		{seedbed.Param{Type: "string"}, "\xff", nil},
		{seedbed.Param{Type: "string"}, strings.Repeat("x", seedbed.MaxParamText+1), nil},
		{seedbed.Param{Type: "string", Pattern: "a|bc"}, "bc", "bc"},
		{seedbed.Param{Type: "string", Pattern: "a|bc"}, "abc", nil},
		{seedbed.Param{Type: "string", Pattern: "a"}, "a\n", nil},
		{seedbed.Param{Type: "secret", Pattern: ".{8,}"}, "hunter2", nil},
	} {
		tt.param.Name = "p"
		got, err := tt.param.Parse(tt.text)
		if d := cmp.Diff(tt.want, got); d != "" || (err == nil) != (tt.want != nil) || err != nil && !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%+v of %.20q: %v, %v", tt.param, tt.text, got, err)
		}
		if err != nil && tt.param.Type == seedbed.ParamSecret && strings.Contains(err.Error(), tt.text) {
			t.Errorf("the message tells the secret: %v", err)
		}
	}
}

func TestParamText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{`"a"`: "a", `80`: "80", `true`: "true", `1.5`: "1.5", `"80"`: "80"} {
		var got seedbed.ParamText
		if err := json.Unmarshal([]byte(in), &got); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{`[]`, `{}`, `["a"]`} {
		var got seedbed.ParamText
		if err := json.Unmarshal([]byte(in), &got); err == nil {
			t.Errorf("%s: %q", in, got)
		}
	}
}

// FuzzParam holds that a value is read or refused, and that what was read is so again from its
// text.
func FuzzParam(f *testing.F) {
	for _, s := range []string{"", "12", "2GiB", "true", "a", "\x00"} {
		f.Add(s, "a+")
	}
	f.Fuzz(func(t *testing.T, value, pattern string) {
		for _, kind := range seedbed.ParamTypes() {
			p := seedbed.Param{Name: "p", Type: kind}
			if kind == seedbed.ParamEnum {
				p.Values = []string{"a", "b"}
			}
			if kind == seedbed.ParamString || kind == seedbed.ParamSecret {
				p.Pattern = pattern
			}
			if seedbed.CheckParams([]seedbed.Param{p}) != nil {
				continue
			}
			got, err := p.Parse(value)
			if err != nil {
				if !errors.Is(err, seedbed.ErrInvalid) {
					t.Fatalf("%s of %q: %v", kind, value, err)
				}
				continue
			}
			if s, ok := got.(string); ok && s != value {
				t.Fatalf("%s of %q gave %q", kind, value, s)
			}
		}
	})
}

func TestFollow(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]seedbed.Follow{"": seedbed.FollowLive, "live": seedbed.FollowLive, "pinned": seedbed.FollowPinned} {
		if got, err := seedbed.ParseFollow(in, seedbed.FollowLive); got != want || err != nil {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	if _, err := seedbed.ParseFollow("Live", ""); !errors.Is(err, seedbed.ErrInvalid) {
		t.Error(err)
	}
}
