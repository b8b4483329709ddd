package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"seedbed"
)

// SQLite is the dialect of an SQLite file, which has one writer.
var SQLite = Dialect{
	Goose:      goose.DialectSQLite3,
	Migrations: "migrations/sqlite",
	Claim: Claiming{
		Among: `instr($4, ',' || kind || ',') > 0`, Clock: `CAST($5 AS bigint)`, Slots: `COALESCE($6 ->> ('$."' || name || '"'), 0)`,
	},
	Tries: 1,
	SkipNICs: []string{
		`INSERT INTO sqlite_sequence (name, seq) SELECT 'nic', 0
			WHERE CAST($1 AS bigint) > 0 AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'nic')`,
		`UPDATE sqlite_sequence SET seq = $1 WHERE name = 'nic' AND $1 - seq BETWEEN 1 AND 1000000`,
	},
	cause: sqliteCause,
}

// These are the roles of a connection. The writer's cache holds the pages that one transaction of
// many accepted requests touches, which would otherwise be written twice. The write-ahead log is
// long, so that such a transaction does not begin with a checkpoint. The journal of a statement of
// many rows is kept in memory, not in a file.
const (
	Writer = "_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=journal_size_limit(67108864)" +
		"&_pragma=cache_size(-32768)&_pragma=wal_autocheckpoint(8192)&_pragma=temp_store(2)"
	reader   = "_txlock=deferred&_pragma=query_only(1)"
	examiner = "mode=ro"
)

// OpenFile opens an SQLite file with the settings of a role, such as Writer. It neither locks nor
// checks the file.
func OpenFile(path, role string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: role +
		"&_dqs=0&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=case_sensitive_like(1)"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if role == examiner {
		return db, nil
	}
	defer db.Close() // db has no connection yet
	return openPrepared(db, u.String()), nil
}

// checkFile checks the database file, if there is one, without changing it.
func checkFile(ctx context.Context, path string) error {
	if fi, err := os.Stat(path); errors.Is(err, os.ErrNotExist) || err == nil && fi.Size() == 0 {
		return nil
	} else if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	db, err := OpenFile(path, examiner)
	if err != nil {
		return err
	}
	defer db.Close()
	var ours, others, have, need int64
	err = db.QueryRowContext(ctx, `
		SELECT COUNT(CASE WHEN name = 'version' THEN 1 END),
			COUNT(CASE WHEN name NOT IN ('goose_db_version', 'sqlite_sequence') THEN 1 END)
		FROM sqlite_master WHERE type = 'table'`).Scan(&ours, &others)
	switch {
	case err != nil:
		if e := (*driver.Error)(nil); errors.As(err, &e) && e.Code()&0xff == lib.SQLITE_NOTADB {
			return seedbed.Errorf(seedbed.ErrInvalid, "%s is not an SQLite database: move it away, or set another store.path", path)
		}
		return fmt.Errorf("look into database %s: %w", path, err)
	case ours == 0 && others == 0:
		return nil
	case ours == 0:
		return seedbed.Errorf(seedbed.ErrInvalid, "%s is a database of another program: set another store.path", path)
	}
	if err := db.QueryRowContext(ctx, `SELECT schema, min_program FROM version`).Scan(&have, &need); err != nil {
		return fmt.Errorf("look into database %s: %w", path, err)
	}
	return checkVersion(path, have, need)
}

// sqliteCause maps SQLite's result code; see https://www.sqlite.org/rescode.html.
func sqliteCause(err error) cause {
	e := (*driver.Error)(nil)
	if !errors.As(err, &e) {
		return causeUnknown
	}
	switch e.Code() {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY:
		return causeUnique
	case lib.SQLITE_CONSTRAINT_FOREIGNKEY:
		return causeForeignKey
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_CONSTRAINT:
		return causeCheck
	case lib.SQLITE_FULL:
		return causeDiskFull
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN,
		lib.SQLITE_READONLY, lib.SQLITE_NOMEM, lib.SQLITE_INTERRUPT:
		return causeUnavailable
	}
	return causeUnknown
}
