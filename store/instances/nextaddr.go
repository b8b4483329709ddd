package instances

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// nextAddr caches, per network, the address that was assigned last. All addresses below it were
// taken at that time, so the next free one is found without reading them all. The cache is cleared
// when this process may have released an address. An address that another process releases is found
// when no address above is free.
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

// AddressesFreed has the next address be looked for from the lowest one, because this process may
// have released one.
func (s *Store) AddressesFreed() { s.next.forget() }

// candidates is how many addresses one query checks.
const candidates = 64

// takenAmong returns which of the given addresses of a network are taken. It looks up each one by
// the index, because PostgreSQL, while it has no statistics, would read all addresses of the
// network if they were a list.
var takenAmong = `WITH one (addr) AS (VALUES ` + sqldb.RowsOfOne(2, candidates) + `)
	SELECT one.addr FROM one WHERE (SELECT 1 FROM nic WHERE nic.network = $1 AND nic.addr = one.addr) = 1
		OR (SELECT 1 FROM secondary_address s WHERE s.network = $1 AND s.addr = one.addr) = 1`

// freeAddr assigns the next free address of a locked network: the lowest above the one that was
// assigned last, or the lowest of all if none of those is free.
func (s *Store) freeAddr(ctx context.Context, b *groupcommit.Batch, n seedbed.Network) (netip.Addr, error) {
	known := groupcommit.Of[batchNetworks](b)
	free := known.ungiven(n.Name, known.free[n.Name])
	if len(free) == 0 {
		above, err := s.freeAbove(ctx, b.Tx, n, s.next.after(n.Name))
		if err != nil {
			return netip.Addr{}, err
		}
		free = known.ungiven(n.Name, above)
	}
	if len(free) == 0 {
		lowest, err := lowestAddrs(ctx, b.Tx, n, candidates+len(known.given[n.Name])) // enough for the batch
		if err != nil {
			return netip.Addr{}, err
		}
		if free = known.ungiven(n.Name, lowest); len(free) == 0 {
			return netip.Addr{}, noAddress(n)
		}
	}
	if known.free == nil {
		known.free = map[string][]netip.Addr{}
	}
	known.free[n.Name] = free[1:]
	known.give(n.Name, free[0])
	s.next.gave(n.Name, free[0])
	return free[0], nil
}

// freeAbove returns the free ones of the next candidates addresses from a.
func (s *Store) freeAbove(ctx context.Context, tx *sqldb.Tx, n seedbed.Network, a netip.Addr) ([]netip.Addr, error) {
	var all []netip.Addr
	for a = n.NextAddr(a); a.IsValid() && len(all) < candidates; a = n.NextAddr(a.Next()) {
		all = append(all, a)
	}
	return untaken(ctx, tx, n, all)
}

// untaken returns those of at most candidates addresses of a network that are free.
func untaken(ctx context.Context, tx *sqldb.Tx, n seedbed.Network, all []netip.Addr) ([]netip.Addr, error) {
	if len(all) == 0 {
		return nil, nil
	}
	args := []any{n.Name}
	for _, a := range all {
		args = append(args, a.String())
	}
	for len(args) <= candidates {
		args = append(args, "") // no address
	}
	texts, err := sqldb.List(ctx, tx, sqldb.Value[string], takenAmong, args...)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, text := range texts {
		taken[text] = true
	}
	return slices.DeleteFunc(all, func(a netip.Addr) bool { return taken[a.String()] }), nil
}
