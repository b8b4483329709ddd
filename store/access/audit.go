package access

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// maxAudited is the largest size in bytes of each of an entry's two documents.
const maxAudited = 64 << 10

const auditColumns = `at, actor, role, project, peer, request, what, before, asked, visits`

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
	tx.Add(auditTable, sqldb.Micros(sqldb.Now()), sqldb.Clean(c.Actor, 256), c.Role, cmp.Or(c.Project, seedbed.DefaultProject),
		sqldb.Clean(c.From, 80), sqldb.Clean(c.Request, 512), sqldb.Clean(what, 256), document(c.Before), document(c.Asked),
		sqldb.Flag(c.Visits))
}

// Note adds an entry to the audit log, for something that changes nothing else.
func (s *Store) Note(ctx context.Context, what string) error {
	return s.db.Update(ctx, what, func(*sqldb.Tx) error { return nil })
}

// document returns JSON as a column stores it: empty if there is none, and a note if it is too
// large.
func document(j json.RawMessage) string {
	if len(j) > maxAudited {
		return `"too large to be kept"`
	}
	return string(j)
}

// audited is an entry, and whether an admin of the installation acted in another project.
type audited struct {
	seedbed.AuditEntry
	visits bool
}

func scanAudit(r sqldb.Row) (entry audited, err error) {
	e := &entry.AuditEntry
	var before, asked string
	err = r.Scan(&e.ID, sqldb.ToTime(&e.At), &e.Actor, &e.Role, &e.Project, &e.From, &e.Request, &e.What, &before, &asked,
		&entry.visits)
	if before != "" {
		e.Before = json.RawMessage(before)
	}
	if asked != "" {
		e.Asked = json.RawMessage(asked)
	}
	return entry, err
}

// Audit returns the changes of a query that were requested, newest first.
func (s *Store) Audit(ctx context.Context, q seedbed.AuditQuery) (all []seedbed.AuditEntry, err error) {
	w := sqldb.InScope(q.Scope)
	switch {
	case q.Tenant && q.Actor == seedbed.InstallationActor:
		w.And("visits = %s", sqldb.Flag(true))
	case q.Actor != "":
		if w.And("actor = %s", q.Actor); q.Tenant {
			w.And("visits = %s", sqldb.Flag(false))
		}
	}
	if !q.Since.IsZero() {
		w.And("at >= %s", sqldb.Micros(q.Since))
	}
	if q.Before > 0 {
		w.And("id < %s", q.Before)
	}
	query := `SELECT id, ` + auditColumns + ` FROM audit WHERE ` + w.String() + fmt.Sprintf(` ORDER BY id DESC LIMIT $%d`, len(w.Args)+1)
	err = s.db.View(ctx, "read audit log", func(tx *sqldb.Tx) error {
		found, err := sqldb.List(ctx, tx, scanAudit, query, append(w.Args, sqldb.UpTo(q.Limit))...)
		for _, e := range found {
			if q.Tenant && e.visits {
				e.Actor, e.From = seedbed.InstallationActor, ""
			}
			all = append(all, e.AuditEntry)
		}
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
