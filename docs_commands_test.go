package seedbed_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// commandLine begins a block of commands, as opposed to one of output, configuration or a drawing.
	commandLine = regexp.MustCompile(`^(\$ |[A-Z_]+=|\[ |(\S*/)?(seedbed|seedbedd|seedbed-worker|seedbed-metadata|` +
		`adduser|apt|apt-get|bash|cat|cd|chmod|cp|curl|docker|echo|export|for|git|install|ip|jq|kill|make|mkdir|nft|` +
		`openssl|psql|pvc|python3|rm|runuser|sed|sh|ssh|ssh-keygen|sudo|sysctl|systemctl|tee|until|virsh|wget|while|` +
		`\S+\.(py|sh))( [^ (]|$))`)
	runMarker    = regexp.MustCompile(`^<!-- run: (Test[A-Za-z0-9]+) -->$`)
	notRunMarker = regexp.MustCompile(`^<!-- not run: \S.*\S -->$`)
)

// block is an indented block of a page.
type block struct {
	line   int
	first  string
	marker string // the last line before it that is not empty
}

// blocks returns the indented blocks of a page.
func blocks(page string) (all []block) {
	before, inside := "", false
	for n, line := range strings.Split(page, "\n") {
		if text, indented := strings.CutPrefix(line, "    "); indented {
			if !inside {
				all = append(all, block{n + 1, text, before})
			}
			inside = true
			continue
		}
		if line != "" {
			before, inside = line, false
		}
	}
	return all
}

// unmarked returns what is wrong with the markers of the blocks of commands of a page.
func unmarked(page string, tests map[string]bool) (all []block) {
	for _, b := range blocks(page) {
		if !commandLine.MatchString(strings.TrimSpace(b.first)) || notRunMarker.MatchString(b.marker) {
			continue
		}
		if m := runMarker.FindStringSubmatch(b.marker); m == nil || !tests[m[1]] {
			all = append(all, b)
		}
	}
	return all
}

// TestCommandsOfPagesRun holds that each block of commands in the README and in docs/ is run by the
// test that its marker names, or says in a marker why it is not.
func TestCommandsOfPagesRun(t *testing.T) {
	t.Parallel()
	pages, tests := []string{"README.md", "CONTRIBUTING.md"}, map[string]bool{}
	// These read the marker: a test that does not would run nothing.
	for _, file := range []string{"cmd/seedbed/docs_test.go", "internal/e2e/tour_integration_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`<!-- run: (Test\w+) -->`).FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = strings.Contains(string(text), "func "+m[1]+"(")
		}
	}
	err := filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range unmarked(string(text), tests) {
			t.Errorf("%s:%d: no test runs the commands from %q on: put <!-- run: TEST --> or <!-- not run: REASON --> before them",
				page, b.line, b.first)
		}
		for name := range tests {
			used[name] = used[name] || strings.Contains(string(text), "<!-- run: "+name+" -->")
		}
	}
	for name, found := range used {
		if !found {
			t.Errorf("no block is marked for %s", name)
		}
	}
	example := "\n    seedbed vm list\n\n<!-- run: TestNone -->\n\n    make x\n\n" +
		"<!-- not run: it is slow -->\n\n    seedbed y\n\nfeed:\n\n    a: 1\n"
	if got := unmarked(example, tests); !slices.EqualFunc(got, []int{2, 6}, func(b block, line int) bool { return b.line == line }) {
		t.Errorf("of the example, %+v are found", got)
	}
}
