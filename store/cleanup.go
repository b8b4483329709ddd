package store

import (
	"context"
	"time"

	"seedbed"
	"seedbed/store/backups"
	"seedbed/store/feed"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// cronMemory is how long the slots of a task are kept, so that a clock that jumps back repeats none
// of them.
const cronMemory = 31 * 24 * time.Hour

// CronSlot takes one slot of a task. It returns true only for the first call with that slot.
func (db *DB) CronSlot(ctx context.Context, task string, slot time.Time) (first bool, err error) {
	err = db.sql.Update(ctx, "take cron slot", func(tx *sqldb.Tx) error {
		n, err := sqldb.Affect(ctx, tx, `INSERT INTO cron_run (task, slot) VALUES ($1, $2) ON CONFLICT (task, slot) DO NOTHING`,
			sqldb.Clean(task, 80), slot.UnixMicro())
		if err != nil {
			return err
		}
		if first = n == 1; !first {
			return sqldb.ErrUnchanged
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM cron_run WHERE task = $1 AND slot < $2`, sqldb.Clean(task, 80), slot.Add(-cronMemory).UnixMicro())
	})
	return first && err == nil, err
}

// NotePresence records which instances the hypervisor of node has, from a complete inventory taken
// at that time. It sets GoneSince of the node's running or stopped instances that are missing,
// unless it is set, and clears it for those that are present.
func (db *DB) NotePresence(ctx context.Context, node string, present []seedbed.InstanceID, at time.Time) error {
	there := make(map[seedbed.InstanceID]bool, len(present))
	for _, id := range present {
		there[id] = true
	}
	at = sqldb.OrNow(at)
	return db.sql.Update(ctx, "note presence", func(tx *sqldb.Tx) error {
		type known struct {
			id   seedbed.InstanceID
			gone time.Time
		}
		all, err := sqldb.List(ctx, tx, func(r sqldb.Row) (k known, err error) {
			err = r.Scan(&k.id, sqldb.ToTime(&k.gone))
			return k, err
		}, `SELECT id, gone_since FROM instance WHERE node = $1 AND `+settled+` ORDER BY id`, node)
		if err != nil {
			return err
		}
		changed := false
		for _, k := range all {
			gone := at
			if there[k.id] {
				gone = time.Time{}
			}
			if gone.IsZero() == k.gone.IsZero() {
				continue
			}
			n, err := sqldb.Affect(ctx, tx, `UPDATE instance SET gone_since = $1, revision = revision + 1, changed = $2 WHERE id = $3 AND `+settled,
				sqldb.Micros(gone), sqldb.Micros(sqldb.Now()), k.id)
			if err != nil {
				return err
			}
			changed = changed || n == 1
		}
		if !changed {
			return sqldb.ErrUnchanged
		}
		return nil
	})
}

const (
	// settled is the condition of an instance whose domain must exist.
	settled = `state IN ('running', 'stopped')`
	// stale is the condition of an instance whose addresses may be released.
	stale = settled + ` AND held = 0 AND protected = 0 AND gone_since <= $1
		AND NOT EXISTS (SELECT 1 FROM job WHERE job.instance = instance.id AND job.` + jobs.Live + `)`
)

// StaleMappings returns the instances whose domain has been missing since cutoff or longer. They
// are running or stopped, neither held nor protected, and no job works on them.
func (db *DB) StaleMappings(ctx context.Context, cutoff time.Time) (all []seedbed.Instance, err error) {
	err = db.sql.View(ctx, "list stale mappings", func(tx *sqldb.Tx) error {
		all, err = instances.Read(ctx, tx, stale, cutoff.UnixMicro())
		return err
	})
	return all, err
}

// DropMapping releases the addresses of an instance, if StaleMappings would still return it, and
// reports whether it did. The instance is no longer served. Its NICs, which claim its MACs and
// addresses, and its DHCP leases are deleted, and its state becomes gone. It keeps its name and
// volumes until it is removed.
func (db *DB) DropMapping(ctx context.Context, id seedbed.InstanceID, cutoff time.Time) (dropped bool, err error) {
	err = db.sql.Update(ctx, "drop mapping", func(tx *sqldb.Tx) error {
		n, err := sqldb.Affect(ctx, tx, `UPDATE instance SET state = $2, revision = revision + 1, changed = $3 WHERE id = $4 AND `+stale,
			cutoff.UnixMicro(), seedbed.InstanceGone, sqldb.Micros(sqldb.Now()), id)
		if err != nil {
			return err
		}
		if dropped = n == 1; !dropped {
			return sqldb.ErrUnchanged
		}
		had, err := instances.Read(ctx, tx, `id = $1`, id)
		if err != nil {
			return err
		}
		if err := feed.RetractAll(ctx, tx, id, db.Limits.Tombstones); err != nil {
			return err
		}
		db.AddressesFreed()
		// The NICs come first, because a lease is written with its NIC's row locked.
		if err := sqldb.Exec(ctx, tx, `DELETE FROM nic WHERE instance = $1`, id); err != nil {
			return err
		}
		if err := feed.DropLeasesOf(ctx, tx, id); err != nil {
			return err
		}
		return outbox.Emit(ctx, tx, ofInstance(seedbed.EventCleanupReleased, had[0], ""))
	})
	return dropped && err == nil, err
}

// dropInstance deletes the instance of a job with everything that it claimed, and retracts it if it
// is still served.
func dropInstance(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, keep int) error {
	id := j.Instance
	if err := feed.RetractAll(ctx, tx, id, keep); err != nil {
		return err
	}
	if err := feed.DropMaintenance(ctx, tx, "", id); err != nil {
		return err
	}
	// A failed create job that was kept still has its script, and a rebuild its parameters. What
	// other jobs left of the instance was removed with it.
	for _, query := range []string{
		`DELETE FROM job_script WHERE job IN (SELECT id FROM job WHERE instance = $1)`,
		`DELETE FROM rebuild WHERE job IN (SELECT id FROM job WHERE instance = $1)`,
	} {
		if err := sqldb.Exec(ctx, tx, query, id); err != nil {
			return err
		}
	}
	if err := jobs.DropOrphansOf(ctx, tx, id); err != nil {
		return err
	}
	var removal seedbed.Removal
	if j.Kind == seedbed.JobRemove {
		if err := readSpec(j, &removal); err != nil {
			return err
		}
	}
	if err := instances.PartVolumes(ctx, tx, id, removal, pinnedTo(ctx, tx, j.Node)); err != nil {
		return err
	}
	if err := backups.Removed(ctx, tx, id); err != nil {
		return err
	}
	return instances.Delete(ctx, tx, id)
}
