package instances

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// lowestFree returns at most most of the lowest addresses of a network that NICs get and that are not taken.
func lowestFree(n seedbed.Network, taken map[netip.Addr]bool, most int) (free []netip.Addr) {
	for a := n.NextAddr(netip.Addr{}); a.IsValid() && len(free) < most; a = n.NextAddr(a.Next()) {
		if !taken[a] {
			free = append(free, a)
		}
	}
	return free
}

// lockNetwork reads a network and locks its row, so that no other transaction assigns its addresses
// until this one ends.
func lockNetwork(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Network, error) {
	return sqldb.LockOne(ctx, tx, scanNetwork, seedbed.Errorf(seedbed.ErrInvalid, "network %q does not exist", sqldb.Clean(name, 80)),
		`UPDATE network SET nat = nat WHERE name = $1 RETURNING `+networkColumns, name)
}

// batchNetworks holds what the writes of a batch know of networks, by name.
type batchNetworks struct {
	locked map[string]seedbed.Network
	free   map[string][]netip.Addr        // addresses known to be free
	given  map[string]map[netip.Addr]bool // addresses that writes of the batch ask for, or were given
}

// give records that a write of the batch asks for an address or was given it, so that no later one is.
func (k *batchNetworks) give(network string, a netip.Addr) {
	if k.given == nil {
		k.given = map[string]map[netip.Addr]bool{}
	}
	if k.given[network] == nil {
		k.given[network] = map[netip.Addr]bool{}
	}
	k.given[network][a] = true
}

// ask records the addresses that the NICs of a write of the batch ask for. No unique key keeps the first address of one NIC apart
// from a secondary one of another that the same batch adds: so a write that asks for an address of an earlier one goes apart.
func ask(b *groupcommit.Batch, nics []seedbed.NIC) error {
	known := groupcommit.Of[batchNetworks](b)
	for _, n := range nics {
		for _, a := range append([]netip.Addr{n.Addr}, n.Secondary...) {
			switch {
			case seedbed.AnyFree(a):
				continue
			case known.given[n.Network][a] && b.Shared:
				return groupcommit.ErrApart
			case known.given[n.Network][a]:
				return seedbed.Errorf(seedbed.ErrInvalid, "NIC %d asks for address %s of network %q, which is asked for already", n.Index, a, n.Network)
			}
			known.give(n.Network, a)
		}
	}
	return nil
}

// ungiven returns those of some free addresses that no write of the batch asks for.
func (k *batchNetworks) ungiven(network string, free []netip.Addr) []netip.Addr {
	given := k.given[network]
	return slices.DeleteFunc(free, func(a netip.Addr) bool { return given[a] })
}

// batchNetwork is lockNetwork, called once for all writes of the batch.
func batchNetwork(ctx context.Context, b *groupcommit.Batch, name string) (seedbed.Network, error) {
	known := groupcommit.Of[batchNetworks](b)
	if n, ok := known.locked[name]; ok {
		return n, nil
	}
	n, err := lockNetwork(ctx, b.Tx, name)
	if err == nil {
		if known.locked == nil {
			known.locked = map[string]seedbed.Network{}
		}
		known.locked[name] = n
	}
	return n, err
}

// LockNetworks locks networks in one order. A transaction calls it first. Networks that do not exist
// are left out.
func LockNetworks(ctx context.Context, b *groupcommit.Batch, names []string) error {
	return sqldb.InOrder(names, func(name string) error {
		if seedbed.CheckName("network", seedbed.ShortName(name)) != nil {
			return nil
		}
		if _, err := batchNetwork(ctx, b, name); err != nil && !errors.Is(err, seedbed.ErrInvalid) {
			return err
		}
		return nil
	})
}

// NetworksOf returns the networks of an instance's NICs.
func NetworksOf(i *seedbed.Instance) (names []string) {
	if i != nil {
		for _, n := range i.NICs {
			names = append(names, n.Network)
		}
	}
	return names
}

// assignAddr returns the address that a new NIC asks for, or a free one. The caller has locked the network, and makes the
// claim. It returns the zero Addr in a network without an IPv4 prefix.
func (s *Store) assignAddr(ctx context.Context, b *groupcommit.Batch, n seedbed.Network, nic seedbed.NIC) (netip.Addr, error) {
	a, err := n.Asks(nic.MAC, nic.Addr)
	err = cmp.Or(err, n.Admits(nic.MAC))
	switch {
	case err != nil || !n.Prefix.IsValid():
		return a, err
	case a.IsValid():
		return a, notSecondary(ctx, b.Tx, n.Name, a)
	}
	return s.freeAddr(ctx, b, n)
}

