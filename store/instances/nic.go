package instances

import (
	"cmp"
	"context"
	"errors"
	"net/netip"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// AddNIC gives an instance a further NIC, like those of a new instance. Its networks and security groups are locked.
func (s *Store) AddNIC(ctx context.Context, b *groupcommit.Batch, job seedbed.JobID, i seedbed.Instance, n seedbed.NIC) error {
	if err := ask(b, []seedbed.NIC{n}); err != nil {
		return err
	}
	if err := s.insertNIC(ctx, b, job, i, n); err != nil {
		return err
	}
	return nicsChanged(ctx, b.Tx, i.ID)
}

// nicsChanged records that the NICs of an instance have changed.
func nicsChanged(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	return sqldb.Exec(ctx, tx, `UPDATE instance SET revision = revision + 1, changed = $1 WHERE id = $2`, sqldb.Micros(sqldb.Now()), id)
}

// NICOf returns the instance and the NIC of a job, whose row it locks. It returns missing if there is no such instance or NIC.
func NICOf(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, spec seedbed.NICJob, missing error) (
	i seedbed.Instance, n seedbed.NIC, err error,
) {
	touched, err := sqldb.Affect(ctx, tx, `UPDATE instance SET revision = revision WHERE id = $1`, id)
	if err == nil && touched == 0 {
		err = missing
	}
	if err != nil {
		return i, n, err
	}
	if i, err = ReadOne(ctx, tx, id); err != nil {
		return i, n, err
	}
	n, ok := spec.NICOf(i)
	if !ok {
		return i, n, missing
	}
	return i, n, nil
}

// SetNICState records how far a job has got with a NIC.
func SetNICState(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, n seedbed.NIC, to seedbed.NICState) error {
	err := sqldb.Exec(ctx, tx, `UPDATE nic SET state = $1 WHERE instance = $2 AND idx = $3`, string(to), id, n.Index)
	if err != nil {
		return err
	}
	return nicsChanged(ctx, tx, id)
}

// DeleteNIC deletes a NIC of an instance with its addresses and forwards. Its floating address stays allocated.
func (s *Store) DeleteNIC(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, n seedbed.NIC) error {
	s.next.forget()
	if err := sqldb.Exec(ctx, tx, `DELETE FROM nic WHERE instance = $1 AND idx = $2`, id, n.Index); err != nil {
		return err
	}
	return nicsChanged(ctx, tx, id)
}

// KeepNIC keeps an address of another network for a NIC, which a job takes there: the one that it asks for, or a free one. It returns
// the zero Addr for a network without an IPv4 prefix. The network is locked. What an earlier job kept is released.
func (s *Store) KeepNIC(
	ctx context.Context, b *groupcommit.Batch, i seedbed.Instance, n seedbed.NIC, to seedbed.Network, want netip.Addr,
) (a netip.Addr, err error) {
	if err := s.ReleaseKept(ctx, b.Tx, i.ID, n.Index); err != nil {
		return a, err
	}
	a, err = to.Asks(n.MAC, want)
	if err = cmp.Or(err, to.Admits(n.MAC)); err != nil || !to.Prefix.IsValid() {
		return a, err
	}
	n.Network = to.Name
	if a.IsValid() {
		if err = assignable(ctx, b.Tx, i, to, n, a); errors.Is(err, seedbed.ErrInUse) { // it is to be its first one
			err = seedbed.Errorf(seedbed.ErrExists, "%s", err)
		}
	} else {
		a, err = s.freeAddr(ctx, b, to)
	}
	if err != nil {
		return a, err
	}
	return a, insertSecondary(ctx, b.Tx, i, to, n, a)
}

// ReleaseKept releases the addresses of other networks that are kept for a NIC.
func (s *Store) ReleaseKept(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, index int) error {
	n, err := sqldb.Affect(ctx, tx, `DELETE FROM secondary_address WHERE instance = $1 AND nic = $2
		AND network <> (SELECT network FROM nic WHERE nic.instance = $1 AND nic.idx = $2)`, id, index)
	if n > 0 {
		s.next.forget()
	}
	return err
}

// MoveNIC takes a NIC to the network, the address and the security groups of moved, and keeps the address that it had. The networks are
// locked. It returns ErrConflict if the new address is not kept.
func MoveNIC(ctx context.Context, tx *sqldb.Tx, i seedbed.Instance, n, moved seedbed.NIC) error {
	if a := moved.Addr; a.IsValid() {
		kept, err := sqldb.Affect(ctx, tx, `DELETE FROM secondary_address WHERE network = $1 AND addr = $2 AND instance = $3 AND nic = $4`,
			moved.Network, a.String(), i.ID, n.Index)
		if err == nil && kept == 0 {
			err = seedbed.Errorf(seedbed.ErrConflict, "address %s of network %q is no longer kept for NIC %d of instance %q", a, moved.Network,
				n.Index, i.Name)
		}
		if err != nil {
			return err
		}
	}
	err := sqldb.Exec(ctx, tx, `UPDATE nic SET network = $1, addr = $2, security_groups = $3 WHERE instance = $4 AND idx = $5`,
		moved.Network, sqldb.Null(sqldb.Text(moved.Addr)), sqldb.AsJSON(sqldb.OrEmpty(moved.Groups)), i.ID, n.Index)
	if err != nil {
		return err
	}
	if n.Addr.IsValid() {
		if err := insertSecondary(ctx, tx, i, seedbed.Network{Name: n.Network}, n, n.Addr); err != nil {
			return err
		}
	}
	return nicsChanged(ctx, tx, i.ID)
}

// NetworkNamed returns a network of a batch, which it locks.
func NetworkNamed(ctx context.Context, b *groupcommit.Batch, name string) (seedbed.Network, error) {
	return batchNetwork(ctx, b, name)
}

// ReadNetwork returns a network, and locks nothing. It returns ErrNotFound if there is none.
func ReadNetwork(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Network, error) {
	return sqldb.One(ctx, tx, scanNetwork, seedbed.Errorf(seedbed.ErrNotFound, "network %q does not exist", sqldb.Clean(name, 80)),
		`SELECT `+networkColumns+` FROM network WHERE name = $1`, name)
}

// JoinedAt returns the security groups of a NIC that goes from one network to another. Where nothing keeps it to groups it has none, and
// where it comes from such a network it is in those of a new NIC. The groups of new NICs are locked.
func JoinedAt(b *groupcommit.Batch, project string, n seedbed.NIC, from, to seedbed.Network) []string {
	switch {
	case from.Kind.Served() == to.Kind.Served():
		return n.Groups
	case !to.Kind.Served():
		return nil
	}
	n.Groups = nil
	all, _ := joined(b, project, n) // it asks for none, so none can be wrong
	return all
}

// CheckJoined returns ErrInvalid unless the security groups are there that a NIC of a project comes to be in. They are locked.
func CheckJoined(b *groupcommit.Batch, project string, n seedbed.NIC) error {
	_, err := joined(b, project, n)
	return err
}
