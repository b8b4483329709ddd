package seedbed

import (
	"errors"
	"slices"
	"testing"
)

func TestMeant(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		project, name string
		want          []string
	}{
		{"acme", "debian", []string{"acme/debian", "debian"}},
		{"acme", "acme/debian", []string{"acme/debian"}},
		{"acme", "default/debian", []string{"debian"}},
		{"acme", "other/debian", []string{"other/debian"}},
		{"default", "debian", []string{"debian"}},
		{"default", "default/debian", []string{"debian"}},
		{"default", "acme/debian", []string{"acme/debian"}},
	} {
		got, err := Meant(PublishedImage, test.project, test.name)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q in %s: %q, %v; want %q", test.name, test.project, got, err, test.want)
		}
	}
	for _, name := range []string{"", "/", "/debian", "acme/", "Acme/debian", "a/b/c", "acme/../debian", "de bian"} {
		if got, err := Meant(PublishedImage, "acme", name); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"debian", "acme/debian"} {
		if got, err := Meant(PublishedImage, "shop", Explicit(name)); err != nil || !slices.Equal(got, []string{name}) {
			t.Errorf("%q: %q, %v", Explicit(name), got, err)
		}
	}
}

func TestPublication(t *testing.T) {
	t.Parallel()
	p := Publication{Projects: []string{"b", "acme", "a", "b"}}
	if err := p.Check("acme"); err != nil || !slices.Equal(p.Projects, []string{"a", "b"}) || p.String() != "a, b" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []Publication{
		{All: true, Projects: []string{"a"}}, {Projects: []string{"A b"}}, {Projects: []string{"*"}}, {Projects: make([]string, maxPublished+1)},
	} {
		if err := bad.Check("acme"); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, test := range []struct {
		of      Publication
		project string
		want    bool
	}{
		{Publication{}, "acme", true}, {Publication{}, "a", false}, {Publication{All: true}, "a", true}, {p, "a", true}, {p, "c", false},
	} {
		if got := test.of.Lets(test.project, "acme/debian"); got != test.want {
			t.Errorf("%s lets %s: %v", test.of, test.project, got)
		}
	}
}
