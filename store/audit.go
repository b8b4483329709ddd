package store

import (
	"context"
	"encoding/json"
	"time"

	"seedbed"
)

// MaxAudit is how many entries one call of Audit gives at most.
const MaxAudit = 1000

// maxAudited bounds each of an entry's two documents, in bytes.
const maxAudited = 64 << 10

// audit writes down, in the transaction of what is changed, who asked for it.
// What nobody asked for, such as the engine's own work, leaves no entry.
func audit(tx *Tx, c *seedbed.Change, what string) {
	if c == nil {
		return
	}
	tx.add(intoAudit, micros(now()), clean(c.Actor, 256), c.Role, clean(c.From, 80), clean(c.Request, 512), clean(what, 256), document(c.Before), document(c.Asked))
}

// document is JSON as a column keeps it: empty for none, and for too much.
func document(j json.RawMessage) string {
	if len(j) > maxAudited {
		return `"too large to be kept"`
	}
	return string(j)
}

func scanAudit(r Row) (e seedbed.AuditEntry, err error) {
	var before, asked string
	err = r.Scan(&e.ID, toTime{&e.At}, &e.Actor, &e.Role, &e.From, &e.Request, &e.What, &before, &asked)
	if before != "" {
		e.Before = json.RawMessage(before)
	}
	if asked != "" {
		e.Asked = json.RawMessage(asked)
	}
	return e, err
}

// Audit returns the changes that were asked for, the newest first: those before
// the entry of that ID (0: from the newest), at most limit and at most MaxAudit.
func (db *DB) Audit(ctx context.Context, before int64, limit int) (all []seedbed.AuditEntry, err error) {
	err = db.view(ctx, "read audit log", func(tx *Tx) error {
		all, err = list(ctx, tx, scanAudit, `
			SELECT id, at, actor, role, peer, request, what, before, asked FROM audit
			WHERE CAST($1 AS bigint) = 0 OR id < $1 ORDER BY id DESC LIMIT $2`, before, bound(limit, MaxAudit))
		return err
	})
	return all, err
}

// CountAudit counts what DropAudit would delete.
func (db *DB) CountAudit(ctx context.Context, before time.Time) (int, error) {
	return db.count(ctx, "count audit log", `SELECT COUNT(*) FROM audit WHERE at < $1`, before)
}

// DropAudit forgets the changes before that time, and returns how many.
func (db *DB) DropAudit(ctx context.Context, before time.Time) (int, error) {
	return db.drop(ctx, "drop audit log", `DELETE FROM audit WHERE at < $1`, before)
}
