package instances

import (
	"context"
	"net/netip"
	"strings"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/sqldb"
)

// floatingColumns are those of an address and of the NIC that has it.
const floatingColumns = `f.addr, f.network, f.project, f.description, f.created,
	COALESCE((SELECT ` + FullName + ` FROM instance WHERE instance.id = nic.instance), ''), COALESCE(nic.idx, 0)
	FROM floating_address f LEFT JOIN nic ON nic.id = COALESCE((SELECT id FROM nic WHERE floating = f.addr),
		(SELECT id FROM nic WHERE floating6 = f.addr))`

func scanFloating(r sqldb.Row) (a seedbed.FloatingAddress, err error) {
	err = r.Scan(sqldb.ToText(&a.Addr), &a.Network, &a.Project, &a.Description, sqldb.ToTime(&a.Created), &a.Instance, &a.NIC)
	return a, err
}

func noFloating(kind error, a netip.Addr) error {
	return seedbed.Errorf(kind, "floating address %s is not allocated", a)
}

// AllocateFloating allocates an address that a network lends to a project, and returns it: the one that is asked for, the lowest
// IPv6 address that is free if AnyAddr6 is, or else the lowest IPv4 address, if the network lends any of these. It returns
// ErrInvalid if the network does not lend it, ErrExists if it is taken, ErrFull if none is free, and ErrForbidden if the project has
// too many.
func (s *Store) AllocateFloating(ctx context.Context, a seedbed.FloatingAddress) (made seedbed.FloatingAddress, err error) {
	err = s.db.Update(ctx, "allocate floating address", func(tx *sqldb.Tx) error {
		if err := a.Check(); err != nil {
			return err
		}
		made = a
		made.Instance, made.NIC, made.Created = "", 0, sqldb.Now()
		project, err := access.HoldProject(ctx, tx, a.Project)
		if err != nil {
			return err
		}
		n, err := lockNetwork(ctx, tx, a.Network)
		if err != nil {
			return err
		}
		if made.Addr, err = pickFloating(ctx, tx, n, a.Addr); err != nil {
			return err
		}
		added, err := sqldb.Affect(ctx, tx, `INSERT INTO floating_address (addr, network, project, description, created)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
			made.Addr.String(), n.Name, made.Project, made.Description, sqldb.Micros(made.Created))
		if err == nil && added == 0 {
			err = seedbed.Errorf(seedbed.ErrExists, "floating address %s is allocated already", made.Addr)
		}
		if err != nil {
			return err
		}
		return access.FloatingAddresses().Hold(ctx, tx, project)
	})
	return made, err
}

// pickFloating returns the address that is asked for, or the lowest free one. That is never the first of an IPv6 subnet, which is that
// of all routers there (RFC 4291 2.6.1).
func pickFloating(ctx context.Context, tx *sqldb.Tx, n seedbed.Network, want netip.Addr) (netip.Addr, error) {
	switch {
	case len(n.Floating) == 0:
		return want, seedbed.Errorf(seedbed.ErrInvalid, "network %q lends no floating addresses", n.Name)
	case !seedbed.AnyFree(want) && !n.Lends(want):
		return want, seedbed.Errorf(seedbed.ErrInvalid, "network %q does not lend the address %s: expected one of %s", n.Name, want, ranges(n))
	case !seedbed.AnyFree(want):
		return want, nil
	}
	six := want.IsValid() || n.LendsOnly6()
	all, err := lentBy(ctx, tx, n.Name)
	if err != nil {
		return want, err
	}
	taken := map[netip.Addr]bool{}
	for _, a := range all {
		taken[a] = true
	}
	version := "IPv4"
	if six {
		version = "IPv6"
	}
	var lends []string
	for _, r := range n.Floating {
		if r.First.Is6() != six {
			continue
		}
		lends = append(lends, r.String())
		for a := r.First; r.Contains(a); a = a.Next() {
			if id := a.As16(); !taken[a] && !(six && [8]byte(id[8:]) == [8]byte{}) {
				return a, nil
			}
		}
	}
	if len(lends) == 0 {
		return want, seedbed.Errorf(seedbed.ErrInvalid, "network %q lends no floating addresses of %s: expected one of %s",
			n.Name, version, ranges(n))
	}
	return want, seedbed.Errorf(seedbed.ErrFull, "network %q has no free floating address of %s: all of %s are allocated",
		n.Name, version, strings.Join(lends, ", "))
}

// ranges returns the addresses that a network lends, for messages.
func ranges(n seedbed.Network) string {
	var all []string
	for _, r := range n.Floating {
		all = append(all, r.String())
	}
	return strings.Join(all, ", ")
}

// lentBy returns the addresses of a network that projects have.
func lentBy(ctx context.Context, tx *sqldb.Tx, network string) ([]netip.Addr, error) {
	return sqldb.List(ctx, tx, func(r sqldb.Row) (a netip.Addr, err error) {
		return a, r.Scan(sqldb.ToText(&a))
	}, `SELECT addr FROM floating_address WHERE network = $1`, network)
}

// lent returns ErrInUse if projects have addresses that a network is to lend no longer.
func lent(ctx context.Context, tx *sqldb.Tx, n seedbed.Network) error {
	all, err := lentBy(ctx, tx, n.Name)
	for _, a := range all {
		if !n.Lends(a) {
			return seedbed.Errorf(seedbed.ErrInUse, "floating address %s of network %q is allocated: release it first", a, n.Name)
		}
	}
	return err
}

// FloatingAddresses returns the floating addresses of a scope, in their order as text.
func (s *Store) FloatingAddresses(ctx context.Context, in seedbed.Scope) (all []seedbed.FloatingAddress, err error) {
	w := sqldb.InScope(in)
	err = s.db.View(ctx, "list floating addresses", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanFloating, `SELECT `+floatingColumns+` WHERE `+w.String()+` ORDER BY f.addr`, w.Args...)
		return err
	})
	return all, err
}

// FloatingAddress returns a floating address that is allocated, or ErrNotFound.
func (s *Store) FloatingAddress(ctx context.Context, addr netip.Addr) (a seedbed.FloatingAddress, err error) {
	err = s.db.View(ctx, "read floating address", func(tx *sqldb.Tx) error {
		a, err = readFloating(ctx, tx, addr)
		return err
	})
	return a, err
}

func readFloating(ctx context.Context, tx *sqldb.Tx, addr netip.Addr) (seedbed.FloatingAddress, error) {
	return sqldb.One(ctx, tx, scanFloating, noFloating(seedbed.ErrNotFound, addr),
		`SELECT `+floatingColumns+` WHERE f.addr = $1`, addr.String())
}

// ReleaseFloating gives a floating address back that no NIC has. It returns ErrNotFound, ErrInUse with the instance that has
// it, or the error of a check that the address does not pass.
func (s *Store) ReleaseFloating(ctx context.Context, addr netip.Addr, checks ...func(seedbed.FloatingAddress) error) error {
	return s.db.Update(ctx, "release floating address", func(tx *sqldb.Tx) error {
		if _, err := lockFloating(ctx, tx, addr, seedbed.ErrNotFound); err != nil {
			return err
		}
		a, err := readFloating(ctx, tx, addr)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(a, checks); err != nil {
			return err
		}
		if a.Instance != "" {
			return seedbed.Errorf(seedbed.ErrInUse, "floating address %s belongs to NIC %d of instance %s: disassociate it first",
				addr, a.NIC, a.Instance)
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM floating_address WHERE addr = $1`, addr.String())
	})
}

