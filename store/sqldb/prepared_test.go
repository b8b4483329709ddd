package sqldb

import (
	"fmt"
	"testing"
)

// Statements stay prepared even on the connection that has just migrated the database, or that has
// run more different statements than it keeps.
func TestStatementsStayReady(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	const query = `UPDATE setting SET key = key WHERE key = 'none'`
	kept := func() (all int, ours bool) {
		t.Helper()
		c := do(db.Write.Conn(t.Context()))(t)
		defer c.Close()
		if err := c.Raw(func(c any) error {
			ready := c.(*preparedConn).ready
			all, ours = len(ready), ready[query] != nil
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all, ours
	}
	run := func(query string) {
		t.Helper()
		do(db.Write.ExecContext(t.Context(), query))(t)
	}
	run(query)
	if all, ours := kept(); !ours || all > readyMost {
		t.Fatalf("%d are kept after the migration, and ours is one: %v", all, ours)
	}
	for n := range readyMost + 1 {
		run(fmt.Sprintf(`UPDATE setting SET key = key WHERE key = 'none%d'`, n))
	}
	run(query)
	if all, ours := kept(); !ours || all > readyMost {
		t.Errorf("%d are kept after many, and ours is one: %v", all, ours)
	}
	// A statement whose rows are being read is not closed.
	tx := do(db.Write.BeginTx(t.Context(), nil))(t)
	defer tx.Rollback()
	rows := do(tx.Query(`SELECT value FROM (SELECT 1 AS value UNION ALL SELECT 2) ORDER BY value`))(t)
	for n := range readyMost + 1 {
		do(tx.Exec(fmt.Sprintf(`UPDATE setting SET key = key WHERE key = 'some%d'`, n)))(t)
	}
	read := 0
	for rows.Next() {
		read++
	}
	if err := rows.Err(); err != nil || read != 2 {
		t.Errorf("%d rows: %v", read, err)
	}
}
