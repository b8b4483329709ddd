package store

import (
	"context"
	"database/sql"
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
			n, err = one(ctx, tx, scanNetwork, seedbed.Errorf(seedbed.ErrInvalid, "network %q does not exist", clean(name, 80)),
				`SELECT `+networkColumns+` FROM network WHERE name = $1`, name)
			return err
		})
		return n, err
	})
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
	var images, networks [][]any
	for _, i := range p.images {
		images = append(images, []any{i.Name, i.Pool, i.State})
	}
	for _, n := range p.networks {
		networks = append(networks, []any{n.Name, n.Prefix.String(), n.Gateway.String()})
	}
	values := [][]byte{[]byte(p.told.text)}
	for _, rows := range [][][]any{images, networks} {
		arrays, _ := columns("ttt", rows) // texts only
		values = append(values, arrays...)
	}
	return shot{guardQuery, values}
}

const guardQuery = `
	SELECT 1 / CASE WHEN $1 = (SELECT COALESCE(string_agg(name || ' ' || events, chr(10) ORDER BY name), '') FROM endpoint)
		AND NOT EXISTS (SELECT 1 FROM unnest($2::text[], $3::text[], $4::text[]) AS want (name, pool, state)
			WHERE NOT EXISTS (SELECT 1 FROM image WHERE image.name = want.name AND image.pool = want.pool AND image.state = want.state AND dropped = 0))
		AND NOT EXISTS (SELECT 1 FROM unnest($5::text[], $6::text[], $7::text[]) AS want (name, prefix, gateway)
			WHERE NOT EXISTS (SELECT 1 FROM network WHERE network.name = want.name AND network.prefix = want.prefix AND network.gateway = want.gateway))
	THEN 1 ELSE 0 END`
