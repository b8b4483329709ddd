package sqldb

import (
	"context"
	"fmt"

	"seedbed"
)

// Check reports the state of the database, for the doctor command. It reads, and writes a row as it
// is.
func (db *DB) Check(ctx context.Context) []seedbed.Check {
	c := seedbed.Check{Name: "database"}
	var have int64
	facts, durable := "SQLite", "on"
	err := db.View(ctx, "look at database "+db.place, func(tx *Tx) error {
		if db.Dialect.facts != "" {
			if err := tx.QueryRowContext(ctx, db.Dialect.facts).Scan(&facts, &durable); err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, `SELECT schema FROM version`).Scan(&have)
	})
	unwritable := db.Transact(ctx, func(tx *Tx) error { return Exec(ctx, tx, `UPDATE version SET schema = schema`) })
	switch {
	case err == nil && unwritable != nil:
		c.Detail = fmt.Sprintf("%s, database %s: it can be read and not written, so nothing is accepted and no job runs: %v",
			facts, db.place, db.Fail(ctx, "write", unwritable))
		c.Hint = "see that its file system has room and is not read-only, or that the database server allows writes"
	case err != nil:
		c.Detail, c.Hint = err.Error(), "see that the database runs and can be reached from this host, as section store of the configuration says"
	case durable != "on":
		c.Detail = fmt.Sprintf("%s, database %s: it does not flush to disk, so a crash loses what was acknowledged", facts, db.place)
		c.Hint = "set fsync = on and full_page_writes = on in postgresql.conf"
	default:
		c.OK, c.Detail = true, fmt.Sprintf("%s, database %s, schema %d", facts, db.place, have)
	}
	return []seedbed.Check{c}
}
