package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/backups"
	"seedbed/store/catalogue"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// checkVolumeJob validates a job on the volumes of an existing instance, or on an existing image.
// ok is false for a job of another kind.
func checkVolumeJob(j seedbed.Job) (ok bool, err error) {
	switch j.Kind {
	case seedbed.JobFlatten, seedbed.JobForget, seedbed.JobResize, seedbed.JobSet:
	case seedbed.JobRename:
		var input seedbed.RenameJob
		if err := json.Unmarshal(j.Spec, &input); err != nil {
			return true, seedbed.Errorf(seedbed.ErrInvalid, "a %s job needs a name", j.Kind)
		}
		if err := seedbed.CheckInstanceName(input.To); err != nil {
			return true, err
		}
	case seedbed.JobSnapshot, seedbed.JobSnapshotRemove, seedbed.JobSnapshotRestore:
		var input seedbed.SnapshotJob
		if err := json.Unmarshal(j.Spec, &input); err != nil {
			return true, seedbed.Errorf(seedbed.ErrInvalid, "a %s job needs the name of a snapshot", j.Kind)
		}
		for _, name := range append([]string{input.Name}, input.Also...) {
			if err := seedbed.CheckName("snapshot", name); err != nil {
				return true, err
			}
		}
	case seedbed.JobBackup:
		var input seedbed.BackupJob
		if err := json.Unmarshal(j.Spec, &input); err != nil {
			return true, seedbed.Errorf(seedbed.ErrInvalid, "a %s job needs a target", j.Kind)
		}
		if err := seedbed.CheckTargetName(input.Target); err != nil {
			return true, err
		}
	case seedbed.JobImageRemove:
		return true, seedbed.CheckQualifiedName("image", j.Subject)
	default:
		return false, nil
	}
	_, err = seedbed.ParseInstanceID(string(j.Instance))
	return true, err
}

// acceptVolumeJob completes the row of a job that checkVolumeJob accepts.
func acceptVolumeJob(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	if j.Kind == seedbed.JobImageRemove {
		return acceptImageRemove(ctx, tx, j)
	}
	// Lock the row, so that concurrent jobs see each other.
	touched, err := sqldb.Affect(ctx, tx, `UPDATE instance SET revision = revision WHERE id = $1`, j.Instance)
	if err == nil && touched == 0 {
		err = seedbed.Errorf(seedbed.ErrNotFound, "instance %s does not exist", j.Instance)
	}
	if err != nil {
		return err
	}
	if err := idle(ctx, tx, j.Instance); err != nil {
		return err
	}
	var state seedbed.InstanceState
	if err := tx.QueryRowContext(ctx, `SELECT project, name, node, state FROM instance WHERE id = $1`,
		j.Instance).Scan(&j.Project, &j.Subject, &j.Node, &state); err != nil {
		return err
	}
	if state != seedbed.InstanceRunning && state != seedbed.InstanceStopped {
		return seedbed.Errorf(seedbed.ErrConflict,
			"instance %q is %s: only the volumes and NICs of one that is running or stopped can be worked on",
			j.Subject, state)
	}
	switch j.Kind {
	case seedbed.JobForget:
		return partedFirst(ctx, tx, *j)
	case seedbed.JobSnapshotRemove:
		return instances.CheckRemoval(ctx, tx, *j)
	case seedbed.JobBackup:
		return backups.Own(ctx, tx, j.Instance, j.Project)
	}
	return nil
}

// partedFirst returns ErrInUse if volumes are attached to the instance of a job that releases its domain.
func partedFirst(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	name, err := sqldb.One(ctx, tx, sqldb.Value[string], nil,
		`SELECT name FROM project_volume WHERE instance = $1 ORDER BY name LIMIT 1`, j.Instance)
	if err == nil && name != "" {
		err = seedbed.Errorf(seedbed.ErrInUse, "volume %q is attached to instance %q: detach it first (seedbed volume detach %s)",
			name, j.Subject, name)
	}
	return err
}

// acceptSnapshot completes the row of a job that takes a snapshot, and records the snapshot. It returns
// ErrForbidden if the project has as many as its quota allows.
func acceptSnapshot(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	if err := acceptVolumeJob(ctx, tx, j); err != nil {
		return err
	}
	added, err := instances.AddSnapshot(ctx, tx, *j)
	if err != nil || !added {
		return err
	}
	in, err := access.HoldProject(ctx, tx, j.Project)
	if err != nil {
		return err
	}
	return access.Snapshots().Hold(ctx, tx, in)
}