// lockFloating returns the network and the project of an address, and locks it.
func lockFloating(ctx context.Context, tx *sqldb.Tx, addr netip.Addr, missing error) (of [2]string, err error) {
	return sqldb.LockOne(ctx, tx, func(r sqldb.Row) (of [2]string, err error) {
		return of, r.Scan(&of[0], &of[1])
	}, noFloating(missing, addr), `UPDATE floating_address SET network = network WHERE addr = $1 RETURNING network, project`, addr.String())
}

// refloat writes the floating addresses of an instance's NICs which differ from those of before. It returns ErrInvalid if a
// NIC cannot have one, and ErrInUse if it has another or another NIC has it.
func refloat(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, before []seedbed.NIC) error {
	for i, n := range inst.NICs {
		was := before[i]
		if n.Floating.IsValid() && !n.Floating.Is4() || n.Floating6.IsValid() && !n.Floating6.Is6() {
			return seedbed.Errorf(seedbed.ErrInvalid, "floating addresses %s and %s of NIC %d of instance %s: "+
				"expected an IPv4 address as floating, and an IPv6 address as floating6", n.Floating, n.Floating6, n.Index, inst.Name)
		}
		for _, change := range [][2]netip.Addr{{was.Floating, n.Floating}, {was.Floating6, n.Floating6}} {
			if err := refloated(ctx, tx, inst, n, change[0], change[1]); err != nil {
				return err
			}
		}
		if n.Floating == was.Floating && n.Floating6 == was.Floating6 {
			continue
		}
		err := sqldb.Exec(ctx, tx, `UPDATE nic SET floating = $1, floating6 = $2 WHERE instance = $3 AND idx = $4`,
			sqldb.Null(sqldb.Text(n.Floating)), sqldb.Null(sqldb.Text(n.Floating6)), inst.ID, n.Index)
		if err != nil {
			return err
		}
	}
	return nil
}

// refloated returns an error unless a NIC may have a floating address instead of the one that it had of the same version of IP.
func refloated(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, n seedbed.NIC, was, now netip.Addr) error {
	switch {
	case was == now || !now.IsValid():
		return nil
	case was.IsValid():
		return seedbed.Errorf(seedbed.ErrInUse, "NIC %d of instance %s has floating address %s: disassociate that first", n.Index, inst.Name, was)
	}
	return mayFloat(ctx, tx, inst, n, now)
}

// mayFloat returns ErrInvalid or ErrInUse unless a NIC can have a floating address.
func mayFloat(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, n seedbed.NIC, addr netip.Addr) error {
	of, err := lockFloating(ctx, tx, addr, seedbed.ErrInvalid)
	switch {
	case err != nil:
		return err
	case of[1] != inst.Project:
		return noFloating(seedbed.ErrInvalid, addr)
	case of[0] != n.Network:
		return seedbed.Errorf(seedbed.ErrInvalid,
			"floating address %s is lent by network %q, and NIC %d is in network %q: expected a NIC in that one",
			addr, of[0], n.Index, n.Network)
	}
	column := "nic.floating"
	if addr.Is6() {
		column = "nic.floating6"
	}
	has, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT `+FullName+` FROM nic JOIN instance ON instance.id = nic.instance
		WHERE `+column+` = $1`, addr.String())
	if err == nil && has != "" {
		err = seedbed.Errorf(seedbed.ErrInUse, "floating address %s belongs to instance %s: disassociate it first", addr, has)
	}
	return err
}
