package store

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"seedbed"
)

// pile gathers the rows that several writes add, and what they take for granted, so
// that each table is written once for all. Nothing is read from a transaction
// meanwhile: what would have been refused one by one shows when the rows are written.
type pile struct {
	db *DB
	// rows are those of each table, in the order of pileOrder. Their values are
	// texts, int64s, bytes and nil.
	rows             [piles][][]any
	images, networks []fact
	// Where each write's rows end, the addresses that were given out, the events,
	// who is told of them, and what.
	ends   []mark
	given  []takenAddr
	events []notice
	told   told
	mail   []mail
}

// mark is how many rows of each table a pile has.
type mark [piles]int

// piles is how many tables there are that rows are gathered for.
const piles = 12

// pileOrder is the order in which tables are written: each after those that it
// refers to, and jobs first (see acceptCreate).
var pileOrder = [piles]string{intoJob, intoInstance, intoNIC, intoVolume, intoDelivery, intoEvent, intoAudit,
	intoSystem, intoNetworkTemplate, intoStorageTemplate, intoUserData, intoScript}

// pileAt are the tables' places in that order.
var pileAt = func() map[string]int {
	all := map[string]int{}
	for at, into := range pileOrder {
		all[into] = at
	}
	return all
}()

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
	p := &pile{db: db}
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
		for i, v := range row {
			if row[i], err = columnValue(v); err != nil {
				return false, err
			}
		}
		at := pileAt[into]
		p.rows[at] = append(p.rows[at], row)
		return true, nil
	}
	n, err := affect(ctx, tx, insertRows(into, 1, len(row)), row...)
	return n == 1, err
}

// yielding are the tables where a row that is there already is no error, but an answer.
var yielding = map[string]bool{intoJob: true, intoClaim: true, intoDelivery: true}

// insertRows is the statement that adds n rows of so many columns.
func insertRows(into string, n, columns int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO " + into + " VALUES ")
	for at := range n * columns {
		switch {
		case at == 0:
			b.WriteString("(")
		case at%columns == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(at+1))
	}
	b.WriteString(")")
	if yielding[into] {
		b.WriteString(" ON CONFLICT DO NOTHING")
	}
	return b.String()
}

// take adds what another write has gathered; false when the two take different
// things for granted, and nothing is added.
func (p *pile) take(one *pile) bool {
	if !agree(p.images, one.images) || !agree(p.networks, one.networks) {
		return false
	}
	for _, f := range one.images {
		p.images = f.among(p.images)
	}
	for _, f := range one.networks {
		p.networks = f.among(p.networks)
	}
	var end mark
	for at, rows := range one.rows {
		p.rows[at] = append(p.rows[at], rows...)
		end[at] = len(p.rows[at])
	}
	p.ends, p.events, p.given = append(p.ends, end), append(p.events, one.events...), append(p.given, one.given...)
	return true
}

// fact is what is taken for granted of the row of a name.
type fact struct{ name, says string }

// among is all with f, of which each name is there once.
func (f fact) among(all []fact) []fact {
	if slices.ContainsFunc(all, func(other fact) bool { return other.name == f.name }) {
		return all
	}
	return append(all, f)
}

// agree tells whether no name of both is said to be something else.
func agree(all, more []fact) bool {
	for _, f := range more {
		if slices.ContainsFunc(all, func(other fact) bool { return other.name == f.name && other.says != f.says }) {
			return false
		}
	}
	return true
}

// sayImage and sayNetwork are what has to stay as it was read. PostgreSQL puts the
// same together in guardQuery.
func sayImage(i seedbed.Image) fact {
	return fact{i.Name, i.Name + " " + i.Pool + " " + string(i.State)}
}

func sayNetwork(n seedbed.Network) fact {
	return fact{n.Name, n.Name + " " + n.Prefix.String() + " " + n.Gateway.String()}
}
