package store

import (
	"context"
	"database/sql"
	"strings"
	"sync"

	"seedbed"
)

// The tables and columns of the catalogue's objects, the number first.
const (
	intoSystem          = `system_template (` + systemColumns + `)`
	intoNetworkTemplate = `network_template (id, name, mac, revision, created, changed)`
	intoStorageTemplate = `storage_template (id, name, revision, created, changed)`
	intoUserData        = `userdata (id, name, content, revision, created, changed)`
	intoScript          = `script (id, name, content, revision, created, changed)`
)

// createObject adds an object with the values of its columns behind the number,
// the name first, and gives its number. It may share its transaction with other
// writes: the flush to the disk is what takes the time.
func (db *DB) createObject(ctx context.Context, kind, into, name string, values ...any) (id int64, err error) {
	what, asker := "create "+kind+" "+name, seedbed.ChangeOf(ctx)
	if tx := batchOf(ctx); tx != nil {
		err = db.inBatch(ctx, tx, what, func(tx *sql.Tx) (err error) {
			id, err = insertNumbered(ctx, tx, kind, into, name, values)
			return err
		})
		return id, err
	}
	err = db.together(ctx, what, func(ctx context.Context, tx *sql.Tx) (_ []notice, err error) {
		if tx == nil && !db.dialect.volleys {
			return nil, errReads // the database gives it its number
		}
		if tx == nil {
			id, err = db.numbers.next(ctx, db, into)
			if err == nil {
				_, err = put(ctx, tx, into, append([]any{id}, values...)...)
			}
		} else {
			id, err = insertNumbered(ctx, tx, kind, into, name, values)
		}
		if err != nil {
			return nil, err
		}
		return nil, audit(ctx, tx, asker, what)
	})
	return id, err
}

// insertNumbered adds an object, whose number the database gives.
func insertNumbered(ctx context.Context, tx *sql.Tx, kind, into, name string, values []any) (int64, error) {
	query := insertRows(strings.Replace(into, "(id, ", "(", 1), 1, len(values))
	return insertObject(ctx, tx, kind, name, query+` ON CONFLICT (name) DO NOTHING RETURNING id`, values...)
}

// numbers are taken from PostgreSQL's sequences some at a time, so that a row's
// number is known before it is written. Those that are left when the process
// ends are never given.
type numbers struct {
	mu   sync.Mutex
	left map[string][]int64
}

// numbersTaken is how many are taken at a time.
const numbersTaken = 256

// next is a number for a row of that table.
func (n *numbers) next(ctx context.Context, db *DB, into string) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.left[into]) == 0 {
		table, _, _ := strings.Cut(into, " ")
		var taken []int64
		err := db.transact(ctx, db.write, db.dialect.writing, func(tx *sql.Tx) (err error) {
			taken, err = list(ctx, tx, value[int64], `SELECT nextval(pg_get_serial_sequence($1, 'id')) FROM generate_series(1, $2)`, table, numbersTaken)
			return err
		})
		if err != nil {
			return 0, err
		}
		if n.left == nil {
			n.left = map[string][]int64{}
		}
		n.left[into] = taken
	}
	id := n.left[into][0]
	n.left[into] = n.left[into][1:]
	return id, nil
}
