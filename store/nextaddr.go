package store

import (
	"context"
	"database/sql"
	"net/netip"
	"slices"
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
	// free are addresses that were free when they were last read, the next one first.
	free map[string][]netip.Addr
	// out are those that a volley has, which is not written yet.
	out map[takenAddr]bool
	// once tells of a network that the last address which was taken already was no second one.
	once map[string]bool
	// refilling is held by who reads what is free.
	refilling sync.Mutex
}

type takenAddr struct {
	network string
	addr    netip.Addr
}

func (x *nextAddr) gave(network string, a netip.Addr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last == nil {
		x.last = map[string]netip.Addr{}
	}
	x.last[network] = a
	if at := slices.Index(x.free[network], a); at >= 0 {
		x.free[network] = slices.Concat(x.free[network][:at], x.free[network][at+1:])
	}
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
	clear(x.free)
}

// nextTries is how many addresses are looked at one by one.
const nextTries = 16

// nextFree is the lowest free address above the one that was given out last;
// the zero Addr when all are to be looked at.
func (db *DB) nextFree(ctx context.Context, tx *sql.Tx, n seedbed.Network) (netip.Addr, error) {
	a := db.next.after(n.Name)
	for try := 0; try < nextTries && usable(n.Prefix, a); try, a = try+1, a.Next() {
		if a == n.Gateway {
			continue
		}
		taken, err := value[bool](tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM nic WHERE network = $1 AND addr = $2)`, n.Name, a.String()))
		if err != nil {
			return netip.Addr{}, err
		}
		if !taken {
			db.next.gave(n.Name, a)
			return a, nil
		}
	}
	return netip.Addr{}, nil
}
