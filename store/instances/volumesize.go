package instances

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// WantVolumeSize records the size that a job is to give a volume. A volume that no instance has is changing from then on.
func WantVolumeSize(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume, size seedbed.Bytes) error {
	if v.Instance == "" {
		v.State = seedbed.VolumeChanging
	}
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET wanted = $1, state = $2, revision = revision + 1 WHERE id = $3`,
		int64(size), v.State, v.ID)
}

// SetVolumeSize records the size that a volume has been given.
func SetVolumeSize(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume, size seedbed.Bytes) error {
	if v.Instance != "" {
		if err := changed(ctx, tx, v.Instance); err != nil {
			return err
		}
	}
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET size = $1, revision = revision + 1 WHERE id = $2`, int64(size), v.ID)
}

// EndVolumeSize records that the job which made a volume larger has ended, however it did. An unknown ID is ignored.
func EndVolumeSize(ctx context.Context, tx *sqldb.Tx, id string) error {
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET wanted = 0, state = CASE WHEN state = $1 THEN $2 ELSE state END,
		revision = revision + 1 WHERE id = $3`, seedbed.VolumeChanging, seedbed.VolumeFree, id)
}
