package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"seedbed"
	"seedbed/store/sqldb"
)

// tables lists all tables that hold state, each after those that it refers to.
var tables = []string{
	"setting", "project", "project_removed", "node", "network", "network_peer", "security_group", "placement_group",
	"floating_address", "maintenance", "image", "ova", "ova_volume",
	"system_template", "network_template", "network_template_net", "storage_template", "storage_template_disk", "userdata", "script",
	"profile", "published", "hook", "hook_key", "hook_profile",
	"job", "job_stage", "job_event", "event_order", "job_output", "job_script", "orphan", "stray", "claim", "delivery", "delivery_other",
	"delivery_rejected",
	"instance", "nic", "secondary_address", "volume", "project_volume", "snapshot", "instance_script", "lease", "rebuild",
	"feed_node", "blob", "feed", "peer", "peer_head", "guest_event", "cron_run",
	"endpoint", "endpoint_key", "outbox", "role", "token", "audit", "keyed_request", "session", "sign_in", "backup_target",
	"schedule", "backup_owner",
}

// numbered lists the tables that assign row numbers, which are never used twice.
var numbered = []string{
	"nic", "guest_event", "audit",
	"system_template", "network_template", "network_template_net", "storage_template", "storage_template_disk",
	"userdata", "script", "profile", "ova",
}

// Copied is the number of rows that were copied of one table.
type Copied struct {
	Table string
	Rows  int64
}

// Copy copies the content of the SQLite file from.Path to the PostgreSQL database to.DSN, all of it
// or nothing, and returns the tables that it copied. While it runs it locks the file, so that no
// seedbedd can use it. It migrates the file as [Open] does, and changes nothing else in it. The
// database must have been migrated by the same release (ErrVersion if not) and be empty (ErrInUse
// if not).
func Copy(ctx context.Context, from, to Config) (done []Copied, err error) {
	if from.Path == "" || to.DSN == "" {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "a copy must be from an SQLite file to a PostgreSQL database")
	}
	if _, err := os.Stat(from.Path); err != nil {
		return nil, fmt.Errorf("copy the database: %w", err)
	}
	source, err := Open(ctx, Config{Path: from.Path, Log: from.Log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.sql.Close()) }()
	conn, name, err := sqldb.ConnectPostgres(ctx, to.DSN)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = source.sql.View(ctx, "read "+from.Path, func(src *sqldb.Tx) error {
		if done, err = copyAll(ctx, src, conn, name); err != nil {
			return sqldb.FailPostgres(ctx, "copy to "+name, err)
		}
		return nil
	})
	return done, err
}

// copyAll copies every table, in one transaction of the target.
func copyAll(ctx context.Context, src *sqldb.Tx, conn *pgx.Conn, name string) ([]Copied, error) {
	dst, err := conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dst.Rollback(context.WithoutCancel(ctx)) }() // does nothing after Commit
	if err := checkTarget(ctx, src, dst, name); err != nil {
		return nil, err
	}
	// Guests know the number of the source's default project.
	if _, err := dst.Exec(ctx, `DELETE FROM project`); err != nil {
		return nil, err
	}
	var done []Copied
	for _, table := range tables {
		n, err := copyTable(ctx, src, dst, table)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", table, err)
		}
		done = append(done, Copied{table, n})
	}
	for _, table := range numbered {
		last, err := sqldb.One(ctx, src, sqldb.Value[int64], nil, `SELECT seq FROM sqlite_sequence WHERE name = $1`, table)
		if err != nil {
			return nil, err
		}
		if last == 0 {
			continue
		}
		if _, err := dst.Exec(ctx, `SELECT setval(pg_get_serial_sequence($1, 'id'), $2)`, table, last); err != nil {
			return nil, err
		}
	}
	return done, dst.Commit(ctx)
}

// checkTarget locks the target's tables and returns an error unless they are empty and have the
// source's schema.
func checkTarget(ctx context.Context, src *sqldb.Tx, dst pgx.Tx, name string) error {
	var made bool
	if err := dst.QueryRow(ctx, `SELECT to_regclass('version') IS NOT NULL`).Scan(&made); err != nil {
		return err
	}
	if !made {
		return seedbed.Errorf(seedbed.ErrVersion, "database %s is empty: run \"seedbedd migrate\" first, which makes its tables", name)
	}
	have, err := sqldb.Value[int64](src.QueryRowContext(ctx, `SELECT schema FROM version`))
	if err != nil {
		return err
	}
	want, err := sqldb.Value[int64](dst.QueryRow(ctx, `SELECT schema FROM version`))
	if err != nil {
		return err
	}
	if have != want {
		return seedbed.Errorf(seedbed.ErrVersion,
			"the file has schema %d and database %s has %d: run \"seedbedd migrate\" and the copy with one release", have, name, want)
	}
	if _, err := dst.Exec(ctx, `LOCK TABLE `+strings.Join(tables, ", ")+` IN ACCESS EXCLUSIVE MODE`); err != nil {
		return err
	}
	for _, table := range tables {
		query := `SELECT EXISTS (SELECT 1 FROM ` + table + `)`
		if table == "project" { // a migration makes the default one
			query = `SELECT EXISTS (SELECT 1 FROM project WHERE name <> '` + seedbed.DefaultProject + `')`
		}
		var full bool
		if err := dst.QueryRow(ctx, query).Scan(&full); err != nil {
			return err
		}
		if full {
			return seedbed.Errorf(seedbed.ErrInUse,
				"database %s is not empty (table %s has rows): a copy needs one that was only migrated", name, table)
		}
	}
	return nil
}

// copyTable copies a table's rows, and checks that the target then has as many as the source.
func copyTable(ctx context.Context, src *sqldb.Tx, dst pgx.Tx, table string) (int64, error) {
	columns, err := sqldb.List(ctx, src, sqldb.Value[string], `SELECT name FROM pragma_table_info($1) ORDER BY cid`, table)
	if err != nil {
		return 0, err
	}
	rows, err := src.QueryContext(ctx, `SELECT `+strings.Join(columns, ", ")+` FROM `+table)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	if _, err := dst.CopyFrom(ctx, pgx.Identifier{table}, columns, &source{rows: rows, values: make([]any, len(columns))}); err != nil {
		return 0, err
	}
	var there int64
	if err := dst.QueryRow(ctx, `SELECT COUNT(*) FROM `+table).Scan(&there); err != nil {
		return 0, err
	}
	here, err := sqldb.Value[int64](src.QueryRowContext(ctx, `SELECT COUNT(*) FROM `+table))
	if err == nil && here != there {
		err = fmt.Errorf("%d rows were read and %d are there", here, there)
	}
	return there, err
}

// source feeds the rows of an SQLite table to a COPY.
type source struct {
	rows   *sql.Rows
	values []any
	err    error
}

// Next implements pgx.CopyFromSource.
func (s *source) Next() bool {
	if !s.rows.Next() {
		s.err = s.rows.Err()
		return false
	}
	at := make([]any, len(s.values))
	for i := range s.values {
		at[i] = &s.values[i]
	}
	if s.err = s.rows.Scan(at...); s.err != nil {
		return false
	}
	for i, v := range s.values {
		// SQLite's driver returns an empty blob as a nil slice, which pgx would write as NULL.
		if b, ok := v.([]byte); ok && b == nil {
			s.values[i] = []byte{}
		}
	}
	return true
}

// Values implements pgx.CopyFromSource.
func (s *source) Values() ([]any, error) { return slices.Clone(s.values), nil }

// Err implements pgx.CopyFromSource.
func (s *source) Err() error { return s.err }
