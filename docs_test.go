package seedbed_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link matches the target of a Markdown link.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks checks that every relative link of the documentation leads to a file, and that the
// index links every page.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages := []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir("docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{"docs/README.md": true}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, ":") {
				continue
			}
			path := filepath.Join(filepath.Dir(page), target)
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
			if page == "docs/README.md" {
				linked[path] = true
			}
		}
	}
	for _, page := range pages {
		if strings.HasPrefix(page, "docs/") && !strings.HasPrefix(page, "docs/decisions/") && !linked[page] {
			t.Errorf("docs/README.md does not link %s", page)
		}
	}
}
