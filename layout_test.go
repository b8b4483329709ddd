package seedbed_test

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "seedbed"

// listed is what `go list -json` says about one package.
type listed struct {
	ImportPath string
	Standard   bool
	CgoFiles   []string
	Imports    []string
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,CgoFiles,Imports"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// within returns the path of a package inside the module, "." for its root.
func within(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// matches reports whether a package is in a list of packages, in which "x/*" is all below x.
func matches(list, pkg string) bool {
	return slices.ContainsFunc(strings.Fields(list), func(one string) bool {
		above, all := strings.CutSuffix(one, "*")
		return one == pkg || all && strings.HasPrefix(pkg, above)
	})
}

// allowed returns the row of layout that counts for a package: its own, or that of the longest
// pattern.
func allowed(pkg string) (row string, found bool) {
	if row, found = layout[pkg]; found {
		return row, true
	}
	for dir := path.Dir(pkg); dir != "."; dir = path.Dir(dir) {
		if row, found = layout[dir+"/*"]; found {
			return row, true
		}
	}
	return "", false
}

// TestLayout checks that packages import only what layout and outside allow them, and that layout
// has only rows of existing packages.
func TestLayout(t *testing.T) {
	t.Parallel()
	for of := range layout {
		if _, err := os.Stat(strings.TrimSuffix(of, "/*")); err != nil {
			t.Errorf("layout (layout_table_test.go) has a row for %s: %v", of, err)
		}
	}
	for _, p := range list(t, "-tags", "libvirt,ceph,pacific", "./...") {
		from, _ := within(p.ImportPath)
		row, found := allowed(from)
		if !found && len(p.Imports) > 0 {
			t.Errorf("package %s has no row in layout (layout_table_test.go): add what it may import", from)
			continue
		}
		for _, imp := range p.Imports {
			to, ours := within(imp)
			switch {
			case ours && strings.HasPrefix(to, "cmd/"):
				t.Errorf("%s imports the program %s", from, to)
			case ours && to != "." && !matches(row, to):
				t.Errorf("%s imports %s: its row in layout (layout_table_test.go) does not allow it", from, to)
			case !ours && from == "." && strings.Contains(strings.Split(imp, "/")[0], "."):
				t.Errorf("the root package imports %s: it may only use the standard library", imp)
			}
			for what, by := range outside {
				if (imp == what || strings.HasPrefix(imp, what+"/")) && !matches(by, from) {
					t.Errorf("%s imports %s: only these may: %s", from, imp, by)
				}
			}
		}
	}
}

// TestPrograms holds that only seedbed-worker links C, and that no program links what only tests
// need.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"seedbedd", "seedbed-metadata", "seedbed", "seedbed-worker"} {
		var linksC []string
		for _, p := range list(t, "-deps", "-tags", "libvirt,ceph,pacific", "./cmd/"+program) {
			if !p.Standard && len(p.CgoFiles) > 0 {
				linksC = append(linksC, p.ImportPath)
			}
			if at, ours := within(p.ImportPath); ours && matches(support, at) {
				t.Errorf("%s links %s, which is for tests", program, at)
			}
		}
		if worker := program == "seedbed-worker"; worker != (linksC != nil) {
			t.Errorf("%s links C by %v: only seedbed-worker does, built with its tags", program, linksC)
		}
	}
}

// sources returns the Go files of the tree and what is in them.
func sources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(".", func(name string, f fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case f.IsDir() && slices.Contains([]string{".git", ".cache", "bin", "dist"}, name):
			return filepath.SkipDir
		case f.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(name)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSizes holds the bounds of packages, files and lines.
func TestSizes(t *testing.T) {
	t.Parallel()
	files := map[string]int{}
	for name, text := range sources(t) {
		if lines := strings.Count(text, "\n"); lines > max(maxLines, longFiles[name]) {
			t.Errorf("%s has %d lines, want %d at most: split it", name, lines, max(maxLines, longFiles[name]))
		}
		if !strings.HasSuffix(name, "_test.go") {
			files[path.Dir(name)]++
		}
		var wide []int
		n := 0
		for line := range strings.Lines(text) {
			n++
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > maxColumns {
				wide = append(wide, n)
			}
		}
		if most := wideLines[name]; len(wide) > most {
			t.Errorf("%s: lines %d are wider than %d columns, want at most %d such lines: break them", name, wide, maxColumns, most)
		}
	}
	for dir, n := range files {
		if most := max(maxFiles, manyFiles[dir]); n > most {
			t.Errorf("package %s has %d files without its tests, want %d at most: split it", dir, n, most)
		}
	}
}

// TestContextValues holds that only some files put values into a context.
func TestContextValues(t *testing.T) {
	t.Parallel()
	for name, text := range sources(t) {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(contextValues, name) {
			continue
		}
		if strings.Contains(text, "context.WithValue(") {
			t.Errorf("%s uses context.WithValue: pass what a function needs as an argument", name)
		}
	}
}