// FreeAddr returns the address that a new NIC with a MAC address would get in the network which asks for want or, if want is
// the zero Addr, for none. One of IPv6 is a secondary one. It returns ErrInvalid for one that no NIC may have, ErrExists for one
// that is taken, and ErrFull if there is none. In a network without an IPv4 prefix, it returns the zero Addr.
func (s *Store) FreeAddr(ctx context.Context, network string, mac seedbed.MAC, want netip.Addr) (a netip.Addr, err error) {
	n, err := s.Network(ctx, network)
	if err != nil {
		return a, err
	}
	if want.Is6() {
		err = n.Adds(mac, want)
	} else {
		want, err = n.Asks(mac, want)
		err = cmp.Or(err, n.Admits(mac))
	}
	if err != nil || !want.IsValid() && !n.Prefix.IsValid() {
		return a, err
	}
	err = s.db.View(ctx, "find a free address", func(tx *sqldb.Tx) error {
		if want.IsValid() {
			a = want
			h, err := holderOf(ctx, tx, n, want)
			if err == nil && h.name != "" {
				err = seedbed.Errorf(seedbed.ErrExists, "address %s is taken in network %q", want, n.Name)
			}
			return err
		}
		free, err := lowestAddrs(ctx, tx, n, 1)
		if err == nil {
			a = free[0]
		}
		return err
	})
	return a, err
}

// FreeSecondary returns the secondary addresses that a NIC of an instance would get now which asks for some: those that it names, and free
// ones for the others; see readdress. It returns ErrInvalid for one that the NIC cannot have, ErrInUse for one that another NIC has, and
// ErrFull if too few are free.
func (s *Store) FreeSecondary(
	ctx context.Context, inst seedbed.Instance, nic seedbed.NIC, asks []netip.Addr,
) (all []netip.Addr, err error) {
	n, err := s.Network(ctx, nic.Network)
	if err != nil {
		return nil, err
	}
	err = s.db.View(ctx, "find free secondary addresses", func(tx *sqldb.Tx) error {
		all = nil
		named, asked := map[netip.Addr]bool{}, map[netip.Addr]int{} // how many free ones, by what asks for them
		for _, a := range asks {
			if seedbed.AnyFree(a) {
				asked[a]++
				continue
			}
			err := addressed(n, nic, a)
			if err == nil {
				err = assignable(ctx, tx, inst, n, nic, a)
			}
			if err != nil {
				return err
			}
			named[a], all = true, append(all, a)
		}
		for _, which := range seedbed.FreeAddrs(1, 1) {
			if asked[which] == 0 {
				continue
			}
			free, err := someFree(ctx, tx, n, nic, which, asked[which], named)
			if err != nil {
				return err
			}
			all = append(all, free...)
		}
		return nil
	})
	return all, err
}

