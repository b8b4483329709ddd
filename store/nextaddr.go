package store

import (
	"context"
	"net/netip"
	"sync"

	"seedbed"
)

// nextAddr remembers, per network, the address that was given out last: all
// below it were taken then, so that the next is found without reading them all.
// It is forgotten when an address may have become free. What another process
// frees is found when the addresses above are used up.
type nextAddr struct {
	mu   sync.Mutex
	last map[string]netip.Addr
}

func (x *nextAddr) gave(network string, a netip.Addr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last == nil {
		x.last = map[string]netip.Addr{}
	}
	x.last[network] = a
}

func (x *nextAddr) after(network string) netip.Addr {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last[network].Next()
}

func (x *nextAddr) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.last)
}

// candidates is how many addresses are looked at with one query.
const candidates = 64

// takenAmong asks which of so many addresses of a network are taken. It looks for
// one after the other by the index: PostgreSQL would read all addresses of the
// network for a list of them while it has no statistics.
var takenAmong = `WITH one (addr) AS (VALUES ` + rowsOfOne(2, candidates) + `)
	SELECT one.addr FROM one WHERE (SELECT 1 FROM nic WHERE nic.network = $1 AND nic.addr = one.addr) = 1`

// freeAddr gives out the next free address of a network that is locked: the lowest above the one
// that was given out last, or the lowest of all when none of those is free.
func (db *DB) freeAddr(ctx context.Context, b *Batch, n seedbed.Network) (netip.Addr, error) {
	free := b.free[n.Name]
	if len(free) == 0 {
		var err error
		if free, err = db.freeAbove(ctx, b.Tx, n, db.next.after(n.Name)); err != nil {
			return netip.Addr{}, err
		}
	}
	if len(free) == 0 {
		a, err := lowestAddr(ctx, b.Tx, n)
		if err != nil {
			return a, err
		}
		free = []netip.Addr{a}
	}
	if b.free == nil {
		b.free = map[string][]netip.Addr{}
	}
	b.free[n.Name] = free[1:]
	db.next.gave(n.Name, free[0])
	return free[0], nil
}

// freeAbove returns those of the next addresses from a on that are free.
func (db *DB) freeAbove(ctx context.Context, tx *Tx, n seedbed.Network, a netip.Addr) ([]netip.Addr, error) {
	args := []any{n.Name}
	var all []netip.Addr
	for ; len(all) < candidates && usable(n.Prefix, a); a = a.Next() {
		if a != n.Gateway {
			all, args = append(all, a), append(args, a.String())
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	for len(args) <= candidates {
		args = append(args, "") // no address
	}
	texts, err := list(ctx, tx, value[string], takenAmong, args...)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, text := range texts {
		taken[text] = true
	}
	free := all[:0]
	for _, a := range all {
		if !taken[a.String()] {
			free = append(free, a)
		}
	}
	return free, nil
}
