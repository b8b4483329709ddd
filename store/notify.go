package store

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// silence is how long nothing may come before the server is asked whether it is
// still there, and how long it may take to answer. A host that is gone without a word
// would otherwise be waited for, with what is remembered of its rows, for the best part of an hour.
const silence = 5 * time.Second

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
	following.Go(func() { db.tell(ctx) })
	return func() {
		cancel()
		following.Wait()
	}
}

// announceSoon has what was written announced, in a transaction after it.
func (db *DB) announceSoon() {
	if db.dialect.announce == "" {
		return
	}
	select {
	case db.untold <- struct{}{}:
	default: // one is due
	}
}

// tellPause is the least time between two announcements of their own.
const tellPause = 10 * time.Millisecond

// tellQuery announces in a transaction of its own that does not wait for the disk.
const tellQuery = `SELECT set_config('synchronous_commit', 'off', true), pg_notify('` + channel + `', $1)`

// tell announces what was written without, until ctx ends. An announcement that
// is lost is one that polling makes up for, so none waits for the disk.
func (db *DB) tell(ctx context.Context) {
	for {
		select {
		case <-db.untold:
		case <-ctx.Done():
			return
		}
		err := inTime(ctx, db.dialect.limit, func(ctx context.Context) error {
			_, err := db.write.ExecContext(ctx, tellQuery, db.name)
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
	if err := inTime(ctx, silence, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "LISTEN "+channel)
		return err
	}); err != nil {
		return err
	}
	db.memo.writes.Add(1)
	db.memo.deaf.Store(false)
	defer db.memo.deaf.Store(true)
	db.wake() // for what was announced before
	for {
		n, err := announced(ctx, conn)
		if err != nil {
			return err
		}
		if n.Payload != db.name {
			db.memo.writes.Add(1)
			db.wake()
		}
	}
}

// announced is the next thing that is announced.
func announced(ctx context.Context, conn *pgx.Conn) (n *pgconn.Notification, err error) {
	for {
		err = inTime(ctx, silence, func(ctx context.Context) error {
			n, err = conn.WaitForNotification(ctx)
			return err
		})
		if err == nil || ctx.Err() != nil || !pgconn.Timeout(err) {
			return n, err
		}
		if err := inTime(ctx, silence, conn.Ping); err != nil {
			return nil, err
		}
	}
}

// inTime gives fn that much time.
func inTime(ctx context.Context, limit time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return fn(ctx)
}