// reservable returns ErrInUse if an address that a network reserves, and did not before, is another NIC's. New NICs look for
// the next address from the lowest one again, since one may be free.
func (s *Store) reservable(ctx context.Context, tx *sqldb.Tx, n seedbed.Network, before []seedbed.Reservation) error {
	if slices.Equal(n.Reservations, before) {
		return nil
	}
	s.next.forget()
	was := seedbed.Network{NetworkOptions: seedbed.NetworkOptions{Reservations: before}}
	if err := movesNone(ctx, tx, n, n.Reserved6(), was.Reserved6()); err != nil {
		return err
	}
	if err := movesNone(ctx, tx, n, was.Reserved6(), n.Reserved6()); err != nil {
		return err
	}
	for _, r := range n.Reservations {
		if among(r, before) {
			continue
		}
		h, err := holderOf(ctx, tx, n, r.Addr)
		if err == nil && h.name != "" && (h.mac != r.MAC || r.Addr.Is6()) {
			err = seedbed.Errorf(seedbed.ErrInUse, "address %s of network %q belongs to the NIC %s: seedbed network leases says whose that is",
				r.Addr, n.Name, h.mac)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// among reports whether there is a reservation of the same address for the same MAC address.
func among(r seedbed.Reservation, all []seedbed.Reservation) bool {
	return slices.ContainsFunc(all, func(o seedbed.Reservation) bool { return o.MAC == r.MAC && o.Addr == r.Addr })
}

// movesNone returns ErrInUse if a NIC of a locked network has the MAC address of one of some reservations of IPv6 addresses that are not
// among others: the first IPv6 address of a NIC is the one that is reserved for it, and stays as long as the NIC is in the network.
func movesNone(ctx context.Context, tx *sqldb.Tx, n seedbed.Network, some, others []seedbed.Reservation) error {
	for _, r := range some {
		if among(r, others) {
			continue
		}
		name, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT `+FullName+` FROM nic JOIN instance ON instance.id = nic.instance
			WHERE nic.network = $1 AND nic.mac = $2`, n.Name, r.MAC.String())
		if err == nil && name != "" {
			err = seedbed.Errorf(seedbed.ErrInUse, "the NIC %s of instance %s is in network %q and keeps its IPv6 address, which a reservation for "+
				"it decides: change reservations of IPv6 addresses before their NIC is added, or once it is removed", r.MAC, name, n.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// NetworkLeases returns the addresses of a network that the instances of a scope have: those of IPv4 in their order, and then
// those of IPv6 alone by MAC address.
func (s *Store) NetworkLeases(ctx context.Context, in seedbed.Scope, network string) (all []seedbed.NetworkLease, err error) {
	w := sqldb.InScope(in)
	w.And("nic.network = %s", network)
	n, err := s.Network(ctx, network)
	if err != nil {
		return nil, err
	}
	err = s.db.View(ctx, "list the leases of a network", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, func(r sqldb.Row) (l seedbed.NetworkLease, err error) {
			err = r.Scan(sqldb.ToText(&l.Addr), sqldb.ToText(&l.MAC), &l.Instance, &l.NIC, sqldb.ToTime(&l.Until))
			l.Addr6 = n.Addr6(l.MAC)
			return l, err
		}, `SELECT COALESCE(nic.addr, ''), nic.mac, `+FullName+`, nic.idx, lease.until FROM nic
			JOIN instance ON instance.id = nic.instance LEFT JOIN lease ON lease.mac = nic.mac WHERE `+w.String(), w.Args...)
		if err != nil {
			return err
		}
		of := sqldb.InScope(in)
		of.And("s.network = %s", network) // also those that are kept for a NIC of another network, which a job takes there
		further, err := sqldb.List(ctx, tx, func(r sqldb.Row) (l seedbed.NetworkLease, err error) {
			l.Secondary = true
			if err = r.Scan(sqldb.ToText(&l.Addr), sqldb.ToText(&l.MAC), &l.Instance, &l.NIC); l.Addr.Is6() {
				l.Addr, l.Addr6 = netip.Addr{}, l.Addr
			}
			return l, err
		}, `SELECT s.addr, nic.mac, `+FullName+`, nic.idx FROM `+secondaryJoin+` WHERE `+of.String(), of.Args...)
		all = append(all, further...)
		return err
	})
	slices.SortFunc(all, func(a, b seedbed.NetworkLease) int {
		if a.Addr.IsValid() != b.Addr.IsValid() {
			return b.Addr.BitLen() - a.Addr.BitLen()
		}
		return cmp.Or(a.Addr.Compare(b.Addr), bytes.Compare(a.MAC[:], b.MAC[:]), a.Addr6.Compare(b.Addr6))
	})
	return all, err
}

// CountAddresses sets how many of their IPv4 addresses NICs have in some networks, and how many are free.
func (s *Store) CountAddresses(ctx context.Context, networks []*seedbed.Network) error {
	return s.db.View(ctx, "count the addresses of networks", func(tx *sqldb.Tx) error {
		for _, n := range networks {
			taken, err := takenAddrs(ctx, tx, n.Name)
			if err != nil {
				return err
			}
			n.Addresses = n.CountAddresses(taken)
		}
		return nil
	})
}

// lowestAddrs returns the lowest free addresses of the network, at least one and at most most, read
// from the database. It returns ErrFull if none is free.
func lowestAddrs(ctx context.Context, tx *sqldb.Tx, n seedbed.Network, most int) ([]netip.Addr, error) {
	taken, err := takenAddrs(ctx, tx, n.Name)
	if err != nil {
		return nil, err
	}
	free := lowestFree(n, taken, most)
	if len(free) == 0 {
		return nil, noAddress(n)
	}
	return free, nil
}

func noAddress(n seedbed.Network) error {
	from := n.Prefix.String()
	if n.Range.First.IsValid() {
		from += ", range " + n.Range.String()
	}
	return seedbed.Errorf(seedbed.ErrFull,
		"network %q (%s) has no free address left: remove instances that use it, or use another network", n.Name, from)
}

// takenAddrs returns the addresses of a network that instances have.
func takenAddrs(ctx context.Context, tx *sqldb.Tx, network string) (map[netip.Addr]bool, error) {
	all, err := sqldb.List(ctx, tx, func(r sqldb.Row) (a netip.Addr, err error) { return a, r.Scan(sqldb.ToText(&a)) },
		`SELECT addr FROM nic WHERE network = $1 AND addr IS NOT NULL UNION ALL SELECT addr FROM secondary_address WHERE network = $1`, network)
	taken := make(map[netip.Addr]bool, len(all))
	for _, a := range all {
		taken[a] = true
	}
	return taken, err
}
