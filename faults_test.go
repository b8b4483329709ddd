package seedbed_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFaultsAreTested holds that docs/faults.md has every case that it is to
// have, once, and that the tests that it names are there.
func TestFaultsAreTested(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| ([0-9]+)(?: to ([0-9]+))? \|.*\|([^|]*)\|$`)
	name := regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)(?:/[a-z_]+)?`")
	seen := map[int]int{}
	sources := map[string]string{} // of a package's tests
	for _, m := range row.FindAllStringSubmatch(string(doc), -1) {
		first, _ := strconv.Atoi(m[1])
		last := first
		if m[2] != "" {
			last, _ = strconv.Atoi(m[2])
		}
		for n := first; n <= last; n++ {
			seen[n]++
		}
		tests := name.FindAllStringSubmatch(m[3], -1)
		if len(tests) == 0 || len(tests) != strings.Count(m[3], "`")/2 {
			t.Errorf("case %s: %q: want tests as `package.TestName`", m[1], m[3])
		}
		for _, test := range tests {
			pkg, name := test[1], test[2]
			if _, known := sources[pkg]; !known {
				sources[pkg] = testsOf(t, pkg)
			}
			if !strings.Contains(sources[pkg], "\nfunc "+name+"(t *testing.T) {") {
				t.Errorf("case %s: package %s has no test %s", m[1], pkg, name)
			}
		}
	}
	for _, part := range [][2]int{{1, 19}, {22, 26}, {38, 60}} {
		for n := part[0]; n <= part[1]; n++ {
			if seen[n] != 1 {
				t.Errorf("case %d is there %d times", n, seen[n])
			}
		}
	}
}

// testsOf is the text of a package's test files.
func testsOf(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}
