package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// A volley writes the rows of several writes, which were gathered before it began:
// each table is written once for all. What it would have to read first it takes for
// granted (known), and ends when that is no longer so. Nothing is left of a volley
// that is refused; its writes then go the long way, on which each learns what is wrong.
//
// To PostgreSQL it goes there and back once: all of its statements, each with the
// rows of one table as arrays, and the commit are sent without waiting for an answer.
// In SQLite, where one writes at a time, what it writes is gathered before that.

// errReads is why a write is in no volley: what it does depends on what it reads.
var errReads = errors.New("the write needs a transaction to read in")

// volleyTries bounds how often a batch is sent, each time without those that
// were in the way of the others.
const volleyTries = 4

// volley writes what it can of a batch at once, and gives those that have to go
// the long way; apart when they were refused together.
func (db *DB) volley(ctx context.Context, batch []*ask) (rest []*ask, apart bool) {
	for try := 1; ; try++ {
		p := &pile{db: db}
		var sent []*ask
		for _, a := range batch {
			if err := a.ctx.Err(); err != nil { // nobody waits for it
				a.err = err
				db.next.spare(a.rows)
			} else if a.rows != nil && p.take(a.rows) {
				sent = append(sent, a)
			} else {
				db.next.spare(a.rows)
				rest = append(rest, a)
			}
		}
		if len(sent) == 0 {
			return rest, false
		}
		refused, err := db.send(ctx, p)
		db.next.settled(p.given)
		if err == nil {
			db.wake()
			db.tellSoon() // by an announcement of its own it would wait for those of others
			return rest, false
		}
		if !refused { // they may be written, and may be not
			for _, a := range sent {
				a.err = err
			}
			return rest, false
		}
		var out []*ask
		if batch, out = db.without(p, sent, err); len(batch) == 0 || try == volleyTries {
			return append(append(rest, out...), batch...), db.dialect.cause(err) != causeAgain
		}
		rest = append(rest, out...)
		for _, a := range batch {
			db.gather(a)
		}
	}
}

// gather has a write say what it writes. One that cannot say it without reading
// has no rows: it goes the long way.
func (db *DB) gather(a *ask) {
	ctx, p := db.piled(a.ctx)
	a.rows = nil
	events, err := a.safely(ctx, nil)
	if err != nil {
		db.next.spare(p)
		if !errors.Is(err, errReads) {
			db.known.forget() // it may be wrong only by what is known
		}
		return
	}
	p.events, a.rows = events, p
}

// without finds who was in the way of the others, and gives the others and them.
// Nobody is left when it is not known.
func (db *DB) without(p *pile, sent []*ask, err error) (others, out []*ask) {
	if addressTaken(err) { // it is not free any more
		for _, n := range p.networks {
			db.next.met(n.name)
		}
		return sent, nil
	}
	db.next.giveBack(p.given)
	e := (*pgconn.PgError)(nil)
	if !errors.As(err, &e) || db.dialect.cause(err) != causeUnique {
		db.known.forget()
		return nil, sent
	}
	same := p.holders(e)
	if len(same) > 1 {
		same = same[1:] // they may have been in each other's way only
	}
	for i, a := range sent {
		if slices.Contains(same, i) {
			out = append(out, a)
		} else {
			others = append(others, a)
		}
	}
	if len(out) == 0 {
		return nil, sent
	}
	return others, out
}

// addressTaken tells whether what was refused is the address of a NIC.
func addressTaken(err error) bool {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.TableName == "nic" && keyOf(e) == "network, addr"
	}
	return sqliteCause(err) == causeUnique && strings.Contains(err.Error(), "nic.network, nic.addr")
}

