package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"seedbed"
	"seedbed/store/instances"
	"seedbed/store/sqldb"
)

// ChangeInstance changes what may change of an instance without a job: its metadata options, tags, spot notice and, of its
// NICs, the secondary addresses, rates, security groups, forwards and floating address. change sets these; a secondary address that is
// the zero Addr becomes a free one, and one that a NIC takes is taken from the NIC of another instance, whose record is rendered as
// well. In the same transaction, on every node that serves the instance, render makes its new
// record from the instance and the current record. A job that is about to publish the instance reads it again after its own
// record, so that no change is lost in either order. Both functions may be called more than once and must not block.
// ChangeInstance returns ErrNotFound, ErrInvalid, ErrConflict for a forward whose port another has, ErrInUse for an address that
// another NIC has, ErrFull if no address is free, ErrForbidden for more addresses than a quota allows, or the error of change.
func (s *Store) ChangeInstance(
	ctx context.Context, n seedbed.InstanceName, change func(*seedbed.Instance) error,
	render func(seedbed.Instance, seedbed.Guest) seedbed.Guest,
) (inst seedbed.Instance, err error) {
	missing := seedbed.Errorf(seedbed.ErrNotFound, "instance %q does not exist", sqldb.Clean(n.Name, 80))
	err = s.db.Update(ctx, "change instance", func(tx *sqldb.Tx) error {
		id, err := sqldb.One(ctx, tx, sqldb.Value[seedbed.InstanceID], missing,
			`UPDATE instance SET revision = revision WHERE project = $1 AND name = $2 RETURNING id`, n.Project, n.Name)
		if err != nil {
			return err
		}
		if inst, err = instances.ReadOne(ctx, tx, id); err != nil {
			return err
		}
		nics := slices.Clone(inst.NICs)
		if err := change(&inst); err != nil {
			return err
		}
		others, err := instances.ChangeNICs(ctx, tx, inst, nics, func() error {
			has, wants := instances.Addresses(nics), instances.Addresses(inst.NICs)
			if has == wants {
				return nil
			}
			return s.readdressed(ctx, tx, inst, has, wants)
		})
		if err != nil {
			return sqldb.Within(fmt.Sprintf("instance %q", inst.Name), err)
		}
		if err := instances.CheckServed(inst); err != nil {
			return sqldb.Within(fmt.Sprintf("instance %q", inst.Name), err)
		}
		inst.Tags = sqldb.OrEmptyMap(inst.Tags)
		inst.Revision, inst.Changed = inst.Revision+1, sqldb.Now()
		expires, atExpiry := instances.ExpiryValues(inst.Expiry)
		err = sqldb.Exec(ctx, tx,
			`UPDATE instance SET metadata = $1, tags = $2, spot = $3, revision = $4, changed = $5, protected = $7, follow = $8,
				expires = $9, at_expiry = $10, notes = $11, system = $12 WHERE id = $6`,
			sqldb.AsJSON(inst.Metadata), sqldb.AsJSON(inst.Tags), sqldb.AsJSON(inst.Spot), inst.Revision,
			sqldb.Micros(inst.Changed), id, sqldb.Flag(inst.Protected), inst.Follow, expires, atExpiry, inst.Notes, sqldb.AsJSON(inst.System))
		if err != nil {
			return err
		}
		for _, other := range others { // first, so that a node learns that they lost their addresses before one has them
			if err := rerender(ctx, tx, other, render); err != nil {
				return err
			}
		}
		for i := range inst.NICs {
			inst.NICs[i].Takes = nil
		}
		return rewriteAll(ctx, tx, id, func(old seedbed.Guest) seedbed.Guest { return render(inst, old) })
	})
	return inst, err
}

// rerender renders the records of an instance whose NICs another one's change has changed.
func rerender(
	ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, render func(seedbed.Instance, seedbed.Guest) seedbed.Guest,
) error {
	err := sqldb.Exec(ctx, tx, `UPDATE instance SET revision = revision + 1, changed = $1 WHERE id = $2`, sqldb.Micros(sqldb.Now()), id)
	if err != nil {
		return err
	}
	inst, err := instances.ReadOne(ctx, tx, id)
	if err != nil {
		return err
	}
	return rewriteAll(ctx, tx, id, func(old seedbed.Guest) seedbed.Guest { return render(inst, old) })
}

