package instances

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// secondaryOfNIC is the secondary addresses of a NIC in a query, for parseSecondary. A row in another network than the NIC's keeps an
// address for it while a job takes it to that network, or away from there.
const secondaryOfNIC = `COALESCE((SELECT string_agg(s.addr, ' ') FROM secondary_address s
	WHERE s.instance = nic.instance AND s.nic = nic.idx AND s.network = nic.network), '')`

// secondaryJoin joins the NICs with their secondary addresses in a query.
const secondaryJoin = `secondary_address s JOIN nic ON nic.instance = s.instance AND nic.idx = s.nic
	JOIN instance ON instance.id = nic.instance`

func parseSecondary(s string) (all []netip.Addr, err error) {
	for text := range strings.FieldsSeq(s) {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all, nil
}

// Addresses returns how many addresses NICs have, or would have if they had all that they ask for.
func Addresses(nics []seedbed.NIC) (n int) {
	for _, nic := range nics {
		n += 1 + len(nic.Secondary)
	}
	return n
}

// lockReaddressed locks the networks of NICs whose secondary addresses differ from those of before, in one order.
func lockReaddressed(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, before []seedbed.NIC) error {
	var names []string
	for i, nic := range inst.NICs {
		if !slices.Equal(nic.Secondary, before[i].Secondary) {
			names = append(names, nic.Network)
		}
	}
	return sqldb.InOrder(names, func(name string) error {
		_, err := lockNetwork(ctx, tx, name)
		return err
	})
}

func dropSecondary(ctx context.Context, tx *sqldb.Tx, network string, a netip.Addr, id seedbed.InstanceID, nic int) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM secondary_address WHERE network = $1 AND addr = $2 AND instance = $3 AND nic = $4`,
		network, a.String(), id, nic)
}

// takeOver takes the addresses that the NICs of an instance take from those that have them as secondary ones, and returns the other
// instances that had any. The networks are locked. What cannot be taken is left, so that readdress refuses it.
func takeOver(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance) (others []seedbed.InstanceID, err error) {
	for _, nic := range inst.NICs {
		for _, a := range nic.Takes {
			h, err := holderOf(ctx, tx, seedbed.Network{Name: nic.Network}, a)
			switch {
			case err != nil:
				return nil, err
			case !h.secondary || h.project != inst.Project || h.id == inst.ID && h.nic == nic.Index:
				continue
			}
			if err := dropSecondary(ctx, tx, nic.Network, a, h.id, h.nic); err != nil {
				return nil, err
			}
			if h.id != inst.ID {
				others = append(others, h.id)
				continue
			}
			for i := range inst.NICs {
				if from := &inst.NICs[i]; from.Index == h.nic {
					from.Secondary = slices.DeleteFunc(slices.Clone(from.Secondary), func(o netip.Addr) bool { return o == a })
				}
			}
		}
	}
	slices.Sort(others)
	return slices.Compact(others), nil
}

// readdress writes the secondary addresses of an instance's NICs that differ from those of before. It replaces those that ask for
// a free one: the zero Addr by the lowest of the network, and AnyAddr6 by the first of those that FreeAddr6 has. It returns
// ErrInvalid if a NIC cannot have an address, ErrInUse if another NIC has it, and ErrFull if too few are free.
func readdress(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, before []seedbed.NIC) error {
	for i := range inst.NICs {
		nic, had := &inst.NICs[i], before[i].Secondary
		if slices.Equal(nic.Secondary, had) {
			continue
		}
		if len(nic.Secondary) > seedbed.MaxSecondary {
			return tooManySecondary(*nic)
		}
		network, err := lockNetwork(ctx, tx, nic.Network)
		if err != nil {
			return err
		}
		for _, a := range had {
			if !slices.Contains(nic.Secondary, a) {
				if err := dropSecondary(ctx, tx, network.Name, a, inst.ID, nic.Index); err != nil {
					return err
				}
			}
		}
		var all []netip.Addr
		asked := map[netip.Addr]int{} // how many free ones, by what asks for them
		for _, a := range nic.Secondary {
			if seedbed.AnyFree(a) {
				asked[a]++
				continue
			}
			if !slices.Contains(had, a) || slices.Contains(all, a) {
				if err := assign(ctx, tx, inst, network, *nic, a); err != nil {
					return err
				}
			}
			all = append(all, a)
		}
		for _, which := range seedbed.FreeAddrs(1, 1) {
			if asked[which] == 0 {
				continue
			}
			free, err := someFree(ctx, tx, network, *nic, which, asked[which], nil)
			if err != nil {
				return err
			}
			for _, a := range free {
				if err := insertSecondary(ctx, tx, inst, network, *nic, a); err != nil {
					return err
				}
			}
			all = append(all, free...)
		}
		nic.Secondary = all
		slices.SortFunc(nic.Secondary, netip.Addr.Compare)
	}
	return nil
}

// secondaryTable is the table of secondary addresses, for new NICs.
var secondaryTable = sqldb.Table{Rank: 3, Into: `secondary_address (network, addr, instance, nic)`}

// insertSecondaries gives a new NIC the secondary addresses that it asks for; see readdress. The network is locked.
func (s *Store) insertSecondaries(
	ctx context.Context, b *groupcommit.Batch, inst seedbed.Instance, n seedbed.Network, nic seedbed.NIC,
) error {
	switch {
	case len(nic.Secondary) == 0:
		return nil
	case len(nic.Secondary) > seedbed.MaxSecondary:
		return tooManySecondary(nic)
	}
	for _, a := range nic.Secondary {
		err := addressed(n, nic, a)
		switch {
		case err != nil:
		case a == seedbed.AnyAddr6:
			a, err = freeAddr6(ctx, b, n, nic)
		case seedbed.AnyFree(a):
			a, err = s.freeAddr(ctx, b, n)
		default:
			err = assignable(ctx, b.Tx, inst, n, nic, a)
		}
		if err != nil {
			return err
		}
		b.Add(secondaryTable, n.Name, a.String(), string(inst.ID), int64(nic.Index))
	}
	return nil
}

func tooManySecondary(nic seedbed.NIC) error {
	return seedbed.Errorf(seedbed.ErrInvalid, "NIC %d would have %d secondary addresses: expected at most %d",
		nic.Index, len(nic.Secondary), seedbed.MaxSecondary)
}

// someFree returns free addresses of a network that are not in given, as many as a NIC asks for with which.
func someFree(
	ctx context.Context, tx *sqldb.Tx, n seedbed.Network, nic seedbed.NIC, which netip.Addr, count int, given map[netip.Addr]bool,
) (free []netip.Addr, err error) {
	if err := addressed(n, nic, which); err != nil {
		return nil, err
	}
	if which == seedbed.AnyAddr6 {
		return lowestAddrs6(ctx, tx, n, nic, count, given)
	}
	free, err = lowestAddrs(ctx, tx, n, count+len(given))
	free = slices.DeleteFunc(free, func(a netip.Addr) bool { return given[a] })
	free = free[:min(count, len(free))]
	if err == nil && len(free) < count {
		err = seedbed.Errorf(seedbed.ErrFull, "network %q has %d free addresses, and NIC %d asks for %d", n.Name, len(free), nic.Index, count)
	}
	return free, err
}

// lowestAddrs6 returns the first IPv6 addresses that a NIC may get in a locked network, and that neither are another's nor in given.
func lowestAddrs6(
	ctx context.Context, tx *sqldb.Tx, n seedbed.Network, nic seedbed.NIC, count int, given map[netip.Addr]bool,
) (found []netip.Addr, err error) {
	for i := 1; len(found) < count; {
		var all []netip.Addr
		for ; len(all) < candidates; i++ {
			a := n.FreeAddr6(nic.MAC, i)
			if !a.IsValid() {
				break
			}
			if !given[a] && !n.Reserves(a) && n.Adds(nic.MAC, a) == nil {
				all = append(all, a)
			}
		}
		if len(all) == 0 {
			return nil, seedbed.Errorf(seedbed.ErrFull, "network %q has no free IPv6 address left for NIC %d: name the address", n.Name, nic.Index)
		}
		free, err := untaken(ctx, tx, n, all)
		if err != nil {
			return nil, err
		}
		found = append(found, free...)
	}
	return found[:count], nil
}

// freeAddr6 is lowestAddrs6 for one address of a new NIC.
func freeAddr6(ctx context.Context, b *groupcommit.Batch, n seedbed.Network, nic seedbed.NIC) (netip.Addr, error) {
	known := groupcommit.Of[batchNetworks](b)
	free, err := lowestAddrs6(ctx, b.Tx, n, nic, 1, known.given[n.Name])
	if err != nil {
		return netip.Addr{}, err
	}
	known.give(n.Name, free[0])
	return free[0], nil
}

// addressed returns ErrInvalid if a network has no addresses of the kind of a, which a NIC asks for.
func addressed(n seedbed.Network, nic seedbed.NIC, a netip.Addr) error {
	switch {
	case a.Is6() && !n.Prefix6.IsValid():
		return seedbed.Errorf(seedbed.ErrInvalid, "NIC %d is in network %q, which has no IPv6 prefix: expected one of a network with one",
			nic.Index, n.Name)
	case !a.Is6() && !n.Prefix.IsValid():
		return seedbed.Errorf(seedbed.ErrInvalid,
			"NIC %d is in network %q, %s: expected one of a network with an IPv4 prefix", nic.Index, n.Name, n.Without4())
	}
	return nil
}

// assign gives a NIC of an instance a secondary address. The network is locked.
func assign(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, n seedbed.Network, nic seedbed.NIC, a netip.Addr) error {
	if err := addressed(n, nic, a); err != nil {
		return err
	}
	if err := assignable(ctx, tx, inst, n, nic, a); err != nil {
		return err
	}
	return insertSecondary(ctx, tx, inst, n, nic, a)
}

// assignable returns ErrInvalid if a NIC of an instance cannot have a secondary address, and ErrInUse if another has it. The network is
// locked.
func assignable(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, n seedbed.Network, nic seedbed.NIC, a netip.Addr) error {
	h, err := holderOf(ctx, tx, n, a)
	switch {
	case err != nil:
		return err
	case h.name != "" && h.project != inst.Project:
		return seedbed.Errorf(seedbed.ErrInUse, "address %s is taken in network %q", a, n.Name)
	case h.name != "":
		return seedbed.Errorf(seedbed.ErrInUse, "address %s of network %q belongs to NIC %d of instance %s", a, n.Name, h.nic, h.name)
	}
	return n.Adds(nic.MAC, a)
}

func insertSecondary(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, n seedbed.Network, nic seedbed.NIC, a netip.Addr) error {
	return sqldb.Exec(ctx, tx, `INSERT INTO secondary_address (network, addr, instance, nic) VALUES ($1, $2, $3, $4)`,
		n.Name, a.String(), inst.ID, nic.Index)
}

// holder is the NIC that has an address.
type holder struct {
	project, name string // of the instance, and its full name
	id            seedbed.InstanceID
	nic           int
	mac           seedbed.MAC
	secondary     bool // the address is not its first, nor kept for it
}

// holderOf returns the NIC that has an address of a network, as its first or a secondary one. Its name is empty if none has.
func holderOf(ctx context.Context, tx *sqldb.Tx, n seedbed.Network, a netip.Addr) (holder, error) {
	first, key := `nic.addr`, a.String()
	if mac, ok := n.FirstOf(a); ok {
		first, key = `nic.mac`, mac.String()
	}
	return sqldb.One(ctx, tx, func(r sqldb.Row) (h holder, err error) {
		err = r.Scan(&h.project, &h.name, &h.id, &h.nic, sqldb.ToText(&h.mac), &h.secondary)
		return h, err
	}, nil, `SELECT instance.project, `+FullName+`, instance.id, nic.idx, nic.mac, 0 FROM nic JOIN instance ON instance.id = nic.instance
		WHERE nic.network = $1 AND `+first+` = $2
		UNION ALL SELECT instance.project, `+FullName+`, instance.id, nic.idx, nic.mac,
			CASE WHEN nic.network = s.network THEN 1 ELSE 0 END FROM `+secondaryJoin+`
		WHERE s.network = $1 AND s.addr = $3`, n.Name, key, a.String())
}

// held6 returns ErrInUse if NICs have secondary addresses of an IPv6 prefix that a network had, and does not have any more.
func held6(ctx context.Context, tx *sqldb.Tx, n seedbed.Network, was netip.Prefix) error {
	var users catalogue.Uses
	err := users.Read(ctx, tx, []catalogue.UserKind{{What: "instance", Query: `SELECT DISTINCT instance.project, ` + FullName + ` AS full_name
		FROM ` + secondaryJoin + ` WHERE s.network = $1 AND s.addr LIKE '%:%' ORDER BY full_name`}}, n.Name)
	if by := users.String(); err == nil && by != "" {
		err = seedbed.Errorf(seedbed.ErrInUse, "NICs have secondary addresses of %s in network %q, which keeps the prefix and the range "+
			"with them: unassign those of %s first", was, n.Name, by)
	}
	return err
}

// notSecondary returns ErrExists if an address of a locked network is a NIC's secondary one. The unique key of first addresses
// does not refuse it.
func notSecondary(ctx context.Context, tx *sqldb.Tx, network string, a netip.Addr) error {
	taken, err := sqldb.One(ctx, tx, sqldb.Value[int], nil,
		`SELECT 1 FROM secondary_address WHERE network = $1 AND addr = $2`, network, a.String())
	if err == nil && taken == 1 {
		err = seedbed.Errorf(seedbed.ErrExists, "address %s is taken in network %q: it is a secondary address of another NIC", a, network)
	}
	return err
}

// rerate writes the rates of an instance's NICs that differ from those of before. It returns ErrInvalid for one that no NIC can
// be kept to.
func rerate(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, before []seedbed.NIC) error {
	for i, n := range inst.NICs {
		if n.BandwidthIn == before[i].BandwidthIn && n.BandwidthOut == before[i].BandwidthOut {
			continue
		}
		if err := seedbed.CheckBandwidth(n.BandwidthIn, n.BandwidthOut); err != nil {
			return err
		}
		if err := kept(ctx, tx, n); err != nil {
			return err
		}
		err := sqldb.Exec(ctx, tx, `UPDATE nic SET bandwidth_in = $1, bandwidth_out = $2 WHERE instance = $3 AND idx = $4`,
			n.BandwidthIn, n.BandwidthOut, inst.ID, n.Index)
		if err != nil {
			return err
		}
	}
	return nil
}

// kept returns ErrInvalid if the network of a NIC does not keep it to what it has.
func kept(ctx context.Context, tx *sqldb.Tx, nic seedbed.NIC) error {
	n, err := sqldb.One(ctx, tx, scanNetwork, seedbed.Errorf(seedbed.ErrNotFound, "network %q does not exist", nic.Network),
		`SELECT `+networkColumns+` FROM network WHERE name = $1`, nic.Network)
	if err != nil {
		return err
	}
	return n.Keeps(nic)
}
