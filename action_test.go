package seedbed_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

var update = flag.Bool("update", false, "rewrite generated tables")

// TestActionsAreDocumented compares the table of docs/reference/actions.md with the actions.
func TestActionsAreDocumented(t *testing.T) {
	t.Parallel()
	const file, head = "docs/reference/actions.md", "|---|---|---|---|\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, got, ok := strings.Cut(string(text), head)
	if !ok {
		t.Fatalf("%s has no table", file)
	}
	var want strings.Builder
	for _, a := range seedbed.ActionTable() {
		about := "project"
		if a.Installation {
			about = "installation"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", a.Name, a.Role, about, a.Description)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+head+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), got); diff != "" {
		t.Errorf("%s (-table +page; run with -update):\n%s", file, diff)
	}
}

// TestActionsOf checks that wildcards stand for all actions of a noun, and that what this release does not
// know gives nothing.
func TestActionsOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		patterns, want []string
	}{
		{nil, []string{"self.read"}},
		{[]string{"snapshot.*"}, []string{"self.read", "snapshot.read", "snapshot.create", "snapshot.remove", "snapshot.restore",
			"snapshot.schedule"}},
		{[]string{"image.read", "image.*"}, []string{"self.read", "image.read", "image.import", "image.publish", "image.remove"}},
		{[]string{"paint.*", "image.paint", "*", "snap.*", ".*", ""}, []string{"self.read"}},
	} {
		var got []string
		for _, a := range seedbed.ActionsOf(test.patterns...).List() {
			got = append(got, string(a))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.patterns, diff)
		}
	}
	set, read := seedbed.ActionsOf("node.*", "job.read"), seedbed.ActionNodeRead
	if set.In("acme").Has(read) || !set.In(seedbed.DefaultProject).Has(read) {
		t.Error("an action about the installation counts in another project, or not in the default one")
	}
}

// TestBuiltInRoles checks that each built-in role has the actions of those before it, and the last one all.
func TestBuiltInRoles(t *testing.T) {
	t.Parallel()
	var before seedbed.ActionSet
	for _, role := range seedbed.Roles() {
		set, ok := role.BuiltIn()
		if lost := before.Without(set); !ok || len(lost) > 0 || len(set.List()) <= len(before.List()) {
			t.Errorf("%s: %v, without %v", role, ok, lost)
		}
		before = set
	}
	names := map[seedbed.Action]bool{}
	for _, a := range seedbed.ActionTable() {
		noun, verb, ok := strings.Cut(string(a.Name), ".")
		if !ok || noun == "" || verb == "" || names[a.Name] || !slices.Contains(seedbed.Roles(), a.Role) {
			t.Errorf("%+v", a)
		}
		names[a.Name] = true
	}
	if len(before.List()) != len(names) {
		t.Errorf("an admin has %d of %d actions", len(before.List()), len(names))
	}
}

func TestParseGrant(t *testing.T) {
	t.Parallel()
	if g, err := seedbed.ParseGrant("acme=viewer"); err != nil || g.String() != "acme=viewer" {
		t.Errorf("%+v %v", g, err)
	}
	for _, text := range []string{"", "acme", "=viewer", "acme=", "Acme=viewer", "acme=a b", "acme=viewer=x"} {
		if g, err := seedbed.ParseGrant(text); err == nil {
			t.Errorf("%q: %+v", text, g)
		}
	}
}
