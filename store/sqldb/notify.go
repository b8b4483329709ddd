package sqldb

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Silence is how long the connection may be idle before the server is pinged, and how long the
// server may take to answer. Without this, a lost host would be noticed only after most of an hour,
// and cached rows would stay in use until then.
const Silence = 5 * time.Second

// channel is the channel on which writes are announced (LISTEN and NOTIFY).
const channel = "seedbed"

// listen follows the announcements of other processes over a connection of its own, and wakes the
// waiters of Hint for each. While it is not connected, it wakes no one, and waiters have to poll.
// stop ends it.
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
	following.Go(func() { db.tell(ctx) })
	return func() {
		cancel()
		following.Wait()
	}
}

// AnnounceSoon schedules the announcement of a committed write in a later transaction.
func (db *DB) AnnounceSoon() {
	if db.Dialect.Announce == "" {
		return
	}
	select {
	case db.untold <- struct{}{}:
	default: // one is already scheduled
	}
}

// tellPause is the minimum time between two separate announcements.
const tellPause = 10 * time.Millisecond

// tellQuery announces in a transaction of its own that does not wait for the disk.
const tellQuery = `SELECT set_config('synchronous_commit', 'off', true), pg_notify('` + channel + `', $1)`

// tell sends scheduled announcements until ctx ends. They need not wait for the disk, because
// polling makes up for a lost one.
func (db *DB) tell(ctx context.Context) {
	for {
		select {
		case <-db.untold:
		case <-ctx.Done():
			return
		}
		err := inTime(ctx, db.Dialect.limit, func(ctx context.Context) error {
			_, err := db.Write.ExecContext(ctx, tellQuery, db.name)
			return err
		})
		if err != nil && ctx.Err() == nil {
			db.log.Debug("a write was not announced, which polling finds", "err", err)
		}
		select {
		case <-time.After(tellPause):
		case <-ctx.Done():
			return
		}
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
	if err := inTime(ctx, Silence, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "LISTEN "+channel)
		return err
	}); err != nil {
		return err
	}
	db.cache.writes.Add(1)
	db.cache.deaf.Store(false)
	defer db.cache.deaf.Store(true)
	db.Wake() // for announcements before LISTEN
	for {
		n, err := announced(ctx, conn)
		if err != nil {
			return err
		}
		if n.Payload != db.name {
			db.cache.writes.Add(1)
			db.Wake()
		}
	}
}

// announced returns the next announcement.
func announced(ctx context.Context, conn *pgx.Conn) (n *pgconn.Notification, err error) {
	for {
		err = inTime(ctx, Silence, func(ctx context.Context) error {
			n, err = conn.WaitForNotification(ctx)
			return err
		})
		if err == nil || ctx.Err() != nil || !pgconn.Timeout(err) {
			return n, err
		}
		if err := inTime(ctx, Silence, conn.Ping); err != nil {
			return nil, err
		}
	}
}

// inTime calls fn with a context that ends after limit.
func inTime(ctx context.Context, limit time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return fn(ctx)
}
