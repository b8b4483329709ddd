package store

import (
	"context"
	"database/sql"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	"seedbed"
)

// freeLeast is how many free addresses are read at a time, or as many as half of
// those that are taken, so that reading those costs each address little.
const freeLeast = 1024

// nextOf gives out an address that was free when it was last read. One that was
// taken since shows when the NICs are written.
func (db *DB) nextOf(ctx context.Context, p *pile, n seedbed.Network) (a netip.Addr, err error) {
	if a = db.next.pop(n.Name); !a.IsValid() {
		if a, err = db.refill(ctx, n); err != nil {
			return a, err
		}
	}
	p.given = append(p.given, takenAddr{n.Name, a})
	return a, nil
}

// refill reads which addresses are free, and gives one of them. Of many who need
// one at once, one reads.
func (db *DB) refill(ctx context.Context, n seedbed.Network) (netip.Addr, error) {
	x := &db.next
	x.refilling.Lock()
	defer x.refilling.Unlock()
	if a := x.pop(n.Name); a.IsValid() {
		return a, nil
	}
	out := x.given() // some of these may be written before the others are read, and settled after that
	var free []netip.Addr
	err := db.view(ctx, "find free addresses", func(tx *sql.Tx) error {
		taken, err := takenAddrs(ctx, tx, n)
		free = lowestFree(n.Prefix, n.Gateway, taken, max(freeLeast, len(taken)/2))
		return err
	})
	if err != nil {
		return netip.Addr{}, err
	}
	if len(free) == 0 {
		return netip.Addr{}, noneFree(n)
	}
	x.know(n.Name, slices.DeleteFunc(free, func(a netip.Addr) bool { return out[takenAddr{n.Name, a}] }))
	if a := x.pop(n.Name); a.IsValid() {
		return a, nil
	}
	return netip.Addr{}, errReads // others were quicker to take them all
}

// given are the addresses that volleys have which are not written yet.
func (x *nextAddr) given() map[takenAddr]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.out)
}

func (x *nextAddr) pop(network string) (a netip.Addr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if free := x.free[network]; len(free) > 0 {
		a, x.free[network] = free[0], free[1:]
		if x.out == nil {
			x.out = map[takenAddr]bool{}
		}
		x.out[takenAddr{network, a}] = true
	}
	return a
}

func (x *nextAddr) know(network string, free []netip.Addr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.free == nil {
		x.free = map[string][]netip.Addr{}
	}
	x.free[network] = slices.DeleteFunc(free, func(a netip.Addr) bool { return x.out[takenAddr{network, a}] })
}

// settled says that a volley with these addresses has ended.
func (x *nextAddr) settled(given []takenAddr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range given {
		delete(x.out, a)
	}
}

// spare takes back what was gathered and is not written.
func (x *nextAddr) spare(p *pile) {
	if p != nil {
		x.settled(p.given)
		x.giveBack(p.given)
	}
}

// giveBack takes addresses back that were given out in vain.
func (x *nextAddr) giveBack(given []takenAddr) {
	back := map[string][]netip.Addr{}
	for _, a := range given {
		back[a.network] = append(back[a.network], a.addr)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for network, all := range back {
		if x.free[network] != nil {
			x.free[network] = slices.Concat(all, x.free[network])
		}
	}
}

// met says that an address which was given out was taken already. Once that is
// somebody's own choice; at every second time others go through the same
// addresses, and this goes on at a random one.
func (x *nextAddr) met(network string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.once == nil {
		x.once = map[string]bool{}
	}
	if x.once[network] = !x.once[network]; x.once[network] {
		return
	}
	if free := x.free[network]; len(free) > 1 {
		at := rand.IntN(len(free))
		x.free[network] = slices.Concat(free[at:], free[:at])
	}
}
