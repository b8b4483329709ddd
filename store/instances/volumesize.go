package instances

import (
	"context"
	"encoding/json"
	"fmt"

	"seedbed"
	"seedbed/store/sqldb"
)

// BeginVolumeChange records that a job changes a volume, and the size that it is to give it, or 0. A volume that no instance has is
// changing from then on.
func BeginVolumeChange(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume, size seedbed.Bytes) error {
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

// EndVolumeChange records that the job which changed a volume has ended, however it did. An unknown ID is ignored.
func EndVolumeChange(ctx context.Context, tx *sqldb.Tx, id string) error {
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET wanted = 0, state = CASE WHEN state = $1 THEN $2 ELSE state END,
		revision = revision + 1 WHERE id = $3`, seedbed.VolumeChanging, seedbed.VolumeFree, id)
}

// SetVolumeLimits records how fast a volume may be.
func SetVolumeLimits(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume, l seedbed.IOLimits) error {
	if v.Instance != "" {
		if err := changed(ctx, tx, v.Instance); err != nil {
			return err
		}
	}
	text, err := limitsText(l)
	if err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET limits = $1, revision = revision + 1 WHERE id = $2`, text, v.ID)
}

// SetVolumePlace records the pool that a volume is in, and its node there.
func SetVolumePlace(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume, to seedbed.VolumePlace) error {
	if v.Instance != "" {
		if err := changed(ctx, tx, v.Instance); err != nil {
			return err
		}
	}
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET pool = $1, node = $2, revision = revision + 1 WHERE id = $3`, to.Pool, to.Node, v.ID)
}

// ForgetVolumeImage records that a volume is no longer a clone of an image. An unknown ID is ignored.
func ForgetVolumeImage(ctx context.Context, tx *sqldb.Tx, id string) error {
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET image = NULL WHERE id = $1`, id)
}

// limitsText returns the limits as the column has them.
func limitsText(l seedbed.IOLimits) (string, error) {
	if l == (seedbed.IOLimits{}) {
		return "", nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("encode limits: %w", err)
	}
	return string(text), nil
}
