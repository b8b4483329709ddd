package sqldb

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// TestSchemaIsTheLastMigration checks that Schema is the number of the last migration of both
// databases. A program does not run a migration above it on an existing database.
func TestSchemaIsTheLastMigration(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"migrations/sqlite", "migrations/postgres"} {
		files, err := fs.ReadDir(Migrations, dir)
		if err != nil {
			t.Fatal(err)
		}
		last := files[len(files)-1].Name() // sorted by name
		if want := fmt.Sprintf("%05d_", Schema); !strings.HasPrefix(last, want) {
			t.Errorf("the last migration in %s is %s: want %s…, as Schema says", dir, last, want)
		}
	}
}
