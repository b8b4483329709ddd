package sqldb

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// OpenPool opens a pool of connections. A setting applies unless the DSN sets it differently.
func OpenPool(c *pgx.ConnConfig, settings map[string]string) (*sql.DB, error) {
	c = c.Copy()
	for k, v := range settings {
		if _, said := c.RuntimeParams[k]; !said {
			c.RuntimeParams[k] = v
		}
	}
	// Every acknowledged write must survive a crash of the server.
	pool := stdlib.OpenDB(*c, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
		return err
	}))
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return pool, nil
}
