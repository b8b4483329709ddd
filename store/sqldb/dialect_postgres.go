package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"

	"seedbed"
)

// Postgres runs every writing transaction as READ COMMITTED, so that a statement sees what was
// committed before it. The transaction first locks the row that decides: the job's (jobs.Hold), the
// instance's (instances.SetState), the network's (instances.LockNetworks), the node's of the feed or
// the blob's. Unique keys decide about names. If two transactions still conflict, in a deadlock, a
// constraint or a row that is gone, one of them runs again.
var Postgres = Dialect{
	Goose:      goose.DialectPostgres,
	Migrations: "migrations/postgres",
	Claim: Claiming{
		Among: `strpos($4, ',' || kind || ',') > 0`,
		Slots: `COALESCE(CAST(CAST($6 AS json) ->> name AS bigint), 0)`,
		Clock: `COALESCE(CAST($5 AS bigint), (` + serverClock + `))`,
		Lock:  ` FOR UPDATE SKIP LOCKED`,
		Alone: `SELECT pg_advisory_xact_lock(7300010)`,
	},
	Clock:        serverClock,
	Announce:     `SELECT pg_notify('` + channel + `', $1)`,
	HoldInstance: `SELECT 1 FROM instance WHERE id = $1 FOR UPDATE`,
	Server:       true,
	LockFree:     ` FOR NO KEY UPDATE SKIP LOCKED`,
	// Drawing the numbers, unlike setval, never sets back what another transaction has drawn.
	SkipNICs: []string{`SELECT max(nextval('nic_id_seq')) FROM nic_id_seq AS s, generate_series(
		s.last_value + CASE WHEN s.is_called THEN 1 ELSE 0 END,
		CASE WHEN CAST($1 AS bigint) - s.last_value <= 1000000 THEN CAST($1 AS bigint) ELSE 0 END)`},
	facts: `SELECT 'PostgreSQL ' || current_setting('server_version'),
		CASE WHEN current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on' THEN 'on' ELSE 'off' END`,
	Writing: &sql.TxOptions{Isolation: sql.LevelReadCommitted},
	reading: &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	Tries:   12,
	limit:   30 * time.Second,
	cause:   postgresCause,
}

// serverClock is a query for the server's clock, in unix microseconds.
const serverClock = `SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS bigint)`

// connections limits the connections of one process, apart from the one that listens.
const connections = 12

// session holds the settings of each connection. They limit how long a connection that was lost
// without notice keeps its locks; see "Client Connection Defaults" in PostgreSQL's manual.
var session = map[string]string{
	"application_name":                    "seedbed",
	"lock_timeout":                        "10s",
	"statement_timeout":                   "25s",
	"idle_in_transaction_session_timeout": "30s",
}

// ParseDSN parses a connection string. No error contains it, because it may hold a password.
func ParseDSN(dsn string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "store.dsn or the file that store.dsn_file names is not a PostgreSQL connection string: "+
			"expected one such as postgres://seedbed@db1.example/seedbed?sslmode=verify-full")
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 5 * time.Second
	}
	if len(c.Fallbacks) > 0 && c.ValidateConnect == nil {
		// Several hosts are one cluster, in which one host accepts writes.
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return c, nil
}

func (db *DB) openPostgres(ctx context.Context, c Config) error {
	db.Dialect = Postgres
	conf, err := ParseDSN(c.DSN)
	if err != nil {
		return err
	}
	if db.Write, err = OpenPool(conf, session); err != nil {
		return err
	}
	db.Read = db.Write
	db.place = databaseName(conf)
	if err := db.checkPostgres(ctx, db.place); err != nil {
		return err
	}
	db.cache.deaf.Store(true) // until the listener is connected
	db.listening = db.listen(conf)
	return nil
}

// postgresCause maps the SQLSTATE of an error; see "PostgreSQL Error Codes" in its manual.
func postgresCause(err error) cause {
	if brokenConnection(err) {
		return causeUnavailable
	}
	e := (*pgconn.PgError)(nil)
	if !errors.As(err, &e) {
		return causeUnknown
	}
	switch e.Code {
	case "23505":
		return causeUnique
	case "23503":
		return causeForeignKey
	case "23502", "23514", "22003": // not null, check, out of range
		return causeCheck
	case "22021", "22P05": // bytes or characters that the encoding cannot represent
		return causeText
	case "53100":
		return causeDiskFull
	case "40001", "40P01": // serialization, deadlock
		return causeAgain
	case "55P03", "57014", "25006", "25P02", "25P03": // timeouts, a standby, an ended transaction
		return causeUnavailable
	}
	switch e.Code[:min(2, len(e.Code))] {
	case "08", "53", "57", "58": // connection, resources, operator, system
		return causeUnavailable
	}
	return causeUnknown
}

// brokenConnection reports whether err means that the server cannot be reached or refuses the
// connection.
func brokenConnection(err error) bool {
	network, connect := net.Error(nil), (*pgconn.ConnectError)(nil)
	return errors.As(err, &network) || errors.As(err, &connect) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded)
}

// Unstorable reports whether the database refused a parameter that no text column can store.
func Unstorable(err error) bool {
	e := (*pgconn.PgError)(nil)
	return errors.As(err, &e) && postgresCause(e) == causeText
}
