package store

import (
	"cmp"
	"context"
	"database/sql"
	"math/bits"
	"strconv"
	"strings"
	"sync"

	"seedbed"
)

// flush writes what is gathered to SQLite, and the events of it.
func (p *pile) flush(ctx context.Context, tx *sql.Tx) error {
	if err := p.holds(ctx, tx); err != nil {
		return err
	}
	for at, rows := range p.rows {
		for len(rows) > 0 {
			// A power of two, so that few statements, which stay ready, serve any number.
			n := min(1<<(bits.Len(uint(len(rows)))-1), togetherMost)
			shared := n > 1 && alike(pileTypes[at], rows[:n])
			if err := exec(ctx, tx, insertGroup(group{at, n, shared}), groupArgs(pileTypes[at], shared, rows[:n])...); err != nil {
				return err
			}
			rows = rows[n:]
		}
	}
	return emit(ctx, tx, p.events...)
}

// holds fails unless what was taken for granted is so (see guard).
func (p *pile) holds(ctx context.Context, tx *sql.Tx) error {
	for _, f := range p.images {
		if i, err := image(ctx, tx, f.name, seedbed.ErrInvalid); err != nil || sayImage(i) != f {
			return cmp.Or(err, errReads)
		}
	}
	for _, f := range p.networks {
		if n, err := readNetwork(ctx, tx, f.name); err != nil || sayNetwork(n) != f {
			return cmp.Or(err, errReads)
		}
	}
	return nil
}

// group is so many rows of the table of a place, with those values given once that
// they have alike, if shared.
type group struct {
	at, n  int
	shared bool
}

var groups sync.Map // of group and its statement

// insertGroup is the statement that adds the rows of a group. A parameter without a
// number costs less. Whoever adds many goes back to before them all (OR FAIL), so
// that SQLite need not keep what undoes the statement.
func insertGroup(g group) string {
	if q, ok := groups.Load(g); ok {
		return q.(string)
	}
	types := pileTypes[g.at]
	var selected []string
	own := 0
	for _, t := range []byte(types) {
		if g.shared && shareable(t) {
			selected = append(selected, "?")
			continue
		}
		own++
		selected = append(selected, "column"+strconv.Itoa(own))
	}
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", own), ", ") + ")"
	q := "VALUES " + strings.TrimSuffix(strings.Repeat(row+", ", g.n), ", ")
	if g.shared {
		q = "SELECT " + strings.Join(selected, ", ") + " FROM (" + q + ")"
	}
	q = "INSERT OR FAIL INTO " + pileOrder[g.at] + " " + q
	groups.Store(g, q)
	return q
}

// groupArgs are the parameters of that statement.
func groupArgs(types string, shared bool, rows [][]any) []any {
	args := make([]any, 0, len(types)*len(rows))
	if shared {
		for c, v := range rows[0] {
			if shareable(types[c]) {
				args = append(args, v)
			}
		}
	}
	for _, row := range rows {
		for c, v := range row {
			if !shared || !shareable(types[c]) {
				args = append(args, v)
			}
		}
	}
	return args
}