// Refresh renders the instance's record on node again, like ChangeInstance, and returns the
// record's revision, or 0 if node does not serve the instance.
func (s *Store) Refresh(
	ctx context.Context, node string, id seedbed.InstanceID, render func(seedbed.Instance, seedbed.Guest) seedbed.Guest,
) (revision int64, err error) {
	err = s.db.Update(ctx, "refresh record", func(tx *sqldb.Tx) error {
		revision = 0
		n, err := sqldb.Affect(ctx, tx, `UPDATE instance SET revision = revision WHERE id = $1`, id)
		if err != nil || n == 0 {
			return sqldb.OrUnchanged(err)
		}
		inst, err := instances.ReadOne(ctx, tx, id)
		if err != nil {
			return err
		}
		changed := false
		revision, changed, err = rewrite(ctx, tx, node, id, func(old seedbed.Guest) seedbed.Guest { return render(inst, old) })
		switch {
		case err != nil:
			return err
		case !changed:
			return sqldb.ErrUnchanged
		}
		return changePeer(ctx, tx, id)
	})
	if err != nil {
		return 0, err
	}
	s.published.Wake()
	return revision, nil
}

// Served returns the instances that each node serves, by node.
func (s *Store) Served(ctx context.Context) (served map[string][]seedbed.InstanceID, err error) {
	err = s.db.View(ctx, "list records", func(tx *sqldb.Tx) error {
		served = map[string][]seedbed.InstanceID{}
		_, err := sqldb.List(ctx, tx, func(r sqldb.Row) (node string, err error) {
			var id seedbed.InstanceID
			if err = r.Scan(&node, &id); err == nil {
				served[node] = append(served[node], id)
			}
			return node, err
		}, `SELECT node, instance FROM feed WHERE record IS NOT NULL ORDER BY node, instance`)
		return err
	})
	return served, err
}

// rewriteAll calls rewrite for every node that serves the instance.
func rewriteAll(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, render func(seedbed.Guest) seedbed.Guest) error {
	nodes, err := sqldb.List(ctx, tx, sqldb.Value[string],
		`SELECT node FROM feed WHERE instance = $1 AND record IS NOT NULL ORDER BY node`, id)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if _, _, err := rewrite(ctx, tx, node, id, render); err != nil {
			return err
		}
	}
	return changePeer(ctx, tx, id)
}

// rewrite replaces the served record with the result of render. The documents and maintenance
// events are not taken from render. If there is no record, rewrite does nothing.
func rewrite(
	ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID, render func(seedbed.Guest) seedbed.Guest,
) (revision int64, changed bool, err error) {
	// Lock the node's row first, like Publish and Retract do.
	if err := sqldb.Exec(ctx, tx, `UPDATE feed_node SET revision = revision WHERE node = $1`, node); err != nil {
		return 0, false, err
	}
	s, err := readServed(ctx, tx, node, id)
	if err != nil || s.record == "" {
		return 0, false, err
	}
	var old seedbed.Guest
	if err := json.Unmarshal([]byte(s.record), &old); err != nil {
		return 0, false, fmt.Errorf("record of instance %s: %w", id, err)
	}
	g := render(old)
	g.UserData, g.VendorData = old.UserData, old.VendorData
	if g.Maintenance, err = maintenanceOf(ctx, tx, "", id); err != nil {
		return 0, false, err
	}
	record, err := json.Marshal(g)
	if err != nil {
		return 0, false, err
	}
	if string(record) == s.record {
		return s.revision, false, nil
	}
	if revision, err = nextRevision(ctx, tx, node); err != nil {
		return 0, false, err
	}
	return revision, true, sqldb.Exec(ctx, tx, `UPDATE feed SET revision = $1, record = $2 WHERE node = $3 AND instance = $4`,
		revision, string(record), node, id)
}

// setPassword stores the password that a guest posted, encrypted with the guest's own key. Only the
// first one is stored (OpenStack answers 409 to a second).
func setPassword(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, password string) error {
	if password = sqldb.Clean(password, maxFields); password == "" {
		return nil
	}
	n, err := sqldb.Affect(ctx, tx, `UPDATE instance SET password = $1, revision = revision + 1, changed = $2 WHERE id = $3 AND password = ''`,
		password, sqldb.Micros(sqldb.Now()), id)
	if err != nil || n == 0 {
		return err
	}
	return rewriteAll(ctx, tx, id, func(g seedbed.Guest) seedbed.Guest {
		g.Password = password
		return g
	})
}

// TouchNodes gives every node of the feed a new revision, so that each reads again what all nodes
// share: the networks and the site.
func TouchNodes(ctx context.Context, tx *sqldb.Tx) error {
	nodes, err := sqldb.List(ctx, tx, sqldb.Value[string], `SELECT node FROM feed_node ORDER BY node`)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if _, err := nextRevision(ctx, tx, node); err != nil {
			return err
		}
	}
	return nil
}
