package seedbed_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// written finds the tables that a file of Go writes: in statements, and in the lists of columns that
// rows are added to. An UPDATE that sets a column to itself only locks the row.
//
// unnamed finds statements whose table is a variable. A package that has one is taken to write each
// table whose name is one of its strings.
var (
	written = regexp.MustCompile("(?:INSERT INTO|DELETE FROM)\\s+([a-z_]+)\\b|`([a-z_]+) \\(|UPDATE\\s+([a-z_]+)\\s+SET\\s+(\\w+) = (\\w+)")
	locks   = func(m []string) bool { return m[4] != "" && m[4] == m[5] }
	unnamed = regexp.MustCompile("(?:INSERT INTO|DELETE FROM|UPDATE)\\s*[`\"%]")
	quoted  = regexp.MustCompile(`[ {]"([a-z_]+)"`)
)

// TestTables holds that each table is written by one package, but for those of together.
func TestTables(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	for pkg, all := range tables {
		for table := range strings.FieldsSeq(all) {
			if other, twice := owner[table]; twice {
				t.Errorf("table %s has two owners, %s and %s", table, other, pkg)
			}
			owner[table] = pkg
		}
	}
	for _, w := range statements(t) {
		table := w.table
		if owner[table] == "" && w.inserts && table != "sqlite_sequence" { // SQLite's own
			t.Errorf("store/%s writes the table %s, which has no owner in tables (layout_table_test.go)", w.file, table)
		}
		if owner[table] != "" && owner[table] != w.pkg && !slices.Contains(strings.Fields(together[w.pkg]), table) {
			t.Errorf("store/%s writes the table %s, which is that of %s", w.file, table, owner[table])
		}
	}
}

// statement is a write of a table by a file of a package of the store.
type statement struct {
	file, pkg, table string
	inserts          bool
}

// statements returns the writes of all packages of the store.
func statements(t *testing.T) (all []statement) {
	t.Helper()
	named := map[string][]statement{} // what is quoted, by package
	variable := map[string]bool{}
	err := fs.WalkDir(os.DirFS("store"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "storetest/") {
			return err
		}
		src, err := os.ReadFile(path.Join("store", name))
		if err != nil {
			return err
		}
		pkg := path.Dir(name)
		if pkg == "." {
			pkg = "store"
		}
		for _, m := range written.FindAllStringSubmatch(string(src), -1) {
			if !locks(m) {
				all = append(all, statement{name, pkg, m[1] + m[2] + m[3], strings.HasPrefix(m[0], "INSERT")})
			}
		}
		variable[pkg] = variable[pkg] || unnamed.Match(src)
		for _, m := range quoted.FindAllStringSubmatch(string(src), -1) {
			named[pkg] = append(named[pkg], statement{name, pkg, m[1], false})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range variable {
		if variable[pkg] {
			all = append(all, named[pkg]...)
		}
	}
	return all
}
