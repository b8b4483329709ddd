package backups

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/store/sqldb"
)

// Own records that the backups of an instance are those of its project. They stay so when the instance is removed, and until a backup is
// made of one with its ID in another project.
func Own(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, project string) error {
	return sqldb.Exec(ctx, tx,
		`INSERT INTO backup_owner (instance, project, removed) VALUES ($1, $2, NULL)
			ON CONFLICT (instance) DO UPDATE SET project = excluded.project, removed = NULL`, id, project)
}

// Back records that an instance that was removed exists again: a domain that is given back and adopted keeps its ID.
func Back(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	return sqldb.Exec(ctx, tx, `UPDATE backup_owner SET removed = NULL WHERE instance = $1`, id)
}

// Removed records that an instance is removed.
func Removed(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	return sqldb.Exec(ctx, tx, `UPDATE backup_owner SET removed = $1 WHERE instance = $2`, sqldb.Micros(sqldb.Now()), id)
}

// BackupOwners returns whose the backups of those of the instances are that are known to this installation.
func (s *Store) BackupOwners(ctx context.Context, ids []seedbed.InstanceID) (map[seedbed.InstanceID]seedbed.BackupOwner, error) {
	of := make(map[seedbed.InstanceID]seedbed.BackupOwner, len(ids))
	scan := func(r sqldb.Row) (o seedbed.BackupOwner, err error) {
		err = r.Scan(&o.Project, sqldb.ToTime(&o.Removed))
		return o, err
	}
	err := s.db.View(ctx, "read whose backups are", func(tx *sqldb.Tx) error {
		for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
			o, err := sqldb.One(ctx, tx, scan, nil, `SELECT project, removed FROM backup_owner WHERE instance = $1`, id)
			if err != nil {
				return err
			}
			if o.Project != "" {
				of[id] = o
			}
		}
		return nil
	})
	return of, err
}
