package access

import (
	"context"
	"encoding/json"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// MaxAudit is the largest number of entries that one call of Audit returns.
const MaxAudit = 1000

// maxAudited is the largest size in bytes of each of an entry's two documents.
const maxAudited = 64 << 10

const auditColumns = `at, actor, role, peer, request, what, before, asked`

// auditTable is where audit adds entries.
var auditTable = sqldb.Table{Rank: 2, Into: `audit (` + auditColumns + `)`}

// Record records, in the transaction of the change, who asked for it, and that a request with an
// idempotency key has changed something. c is nil for a change that no request caused, such as the
// engine's own work, and then there is no entry.
func Record(tx *sqldb.Tx, c *seedbed.Change, what string) {
	if c == nil {
		return
	}
	if c.Keyed != nil {
		noteChange(tx, c.Keyed)
	}
	tx.Add(auditTable, sqldb.Micros(sqldb.Now()), sqldb.Clean(c.Actor, 256), c.Role, sqldb.Clean(c.From, 80),
		sqldb.Clean(c.Request, 512), sqldb.Clean(what, 256), document(c.Before), document(c.Asked))
}

// document returns JSON as a column stores it: empty if there is none, and a note if it is too
// large.
func document(j json.RawMessage) string {
	if len(j) > maxAudited {
		return `"too large to be kept"`
	}
	return string(j)
}

func scanAudit(r sqldb.Row) (e seedbed.AuditEntry, err error) {
	var before, asked string
	err = r.Scan(&e.ID, sqldb.ToTime(&e.At), &e.Actor, &e.Role, &e.From, &e.Request, &e.What, &before, &asked)
	if before != "" {
		e.Before = json.RawMessage(before)
	}
	if asked != "" {
		e.Asked = json.RawMessage(asked)
	}
	return e, err
}

// Audit returns the changes that were requested, newest first. It returns those before the entry
// with ID before (0: from the newest), at most limit and at most MaxAudit.
func (s *Store) Audit(ctx context.Context, before int64, limit int) (all []seedbed.AuditEntry, err error) {
	err = s.db.View(ctx, "read audit log", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanAudit, `
			SELECT id, `+auditColumns+` FROM audit
			WHERE CAST($1 AS bigint) = 0 OR id < $1 ORDER BY id DESC LIMIT $2`, before, sqldb.Bound(limit, MaxAudit))
		return err
	})
	return all, err
}

// CountAudit counts the entries that DropAudit would delete.
func (s *Store) CountAudit(ctx context.Context, before time.Time) (int, error) {
	return s.db.Count(ctx, "count audit log", `SELECT COUNT(*) FROM audit WHERE at < $1`, before)
}

// DropAudit deletes the entries older than before, and returns how many there were.
func (s *Store) DropAudit(ctx context.Context, before time.Time) (int, error) {
	return s.db.Drop(ctx, "drop audit log", `DELETE FROM audit WHERE at < $1`, before)
}
