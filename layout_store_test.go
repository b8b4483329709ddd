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

// written finds the tables that a file of Go writes: in statements, and in what sqldb.Table adds rows
// to. An UPDATE that sets a column to itself only locks the row.
var (
	written = regexp.MustCompile("(?:INSERT INTO|DELETE FROM|Into: `)\\s*([a-z_]+)\\b|UPDATE ([a-z_]+) SET (\\w+) = (\\w+)")
	locks   = func(m []string) bool { return m[3] != "" && m[3] == m[4] }
)

// TestTables holds that each table is written by one package, but for those of together.
func TestTables(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	for pkg, all := range tables {
		for _, table := range strings.Fields(all) {
			if other, twice := owner[table]; twice {
				t.Errorf("table %s has two owners, %s and %s", table, other, pkg)
			}
			owner[table] = pkg
		}
	}
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
			table := m[1] + m[2]
			if owner[table] == "" && strings.HasPrefix(m[0], "INSERT") {
				t.Errorf("store/%s writes the table %s, which has no owner in tables (layout_table_test.go)", name, table)
			}
			if owner[table] == "" || owner[table] == pkg || locks(m) {
				continue
			}
			if !slices.Contains(strings.Fields(together[pkg]), table) {
				t.Errorf("store/%s writes the table %s, which is that of %s", name, table, owner[table])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
