package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"

	"seedbed/internal/config"
	"seedbed/internal/run"
	"seedbed/store"
)

// database returns the configuration of the database that keeps the state.
func database(c config.Store, log *slog.Logger) (store.Config, error) {
	dsn, err := c.ConnectionString()
	return store.Config{Path: c.Path, DSN: dsn, Log: log}, err
}

// program returns seedbedd itself, or the subcommand that args begin with, and the remaining
// arguments.
func program(args []string) (run.Program, []string) {
	switch {
	case len(args) > 0 && args[0] == "migrate":
		return run.Program{
			Name:    "seedbedd migrate",
			Summary: "bring the schema of the PostgreSQL database that the configuration names up to date",
			Run:     migrate,
		}, args[1:]
	case len(args) > 1 && args[0] == "store" && args[1] == "copy":
		var from string
		return run.Program{
			Name:    "seedbedd store copy",
			Summary: "copy an SQLite file into the empty PostgreSQL database that the configuration names",
			Flags: func(f *flag.FlagSet) {
				f.StringVar(&from, "from", "", "SQLite `file`; the default is store.path of the configuration")
			},
			Run: func(ctx context.Context, c config.Config, log *slog.Logger) error {
				return copyStore(ctx, c, from, log)
			},
		}, args[2:]
	}
	return run.Program{
		Name:    "seedbedd",
		Summary: "Seedbed's control plane: API, webhooks, jobs, state. Also: seedbedd migrate, seedbedd store copy",
		Run:     serve,
	}, args
}

func migrate(ctx context.Context, c config.Config, log *slog.Logger) error {
	at, err := database(c.Store, log)
	if err != nil {
		return err
	}
	if err := store.Migrate(ctx, at); err != nil {
		return err
	}
	log.Info("the schema is up to date")
	return nil
}

// copyStore moves an installation from SQLite to PostgreSQL. The target's connection string comes
// from the configuration, because every user can read a command line.
func copyStore(ctx context.Context, c config.Config, from string, log *slog.Logger) error {
	if c.Store.Driver != config.StorePostgres {
		return errors.New("the configuration keeps the state in SQLite: " +
			"set store.driver to postgres and store.dsn or store.dsn_file, run \"seedbedd migrate\", then this")
	}
	if from == "" {
		from = c.Store.Path
	}
	at, err := database(c.Store, log)
	if err != nil {
		return err
	}
	done, err := store.Copy(ctx, store.Config{Path: from, Log: log}, at)
	if err != nil {
		return fmt.Errorf("nothing was copied: %w", err)
	}
	for _, t := range done {
		log.Info("copied", "table", t.Table, "rows", t.Rows)
	}
	log.Info("the copy is whole; the file is needed no more", "from", from)
	return nil
}
