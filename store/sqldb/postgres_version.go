package sqldb

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"seedbed"
)

// databaseName returns the name of the database for messages.
func databaseName(c *pgx.ConnConfig) string {
	return fmt.Sprintf("%s on %s", c.Database, net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))))
}

// look reads the versions of a PostgreSQL database. found is false if the database is empty.
func (db *DB) look(ctx context.Context, name string) (have, need int64, found bool, err error) {
	err = db.View(ctx, "open database "+name, func(tx *Tx) error {
		var encoding string
		var ours, tables int
		err := tx.QueryRowContext(ctx, `
			SELECT current_setting('server_encoding'), COUNT(CASE WHEN tablename = 'version' THEN 1 END),
				COUNT(CASE WHEN tablename <> 'goose_db_version' THEN 1 END)
			FROM pg_tables WHERE schemaname = current_schema()`).Scan(&encoding, &ours, &tables)
		switch {
		case err != nil:
			return err
		case encoding != "UTF8":
			return seedbed.Errorf(seedbed.ErrInvalid, "database %s has encoding %s: create it again with ENCODING 'UTF8'", name, encoding)
		case ours == 0 && tables > 0:
			return seedbed.Errorf(seedbed.ErrInvalid, "database %s is another program's: name one of Seedbed's own in store.dsn", name)
		case ours == 0:
			return nil
		}
		found = true
		return tx.QueryRowContext(ctx, `SELECT schema, min_program FROM version`).Scan(&have, &need)
	})
	return have, need, found, err
}

// checkPostgres returns an error if this program cannot use the schema of the database.
func (db *DB) checkPostgres(ctx context.Context, name string) error {
	have, need, found, err := db.look(ctx, name)
	switch {
	case err != nil:
		return err
	case !found:
		return seedbed.Errorf(seedbed.ErrVersion,
			"database %s is empty: run \"seedbedd migrate\" once, or \"seedbedd store copy\" after it to bring an SQLite file's content", name)
	case have < Schema:
		return seedbed.Errorf(seedbed.ErrVersion,
			"database %s has schema %d, and this program needs %d: run \"seedbedd migrate\" once (docs/how-to/install.md)", name, have, Schema)
	}
	return checkVersion(name, have, need)
}

// Migrate migrates the schema of a PostgreSQL database. Other processes may use the database at the
// same time, and several calls run one after the other. Migrate does nothing if the schema is up to
// date. It returns ErrInvalid if there is no DSN or the database belongs to another program, and
// ErrVersion if the database requires a newer program.
func Migrate(ctx context.Context, c Config) error {
	if c.DSN == "" {
		return seedbed.Errorf(seedbed.ErrInvalid,
			"only PostgreSQL is migrated by command (store.driver: postgres): an SQLite file is brought up to date by seedbedd when it starts")
	}
	conf, err := ParseDSN(c.DSN)
	if err != nil {
		return err
	}
	db := newDB(c.Log)
	db.Dialect = Postgres
	if db.Write, err = OpenPool(conf, map[string]string{"application_name": "seedbed migrate"}); err != nil {
		return err
	}
	db.Read = db.Write
	defer db.Close()
	name := databaseName(conf)
	have, need, found, err := db.look(ctx, name)
	if err != nil {
		return err
	}
	if found {
		if err := checkVersion(name, have, need); err != nil || have >= Schema {
			return err
		}
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // in seconds, number of tries
	if err != nil {
		return fmt.Errorf("migrate %s: %w", name, err)
	}
	if err := db.migrate(ctx, goose.WithSessionLocker(locker)); err != nil {
		return db.Fail(ctx, "migrate "+name, err)
	}
	return nil
}

// ConnectPostgres opens one connection to a PostgreSQL database, and returns it with the name of the
// database for messages.
func ConnectPostgres(ctx context.Context, dsn string) (conn *pgx.Conn, name string, err error) {
	conf, err := ParseDSN(dsn)
	if err != nil {
		return nil, "", err
	}
	name = databaseName(conf)
	conn, err = pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, "", FailPostgres(ctx, "open database "+name, err)
	}
	return conn, name, nil
}

// FailPostgres wraps an error of a connection of [connectPostgres], which occurred while doing
// what, in the kind of error that callers match.
func FailPostgres(ctx context.Context, what string, err error) error {
	return (&DB{Dialect: Postgres}).Fail(ctx, what, err)
}
