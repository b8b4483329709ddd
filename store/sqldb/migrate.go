package sqldb

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"seedbed"
)

// Schema is the number of the last migration that this program knows.
const Schema = 59

// Migrations are the migrations of both databases, in the directories that Dialect.Migrations names.
//
//go:embed migrations
var Migrations embed.FS

// checkVersion returns ErrVersion unless this program may use a database with schema have, which
// requires a program that knows schema need.
func checkVersion(name string, have, need int64) error {
	if need <= Schema {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrVersion,
		"the database %s has schema %d and needs a program that knows schema %d or newer, but this one knows %d: "+
			"start the newer release again, or restore the copy that was made before the upgrade", name, have, need, Schema)
}

// migrate applies the migrations that the database lacks. It does not change a database with a
// newer schema that this program may still use.
func (db *DB) migrate(ctx context.Context, opts ...goose.ProviderOption) error {
	files, err := fs.Sub(Migrations, db.Dialect.Migrations)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	p, err := goose.NewProvider(db.Dialect.Goose, db.Write, files, append(opts, goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	have, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if have >= Schema {
		return nil
	}
	done, err := p.Up(ctx)
	for _, m := range done {
		db.log.InfoContext(ctx, "database migrated", "schema", m.Source.Version, "took", m.Duration)
	}
	return err
}
