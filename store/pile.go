package store

import (
	"context"
	"database/sql"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"seedbed"
)

// pile gathers the rows that several writes of one transaction add, and what
// they read alike, so that each table is written once for all. What would have
// been refused one by one shows when the rows are written: then there are fewer.
type pile struct {
	db *DB
	// numbered is false where a parameter without a number costs less.
	numbered bool
	rows     map[string][][]any
	images   map[string]seedbed.Image
	networks map[string]seedbed.Network
	// What only a volley has: where each write's rows end, the addresses that
	// were given out, the events, who is told of them, and what.
	ends   []map[string]int
	given  map[string][]netip.Addr
	events []notice
	told   told
	mail   []mail
}

// pileOrder is the order in which tables are written: each after those that it
// refers to, and jobs first (see acceptCreate).
var pileOrder = []string{intoJob, intoInstance, intoNIC, intoVolume, intoDelivery, intoEvent, intoAudit,
	intoSystem, intoNetworkTemplate, intoStorageTemplate, intoUserData, intoScript}

// The tables and columns of rows that may be gathered.
const (
	intoJob      = `job (id, kind, state, subject, instance, spec, node, pool, on_failure, priority, after, blocked, created, events)`
	intoClaim    = `claim (kind, key, job, holder)`
	intoInstance = `instance (id, name, profile, image, node, state, vcpus, memory, ready, held, user_data, ssh_keys, report_token,
		vendor_data, datasource, metadata, tags, spot, password, protected, kind, follow, source, params, system, token, hook, revision, created, changed)`
	intoNIC      = `nic (instance, idx, mac, network, addr)`
	intoVolume   = `volume (pool, name, instance, idx, size, image)`
	intoDelivery = `delivery (hook, id, sha256, received, job, peer, headers, payload)`
	intoEvent    = `job_event (job, seq, at, level, stage, msg, progress)`
	intoAudit    = `audit (at, actor, role, peer, request, what, before, asked)`
)

type pileKey struct{}

// piled is ctx for writes that gather their rows.
func (db *DB) piled(ctx context.Context) (context.Context, *pile) {
	p := &pile{db: db, numbered: db.dialect.announce != "", rows: map[string][][]any{}, images: map[string]seedbed.Image{}, networks: map[string]seedbed.Network{},
		given: map[string][]netip.Addr{}}
	return context.WithValue(ctx, pileKey{}, p), p
}

// pileOf is the pile of ctx; nil where each write is by itself.
func pileOf(ctx context.Context) *pile {
	p, _ := ctx.Value(pileKey{}).(*pile)
	return p
}

// put adds a row, and tells whether it did: false when it is there already. A
// row that is gathered counts as added. Where a table does not yield, a row that
// is there is an error.
func put(ctx context.Context, tx *sql.Tx, into string, row ...any) (made bool, err error) {
	if p := pileOf(ctx); p != nil {
		p.rows[into] = append(p.rows[into], row)
		return true, nil
	}
	n, err := affect(ctx, tx, insertRows(into, 1, len(row), true), row...)
	return n == 1, err
}

// yielding are the tables where a row that is there already is no error, but an answer.
var yielding = map[string]bool{intoJob: true, intoClaim: true, intoDelivery: true}

// insertRows is the statement that adds n rows of so many columns.
func insertRows(into string, n, columns int, numbered bool) string {
	var b strings.Builder
	b.WriteString("INSERT ")
	if !numbered && n > 1 {
		b.WriteString("OR FAIL ") // who adds many goes back to before them all: SQLite need not keep what undoes the statement
	}
	b.WriteString("INTO " + into + " VALUES ")
	for at := range n * columns {
		switch {
		case at == 0:
			b.WriteString("(")
		case at%columns == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		if numbered {
			b.WriteString("$" + strconv.Itoa(at+1))
		} else {
			b.WriteString("?")
		}
	}
	b.WriteString(")")
	if yielding[into] {
		b.WriteString(" ON CONFLICT DO NOTHING")
	}
	return b.String()
}

// mark is how far p has grown.
func (p *pile) mark() map[string]int {
	at := make(map[string]int, len(p.rows))
	for into, rows := range p.rows {
		at[into] = len(rows)
	}
	return at
}

// cut takes away the rows that came after that mark.
func (p *pile) cut(at map[string]int) {
	for into, rows := range p.rows {
		p.rows[into] = rows[:at[into]]
	}
}

// flush writes what is gathered; errApart when a row was there already.
func (p *pile) flush(ctx context.Context, tx *sql.Tx) error {
	if tx == nil {
		return errReads
	}
	for _, into := range pileOrder {
		rows := p.rows[into]
		delete(p.rows, into)
		for len(rows) > 0 {
			n := p.group(len(rows))
			var args []any
			for _, row := range rows[:n] {
				args = append(args, row...)
			}
			made, err := affect(ctx, tx, insertRows(into, n, len(rows[0]), p.numbered), args...)
			if err != nil {
				return err
			}
			if made < n {
				return errApart
			}
			rows = rows[n:]
		}
	}
	return nil
}

// pileMost bounds the rows of one statement.
const pileMost = 4 * togetherMost

// group is how many of n rows go into one statement: all of them where a
// statement costs a way to the server and back, and else a power of two, so
// that few statements, which stay ready, serve any number.
func (p *pile) group(n int) int {
	if p.numbered {
		return min(n, pileMost)
	}
	return min(1<<(bits.Len(uint(n))-1), togetherMost)
}

// alike reads what several writes read alike once.
func alike[T any](all map[string]T, name string, read func() (T, error)) (T, error) {
	if v, ok := all[name]; ok {
		return v, nil
	}
	v, err := read()
	if err == nil {
		all[name] = v
	}
	return v, err
}
