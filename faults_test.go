package seedbed_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFaultsAreTested holds that docs/reference/faults.md has every case that it is to have, once,
// and that the tests that it names are there.
func TestFaultsAreTested(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("docs/reference/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| ([0-9]+)(?: to ([0-9]+))? \|.*\|([^|]*)\|$`)
	name := regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)(?:/([A-Za-z_]+))?`")
	seen := map[int]int{}
	sources := map[string]string{} // of a package's tests
	contracts := goFiles(t, "store/storetest/*.go") + goFiles(t, "provision/worker/drivertest/*.go")
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
			pkg, name, part := test[1], test[2], strings.ReplaceAll(test[3], "_", " ")
			if _, known := sources[pkg]; !known {
				sources[pkg] = goFiles(t, pkg+"/*_test.go")
			}
			if !strings.Contains(sources[pkg], "\nfunc "+name+"(t *testing.T) {") {
				t.Errorf("case %s: package %s has no test %s", m[1], pkg, name)
			}
			if quoted := strconv.Quote(part); part != "" && !strings.Contains(sources[pkg], quoted) && !strings.Contains(contracts, quoted) {
				t.Errorf("case %s: test %s of package %s has no part %s", m[1], name, pkg, quoted)
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

// goFiles is the text of the files of a pattern.
func goFiles(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.FromSlash(pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file is %s: %v", pattern, err)
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
