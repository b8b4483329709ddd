package store

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is what writes are announced on (LISTEN and NOTIFY).
const channel = "seedbed"

// listen follows what other processes announce, over a connection of its own,
// and gives the hint for it. While it is not connected nobody is woken, and
// polling goes on. The function that it returns ends it.
func (db *DB) listen(conf *pgx.ConnConfig) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() {
		const shortest, longest = 100 * time.Millisecond, 10 * time.Second
		pause := shortest
		for ctx.Err() == nil {
			began := time.Now()
			err := db.follow(ctx, conf)
			if ctx.Err() != nil {
				return
			}
			if time.Since(began) > longest {
				pause = shortest
			}
			db.log.Warn("not told of other processes' writes, which polling finds", "err", err, "next", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, longest)
		}
	})
	return func() {
		cancel()
		following.Wait()
	}
}

// follow listens until the connection breaks.
func (db *DB) follow(ctx context.Context, conf *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, conf.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	db.wake() // for what was announced before
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Payload != db.name {
			db.wake()
		}
	}
}
