package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"

	"seedbed"
)

// known is what volleys take for granted: images, networks and endpoints as
// they were read some time ago. It is never trusted, but compared (guard).
type known struct {
	mu        sync.Mutex
	images    map[string]seedbed.Image
	networks  map[string]seedbed.Network
	endpoints *told
}

// told is who is told of events, and the text by which that is compared.
type told struct {
	endpoints []seedbed.Endpoint
	text      string
}

// forget drops everything, which is then read again.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.images, k.networks, k.endpoints = nil, nil, nil
}

// knownMost bounds what is remembered of each kind.
const knownMost = 1024

// recall gives what is remembered, or what read gives, which is then remembered.
func recall[T any](k *known, all *map[string]T, name string, read func() (T, error)) (T, error) {
	k.mu.Lock()
	v, ok := (*all)[name]
	k.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := read()
	if err != nil {
		return v, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if *all == nil || len(*all) >= knownMost {
		*all = map[string]T{}
	}
	(*all)[name] = v
	return v, nil
}

func (db *DB) knownImage(ctx context.Context, name string) (seedbed.Image, error) {
	return recall(&db.known, &db.known.images, name, func() (i seedbed.Image, err error) {
		err = db.view(ctx, "read image", func(tx *sql.Tx) error {
			i, err = image(ctx, tx, name, seedbed.ErrInvalid)
			return err
		})
		return i, err
	})
}

func (db *DB) knownNetwork(ctx context.Context, name string) (seedbed.Network, error) {
	return recall(&db.known, &db.known.networks, name, func() (n seedbed.Network, err error) {
		err = db.view(ctx, "read network", func(tx *sql.Tx) error { // not from memo, which may be as old
			n, err = readNetwork(ctx, tx, name)
			return err
		})
		return n, err
	})
}

func readNetwork(ctx context.Context, tx *sql.Tx, name string) (seedbed.Network, error) {
	return one(ctx, tx, scanNetwork, seedbed.Errorf(seedbed.ErrInvalid, "network %q does not exist", clean(name, 80)),
		`SELECT `+networkColumns+` FROM network WHERE name = $1`, name)
}

func (db *DB) knownEndpoints(ctx context.Context) (told, error) {
	k := &db.known
	k.mu.Lock()
	known := k.endpoints
	k.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	var t told
	err := db.view(ctx, "read endpoints", func(tx *sql.Tx) (err error) {
		var texts []string
		t.endpoints, err = list(ctx, tx, func(r row) (e seedbed.Endpoint, err error) {
			var events string
			if err = r.Scan(&e.Name, &events); err == nil {
				err = toJSON{&e.Events}.Scan(events)
			}
			texts = append(texts, e.Name+" "+events)
			return e, err
		}, `SELECT name, events FROM endpoint ORDER BY name`)
		t.text = strings.Join(texts, "\n")
		return err
	})
	if err != nil {
		return t, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.endpoints = &t
	return t, nil
}

// guard fails with a division by zero unless what the volley took for granted is so.
func (p *pile) guard() shot {
	values := [][]byte{[]byte(p.told.text)}
	values = append(append(values, said(p.images)...), said(p.networks)...)
	return shot{guardQuery, values}
}

// said are the names of all as an array, and what is said of each in their order.
func said(all []fact) [][]byte {
	slices.SortFunc(all, func(a, b fact) int { return strings.Compare(a.name, b.name) })
	var names [][]any
	var lines []string
	for _, f := range all {
		names, lines = append(names, []any{f.name}), append(lines, f.says)
	}
	values, _ := columns("t", false, names) // texts only
	return append(values, []byte(strings.Join(lines, "\n")))
}

// guardQuery has the arrays taken apart and put together again so that the planner sees
// in no case how long they are: it would else plan the statement anew each time.
const guardQuery = `
	SELECT 1 / CASE WHEN $1 = ` + endpointsText + `
		AND $3 = (SELECT COALESCE(string_agg(name || ' ' || pool || ' ' || state, chr(10) ORDER BY name), '') FROM image WHERE name = ANY (ARRAY (SELECT unnest($2::text[]))) AND dropped = 0)
		AND $5 = (SELECT COALESCE(string_agg(name || ' ' || prefix || ' ' || gateway, chr(10) ORDER BY name), '') FROM network WHERE name = ANY (ARRAY (SELECT unnest($4::text[]))))
	THEN 1 ELSE 0 END`
