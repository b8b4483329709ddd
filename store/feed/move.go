package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"seedbed"
	"seedbed/store/instances"
	"seedbed/store/nodes"
	"seedbed/store/sqldb"
)

// An instance that is on its way to another node is served by two: by its own, and as one that arrives by the other. Its peers
// find it at its own node, until Move makes the other that.

// Arrive makes the guest plane of node serve the instance of a job as one that arrives there, with the record that the instance's own
// node serves. It returns the revision of the record on node. It may be repeated. ErrConflict if its own node does not serve it.
func (s *Store) Arrive(ctx context.Context, ref seedbed.JobRef, node string, id seedbed.InstanceID) (revision int64, err error) {
	if err := nodes.CheckName(node); err != nil {
		return 0, err
	}
	err = s.db.Update(ctx, "publish on another node", func(tx *sqldb.Tx) error {
		if err := holdFor(ctx, tx, ref, id, seedbed.JobRunning); err != nil {
			return err
		}
		inst, err := held(ctx, tx, id)
		if err != nil {
			return err
		}
		if inst.Node == node { // it has arrived
			old, err := readServed(ctx, tx, node, id)
			revision = old.revision
			return cmp.Or(err, sqldb.ErrUnchanged)
		}
		own, err := readServed(ctx, tx, inst.Node, id)
		if err == nil && own.record == "" {
			err = seedbed.Errorf(seedbed.ErrConflict, "node %s does not serve instance %q", inst.Node, inst.Name)
		}
		if err != nil {
			return err
		}
		revision, err = take(ctx, tx, node, id, own, func(g seedbed.Guest) seedbed.Guest {
			g.Arriving = true
			return g
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	s.published.Wake()
	return revision, nil
}

// Move makes node the node of the instance of a job: its guest plane serves it, and the one of the former node forgets it. home is
// the node to which it is to go back some time, or empty. render makes the record again from the instance as it is there. Move returns
// the revision of the record on node. It may be repeated.
func (s *Store) Move(ctx context.Context, ref seedbed.JobRef, node, home string, id seedbed.InstanceID,
	render func(seedbed.Instance, seedbed.Guest) seedbed.Guest,
) (revision int64, err error) {
	if err := nodes.CheckName(node); err != nil {
		return 0, err
	}
	err = s.db.Update(ctx, "move instance", func(tx *sqldb.Tx) error {
		if err := holdFor(ctx, tx, ref, id, seedbed.JobRunning, seedbed.JobUndoing); err != nil {
			return err
		}
		inst, err := held(ctx, tx, id)
		if err != nil {
			return err
		}
		if inst.Node == node {
			old, err := readServed(ctx, tx, node, id)
			revision = old.revision
			return cmp.Or(err, sqldb.ErrUnchanged)
		}
		from := inst.Node
		inst.Node, inst.Home, inst.Target, inst.Revision, inst.Changed = node, home, "", inst.Revision+1, sqldb.Now()
		err = sqldb.Exec(ctx, tx, `UPDATE instance SET node = $1, home = $2, target = '', revision = $3, changed = $4 WHERE id = $5`,
			node, home, inst.Revision, sqldb.Micros(inst.Changed), id)
		if err != nil {
			return err
		}
		for _, n := range slices.Sorted(slices.Values([]string{from, node})) { // the rows of nodes are locked in one order
			if _, err := nextRevision(ctx, tx, n); err != nil {
				return err
			}
		}
		if err := keepMaintenance(ctx, tx, from, node, id); err != nil {
			return err
		}
		own, err := readServed(ctx, tx, from, id)
		if err != nil || own.record == "" {
			return err
		}
		revision, err = take(ctx, tx, node, id, own, func(g seedbed.Guest) seedbed.Guest { return render(inst, g) })
		if err != nil {
			return err
		}
		if _, err := bury(ctx, tx, from, id, own, s.Limits.Tombstones); err != nil {
			return err
		}
		return setServed(ctx, tx, node, id)
	})
	if err != nil {
		return 0, err
	}
	s.published.Wake()
	return revision, nil
}

// held returns an instance, whose row it locks.
func held(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) (seedbed.Instance, error) {
	missing := seedbed.Errorf(seedbed.ErrNotFound, "instance %s does not exist", sqldb.Clean(string(id), 80))
	if _, err := sqldb.LockOne(ctx, tx, sqldb.Value[string], missing, `UPDATE instance SET revision = revision WHERE id = $1 RETURNING name`,
		id); err != nil {
		return seedbed.Instance{}, err
	}
	return instances.ReadOne(ctx, tx, id)
}

// take gives node the record own of another node, as change makes it, with its documents. Its revision stays if the record is the same.
func take(
	ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID, own served, change func(seedbed.Guest) seedbed.Guest,
) (int64, error) {
	var g seedbed.Guest
	if err := json.Unmarshal([]byte(own.record), &g); err != nil {
		return 0, fmt.Errorf("record of instance %s: %w", id, err)
	}
	made := change(g)
	made.UserData, made.VendorData = g.UserData, g.VendorData
	var err error
	if made.Maintenance, err = maintenanceOf(ctx, tx, "", id); err != nil {
		return 0, err
	}
	record, err := json.Marshal(made)
	if err != nil {
		return 0, err
	}
	old, err := readServed(ctx, tx, node, id)
	if err != nil || old.record == string(record) {
		return old.revision, err
	}
	revision, err := nextRevision(ctx, tx, node)
	if err != nil {
		return 0, err
	}
	err = sqldb.Exec(ctx, tx, `
		INSERT INTO feed (node, instance, revision, record, blob, vendor) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (node, instance) DO UPDATE
			SET revision = excluded.revision, record = excluded.record, blob = excluded.blob, vendor = excluded.vendor`,
		node, id, revision, string(record), sqldb.Null(own.blob), sqldb.Null(own.vendor))
	if err != nil {
		return 0, err
	}
	return revision, retireBlobs(ctx, tx, old)
}
