package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"net/netip"
	"strings"

	"seedbed"
)

// usable tells whether a is a host's address in the IPv4 prefix p: neither the
// network's own nor the broadcast address.
func usable(p netip.Prefix, a netip.Addr) bool {
	return p.Contains(a) && a != p.Masked().Addr() && a != broadcast(p)
}

func broadcast(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	host := uint32(1)<<(32-p.Bits()) - 1
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])|host)
	return netip.AddrFrom4(b)
}

// lowestFree is the lowest host address in p that is neither the gateway nor
// taken; the zero Addr when there is none.
func lowestFree(p netip.Prefix, gateway netip.Addr, taken map[netip.Addr]bool) netip.Addr {
	for a := p.Masked().Addr().Next(); usable(p, a); a = a.Next() {
		if a != gateway && !taken[a] {
			return a
		}
	}
	return netip.Addr{}
}

// lockNetwork reads a network and keeps others from giving out its addresses
// until the transaction ends.
func lockNetwork(ctx context.Context, tx *sql.Tx, name string) (seedbed.Network, error) {
	return one(ctx, tx, scanNetwork, seedbed.Errorf(seedbed.ErrInvalid, "network %q does not exist", clean(name, 80)),
		`UPDATE network SET nat = nat WHERE name = $1 RETURNING `+networkColumns, name)
}

// assignAddr gives want, or the lowest free address when want is zero. The
// network is locked; the claim is the caller's to make.
func assignAddr(ctx context.Context, tx *sql.Tx, n seedbed.Network, want netip.Addr) (netip.Addr, error) {
	if want.IsValid() {
		if want == n.Gateway || !usable(n.Prefix, want) {
			return want, seedbed.Errorf(seedbed.ErrInvalid, "address %s cannot be a guest's in network %q: want one of %s but its first, its last and the gateway %s",
				want, n.Name, n.Prefix, n.Gateway)
		}
		return want, nil
	}
	keys, err := list(ctx, tx, value[string], `SELECT key FROM claim WHERE kind = $1 AND key LIKE $2 ESCAPE '\'`, claimIP, likePrefix(ipKey(n.Name, "")))
	if err != nil {
		return want, err
	}
	taken := make(map[netip.Addr]bool, len(keys))
	for _, k := range keys {
		a, err := netip.ParseAddr(strings.TrimPrefix(k, ipKey(n.Name, "")))
		if err != nil {
			return want, err
		}
		taken[a] = true
	}
	a := lowestFree(n.Prefix, n.Gateway, taken)
	if !a.IsValid() {
		return a, seedbed.Errorf(seedbed.ErrFull, "network %q (%s) has no free address left: remove instances that use it, or use another network", n.Name, n.Prefix)
	}
	return a, nil
}

// ipKey is the claim's key of an address; networks may have equal addresses.
func ipKey(network, addr string) string { return network + "/" + addr }

// likePrefix is a LIKE pattern, with ESCAPE '\', of what starts with s.
func likePrefix(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s) + "%"
}