// idle returns ErrInUse if a job works on the instance.
func idle(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	return idleBut(ctx, tx, id, "")
}

// idleBut is idle that ignores the job but.
func idleBut(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, but seedbed.JobID) error {
	other, err := sqldb.One(ctx, tx, jobs.ScanJob, nil,
		`SELECT `+jobs.JobColumns+` FROM job WHERE instance = $1 AND id <> $2 AND `+jobs.Live+` ORDER BY created LIMIT 1`, id, but)
	if err != nil || other.ID == "" {
		return err
	}
	return inHandsOf(other, "instance", other.Subject)
}

// inHandsOf returns the ErrInUse for an object that job j works on. label is the message's word for
// it.
func inHandsOf(j seedbed.Job, label, name string) error {
	return &seedbed.Error{Kind: seedbed.ErrInUse, Holder: j.ID,
		Msg: fmt.Sprintf("%s %q is in the hands of %s job %s: wait for its end%s", label, name, j.Kind, j.ID.Short(), orCancel(j))}
}

func orCancel(j seedbed.Job) string {
	if j.Kind.Forward() {
		return ""
	}
	return ", or cancel it"
}

// acceptImageRemove starts the removal of an image that nothing uses.
func acceptImageRemove(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	j.Project = seedbed.ProjectOf(j.Subject)
	touched, err := sqldb.Affect(ctx, tx, `UPDATE image SET state = state WHERE name = $1 AND dropped = 0`, j.Subject)
	if err == nil && touched == 0 {
		err = seedbed.Errorf(seedbed.ErrNotFound, "image %q does not exist", j.Subject)
	}
	if err != nil {
		return err
	}
	if err := idleImage(ctx, tx, j.Subject); err != nil {
		return err
	}
	if err := unusedImage(ctx, tx, j.Subject, true); err != nil {
		return err
	}
	var input seedbed.ImageRemoval
	err = tx.QueryRowContext(ctx,
		`SELECT claim.job, image.state FROM image JOIN claim ON claim.kind = $1 AND claim.key = image.name WHERE image.name = $2`,
		catalogue.ImageClaim, j.Subject).Scan(&input.Import, &input.Was)
	if err != nil {
		return err
	}
	if j.Spec, err = json.Marshal(input); err != nil {
		return err
	}
	return catalogue.SetImageState(ctx, tx, j.Subject, seedbed.ImageRemoving, nil)
}

// flattened records that the volumes of the job's instance are no longer clones.
func flattened(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	if j.Kind != seedbed.JobFlatten && j.Kind != seedbed.JobCreate && j.Kind != seedbed.JobRebuild {
		return seedbed.Errorf(seedbed.ErrInvalid, "job %s flattens nothing: it is a %s job", j.ID.Short(), j.Kind)
	}
	return sqldb.Exec(ctx, tx, `UPDATE volume SET image = NULL WHERE instance = $1`, j.Instance)
}

// InstanceNames returns the full names that instances have or had, as far as their jobs are still
// stored.
func (db *DB) InstanceNames(ctx context.Context, ids []seedbed.InstanceID) (map[seedbed.InstanceID]string, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	names := make(map[seedbed.InstanceID]string, len(ids))
	err := db.sql.View(ctx, "read instance names", func(tx *sqldb.Tx) error {
		for _, id := range ids {
			last, err := sqldb.One(ctx, tx, jobs.ScanJob, nil,
				`SELECT `+jobs.JobColumns+` FROM job WHERE instance = $1 ORDER BY created DESC, id LIMIT 1`, id)
			if err != nil {
				return err
			}
			now, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT `+instances.FullName+` FROM instance WHERE id = $1`, id)
			switch {
			case err != nil:
				return err
			case now != "": // a job may have renamed it
				names[id] = now
			case last.Subject != "":
				names[id] = last.FullSubject().String()
			}
		}
		return nil
	})
	return names, err
}

// settleImage sets the state of an image that its removal job did not remove.
func settleImage(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, to seedbed.ImageState) error {
	if j.Kind != seedbed.JobImageRemove {
		return seedbed.Errorf(seedbed.ErrInvalid, "job %s removes no image: it is a %s job", j.ID.Short(), j.Kind)
	}
	return catalogue.SetImageState(ctx, tx, j.Subject, to, nil)
}
