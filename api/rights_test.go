package api_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/api"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestRightsOfRoles compares which routes a caller with each role may call, from the default project and
// from another one, with a golden file. It keeps a change of the routes from changing a right.
func TestRightsOfRoles(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, route := range api.Routes() {
		in := []string{}
		for _, role := range seedbed.Roles() {
			if set, _ := role.BuiltIn(); route.Action == api.Anyone || set.Has(route.Action) {
				in = append(in, string(role))
			}
		}
		others := slices.Clone(in)
		if route.Action == api.Anyone {
			in = append([]string{"anyone"}, in...)
			others = in
		} else if !route.InProject() {
			others = []string{"-"}
		}
		lines = append(lines, fmt.Sprintf("%-6s %-48s default: %-33s others: %s",
			route.Method, route.Path, strings.Join(in, " "), strings.Join(others, " ")))
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const file = "testdata/rights.golden"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the rights of the roles (-golden +table; run with -update if that is meant):\n%s", diff)
	}
}