// holders are the writes, by their place in the volley, whose key was there already.
func (p *pile) holders(e *pgconn.PgError) (all []int) {
	for place, rows := range p.rows {
		table, columns, _ := strings.Cut(strings.TrimSuffix(pileOrder[place], ")"), " (")
		if table != e.TableName {
			continue
		}
		var key []int
		for name := range strings.SplitSeq(keyOf(e), ", ") {
			if c := slices.Index(strings.Fields(strings.ReplaceAll(columns, ",", " ")), name); c >= 0 {
				key = append(key, c)
			}
		}
		for at, row := range rows {
			var values []string
			for _, c := range key {
				values = append(values, fmt.Sprint(row[c]))
			}
			if len(key) > 0 && strings.Contains(e.Detail, "=("+strings.Join(values, ", ")+")") {
				all = append(all, slices.IndexFunc(p.ends, func(end mark) bool { return at < end[place] }))
			}
		}
	}
	return all
}

// keyOf are the columns of the key that a row was refused by: the server's text,
// in any language, has "(hook, id)=(ci, 42)" in it.
func keyOf(e *pgconn.PgError) string {
	columns, _, _ := strings.Cut(e.Detail, ")=(")
	_, columns, _ = strings.Cut(columns, "(")
	return columns
}

// send writes what p has gathered; refused tells that nothing of it was written.
func (db *DB) send(ctx context.Context, p *pile) (refused bool, err error) {
	if !db.dialect.volleys {
		return true, db.transact(ctx, db.write, db.dialect.writing, func(tx *sql.Tx) error { return p.flush(ctx, tx) })
	}
	if p.told, err = db.knownEndpoints(ctx); err != nil {
		return true, err
	}
	if err := p.address(ctx, p.events); err != nil {
		return true, err
	}
	pool, err := db.write.Conn(ctx)
	if err != nil {
		return true, err
	}
	defer pool.Close()
	var broken error
	err = pool.Raw(func(c any) error {
		refused, broken = db.fire(ctx, c.(*stdlib.Conn).Conn(), p)
		return nil // it shows by itself when it is closed
	})
	return refused || err != nil, errors.Join(err, broken)
}

// shot is one statement of a volley.
type shot struct {
	query  string
	values [][]byte
}

// fire sends the statements and waits for the commit.
func (db *DB) fire(ctx context.Context, conn *pgx.Conn, p *pile) (refused bool, err error) {
	shots, err := p.shots()
	if err != nil {
		return true, err
	}
	ready := make([]*pgconn.StatementDescription, len(shots))
	for i, s := range shots { // they stay ready: this asks the server only once
		if ready[i], err = conn.Prepare(ctx, s.query, s.query); err != nil {
			return true, err
		}
	}
	pipe := conn.PgConn().StartPipeline(ctx)
	for i, s := range shots {
		pipe.SendQueryPrepared(ready[i].Name, s.values, inBinary, nil)
	}
	err = pipe.Sync()
	for err == nil {
		var result any
		if result, err = pipe.GetResults(); err != nil {
			break
		}
		if r, ok := result.(*pgconn.ResultReader); ok {
			_, err = r.Close()
			continue
		}
		if _, ok := result.(*pgconn.PipelineSync); !ok {
			err = fmt.Errorf("the server answered a commit with %T", result)
		}
		break
	}
	closed := pipe.Close()
	if err == nil {
		err = closed
	}
	// What the server refuses is not written, unless it went down meanwhile.
	e := (*pgconn.PgError)(nil)
	return errors.As(err, &e) && db.dialect.cause(err) != causeUnavailable || pgconn.SafeToRetry(err), err
}

// inBinary is how every parameter is sent.
var inBinary = []int16{pgx.BinaryFormatCode}

// shots are the statements that write what p has gathered.
func (p *pile) shots() ([]shot, error) {
	all := []shot{p.guard()}
	for at, rows := range p.rows {
		if len(rows) == 0 {
			continue
		}
		types := pileTypes[at]
		shared := alike(types, rows)
		values, err := columns(types, shared, rows)
		if err != nil {
			return nil, err
		}
		all = append(all, shot{insertArrays(at, shared), values})
	}
	for _, m := range p.mail {
		values, err := columns(mailTypes, false, m.rows)
		if err != nil {
			return nil, err
		}
		all = append(all, shot{insertMail, append([][]byte{[]byte(m.endpoint), bigint(int64(len(m.rows)))}, values...)})
	}
	return all, nil
}
