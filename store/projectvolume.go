package store

import (
	"cmp"
	"context"
	"encoding/json"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/nodes"
	"seedbed/store/sqldb"
)

// checkProjectVolumeJob validates a job on a volume of a project. ok is false for a job of another kind.
func checkProjectVolumeJob(a seedbed.Acceptance) (ok bool, err error) {
	switch a.Job.Kind {
	case seedbed.JobVolumeAdd:
		if a.Volume == nil {
			return true, seedbed.Errorf(seedbed.ErrInvalid, "a %s job needs a volume", a.Job.Kind)
		}
		if _, err := seedbed.ParseInstanceID(a.Volume.ID); err != nil {
			return true, seedbed.Errorf(seedbed.ErrInvalid, "%q is not the ID of a volume: expected a lower-case UUID", sqldb.Clean(a.Volume.ID, 80))
		}
		var spec seedbed.VolumeJob
		if err := readSpec(a.Job, &spec); len(a.Job.Spec) > 0 && err != nil {
			return true, err
		}
		if a.Volume.Size != 0 || a.Volume.Image == "" && spec.From == nil {
			err = seedbed.CheckDisk("size", a.Volume.Size)
		}
		err = cmp.Or(err, a.Volume.IOLimits.Check())
		return true, cmp.Or(seedbed.CheckName("volume", a.Volume.Name), err)
	case seedbed.JobVolumeRemove:
		return true, seedbed.CheckName("volume", a.Job.Subject)
	case seedbed.JobAttach, seedbed.JobDetach, seedbed.JobVolumeResize, seedbed.JobVolumeSet, seedbed.JobVolumeMove,
		seedbed.JobVolumeDownload:
		var spec seedbed.VolumeJob
		if err := json.Unmarshal(a.Job.Spec, &spec); err != nil {
			return true, seedbed.Errorf(seedbed.ErrInvalid, "a %s job needs the name of a volume", a.Job.Kind)
		}
		if _, err := seedbed.CheckBus(spec.Bus); err != nil {
			return true, err
		}
		err := seedbed.CheckName("volume", spec.Name)
		if err == nil && a.Job.Kind == seedbed.JobVolumeResize {
			err = seedbed.CheckDisk("size", spec.Size)
		}
		if err == nil && a.Job.Kind == seedbed.JobVolumeSet && spec.Set == nil {
			err = seedbed.Errorf(seedbed.ErrInvalid, "a %s job needs limits", a.Job.Kind)
		}
		if err == nil && a.Job.Kind == seedbed.JobVolumeMove && spec.Place == nil {
			err = seedbed.Errorf(seedbed.ErrInvalid, "a %s job needs a pool", a.Job.Kind)
		}
		if err == nil && a.Job.Kind == seedbed.JobVolumeDownload {
			err = cmp.Or(spec.Download, &seedbed.VolumeDownload{}).Check()
		}
		if err != nil || changesVolume(a.Job.Kind) && a.Job.Instance == "" {
			return true, err
		}
		_, err = seedbed.ParseInstanceID(string(a.Job.Instance))
		return true, err
	}
	return false, nil
}

// volumeSpec returns the input of a job on a volume of a project.
func volumeSpec(j seedbed.Job) (spec seedbed.VolumeJob, err error) {
	return spec, readSpec(j, &spec)
}

// setVolumeSpec makes the volume that was locked the input of the job.
func setVolumeSpec(j *seedbed.Job, v seedbed.ProjectVolume) (err error) {
	var was seedbed.VolumeJob
	if len(j.Spec) > 0 {
		if was, err = volumeSpec(*j); err != nil {
			return err
		}
	}
	j.Pool = v.Pool
	j.Spec, err = json.Marshal(seedbed.VolumeJob{ID: v.ID, Name: v.Name, Bus: v.Bus, Keep: v.Keep, From: was.From, Upload: was.Upload})
	return err
}

// acceptVolumeAdd completes the row of a job that makes a volume, and adds the volume.
func acceptVolumeAdd(ctx context.Context, b *groupcommit.Batch, a *seedbed.Acceptance) (err error) {
	v := *a.Volume
	v.Project, v.State, v.Keep, v.Bus = a.Job.Project, seedbed.VolumeMaking, true, ""
	v.Volume, v.Owner = v.ID, seedbed.InstanceID(v.ID)
	if v.Image != "" {
		// A transaction that removes the image waits for this lock, and then sees the volume.
		if err := sqldb.Exec(ctx, b.Tx, `UPDATE image SET state = state WHERE name = $1`, v.Image); err != nil {
			return err
		}
		i, err := catalogue.ReadImage(ctx, b.Tx, v.Image, seedbed.ErrInvalid)
		if err == nil {
			err = i.CheckClone(v.Pool, v.Size)
		}
		if err != nil {
			return err
		}
		v.Size = cmp.Or(v.Size, i.Size)
	}
	if v.Size, err = copySize(ctx, b.Tx, a.Job, v); err != nil {
		return err
	}
	if v.Node, err = pinnedTo(ctx, b.Tx, a.Job.Node)(v.Pool); err != nil {
		return err
	}
	if err := holdVolume(ctx, b, v, v.Size); err != nil {
		return err
	}
	a.Job.Subject, a.Job.Instance, a.Volume = v.Name, "", &v
	if err := setVolumeSpec(&a.Job, v); err != nil {
		return err
	}
	return instances.InsertProjectVolume(ctx, b.Tx, v)
}

// holdVolume returns ErrForbidden if so much more of a volume, together with what its token and its project have, exceeds a quota.
func holdVolume(ctx context.Context, b *groupcommit.Batch, v seedbed.ProjectVolume, more seedbed.Bytes) error {
	var wants seedbed.Use
	wants.AddDisk(v.Pool, more)
	return holdUse(ctx, b, seedbed.Instance{Project: v.Project, Token: v.Token}, wants)
}

// acceptVolumeRemove starts the removal of a volume that no instance has.
func acceptVolumeRemove(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	v, err := instances.LockProjectVolume(ctx, tx, j.Project, j.Subject)
	if err != nil {
		return err
	}
	if err := idleVolume(ctx, tx, v); err != nil {
		return err
	}
	j.Instance = ""
	if err := setVolumeSpec(j, v); err != nil {
		return err
	}
	return instances.SetVolumeState(ctx, tx, v.ID, seedbed.VolumeRemoving)
}

// idleVolume returns ErrInUse if an instance has the volume, or if a job works on it.
func idleVolume(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume) error {
	if err := v.CheckIdle(); err != nil {
		return err
	}
	other, err := sqldb.One(ctx, tx, jobs.ScanJob, nil,
		`SELECT `+jobs.JobColumns+` FROM job WHERE project = $1 AND subject = $2 AND kind IN ($3, $4, $5, $6, $7, $8) AND instance = ''
		AND `+jobs.Live+` ORDER BY created LIMIT 1`, v.Project, v.Name, seedbed.JobVolumeAdd, seedbed.JobVolumeRemove, seedbed.JobVolumeResize,
		seedbed.JobVolumeSet, seedbed.JobVolumeMove, seedbed.JobVolumeDownload)
	if err == nil && other.ID == "" {
		other, err = copying(ctx, tx, v)
	}
	if err != nil || other.ID == "" {
		return err
	}
	return inHandsOf(other, "volume", v.Name)
}

// acceptAttach completes the row of a job that attaches a volume, and promises the volume to the instance.
func acceptAttach(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	if err := acceptVolumeJob(ctx, tx, j); err != nil {
		return err
	}
	spec, err := volumeSpec(*j)
	if err != nil {
		return err
	}
	inst, err := instances.ReadOne(ctx, tx, j.Instance)
	if err != nil {
		return err
	}
	v, err := instances.LockProjectVolume(ctx, tx, j.Project, spec.Name)
	if err != nil {
		return err
	}
	if err := idleVolume(ctx, tx, v); err != nil {
		return err
	}
	if err := v.CheckAttach(inst); err != nil {
		return err
	}
	v.Keep, v.Index = spec.Keep, inst.FreeIndex()
	if v.Bus, err = seedbed.CheckBus(spec.Bus); err != nil {
		return err
	}
	if err := setVolumeSpec(j, v); err != nil {
		return err
	}
	return instances.GiveVolume(ctx, tx, v, j.Instance)
}

// acceptDetach completes the row of a job that detaches a volume.
func acceptDetach(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	if err := acceptVolumeJob(ctx, tx, j); err != nil {
		return err
	}
	spec, err := volumeSpec(*j)
	if err != nil {
		return err
	}
	v, err := instances.LockProjectVolume(ctx, tx, j.Project, spec.Name)
	if err != nil {
		return err
	}
	if v.Instance != j.Instance {
		return seedbed.Errorf(seedbed.ErrConflict, "volume %q is not attached to instance %q", v.Name, j.Subject)
	}
	return setVolumeSpec(j, v)
}

// SetAttachment records how far the job that attaches or detaches a volume has got with it. It may be repeated.
func (db *DB) SetAttachment(ctx context.Context, ref seedbed.JobRef, to seedbed.VolumeState) error {
	return db.sql.Update(ctx, "set attachment", func(tx *sqldb.Tx) error {
		j, err := jobs.Hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		if j.Kind != seedbed.JobAttach && j.Kind != seedbed.JobDetach || j.State != seedbed.JobRunning && j.State != seedbed.JobUndoing {
			return seedbed.Errorf(seedbed.ErrConflict, "job %s is a %s job and %s: it attaches nothing", j.ID.Short(), j.Kind, j.State)
		}
		v, err := lockVolume(ctx, tx, j, nil)
		if err != nil {
			return err
		}
		if err := v.CheckHolder(j); err != nil {
			return err
		}
		if v.State == to {
			return sqldb.ErrUnchanged
		}
		return instances.SetAttachmentState(ctx, tx, v, to)
	})
}

// endVolume records what the end of a job means for the volume that it worked on.
func endVolume(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, in seedbed.JobState) error {
	switch j.Kind {
	case seedbed.JobVolumeAdd, seedbed.JobAttach, seedbed.JobDetach, seedbed.JobVolumeResize, seedbed.JobVolumeSet, seedbed.JobVolumeMove,
		seedbed.JobVolumeDownload:
	default:
		return nil
	}
	spec, err := volumeSpec(j)
	switch {
	case err != nil:
		return err
	case j.Kind == seedbed.JobVolumeAdd && in == seedbed.JobSucceeded:
		return instances.SetVolumeState(ctx, tx, spec.ID, seedbed.VolumeFree)
	case j.Kind == seedbed.JobAttach && in == seedbed.JobRolledBack, j.Kind == seedbed.JobDetach && in == seedbed.JobSucceeded:
		return instances.FreeVolume(ctx, tx, spec.ID, j.Instance)
	case !changesVolume(j.Kind):
		return nil
	}
	if j.Kind == seedbed.JobVolumeMove && in == seedbed.JobSucceeded { // until then, what may have to be the volume again is that clone
		if err := instances.ForgetVolumeImage(ctx, tx, spec.ID); err != nil {
			return err
		}
	}
	return instances.EndVolumeChange(ctx, tx, spec.ID)
}

// dropVolume deletes the volume of a job that has removed it, with what the job that made it had left behind.
func dropVolume(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	spec, err := volumeSpec(j)
	if err != nil {
		return err
	}
	if err := jobs.DropOrphansOfVolume(ctx, tx, j.Project, j.Subject); err != nil {
		return err
	}
	return instances.DropProjectVolume(ctx, tx, spec.ID)
}

// lockVolume returns the volume of a job, and missing if there is none with its ID.
func lockVolume(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, missing error) (seedbed.ProjectVolume, error) {
	spec, err := volumeSpec(j)
	if err != nil {
		return seedbed.ProjectVolume{}, err
	}
	return instances.LockVolumeOf(ctx, tx, spec.ID, missing)
}

// resumableVolume prepares the volume of a job that is resumed or undone again. It returns missing if it is another volume by now.
func resumableVolume(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, missing error) error {
	v, err := lockVolume(ctx, tx, j, missing)
	if err != nil {
		return err
	}
	if err := idleVolume(ctx, tx, v); err != nil {
		return err
	}
	if changesVolume(j.Kind) {
		return resumableChange(ctx, tx, j, v)
	}
	to := seedbed.VolumeMaking
	if j.Kind == seedbed.JobVolumeRemove {
		to = seedbed.VolumeRemoving
	}
	return instances.SetVolumeState(ctx, tx, v.ID, to)
}

// resumableAttachment prepares the volume of a job on one that an instance has. It returns ErrConflict if the volume is no longer that of
// the job's instance, and missing if it no longer exists.
func resumableAttachment(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, missing error) error {
	v, err := lockVolume(ctx, tx, j, missing)
	if err != nil {
		return err
	}
	if err := v.CheckHolder(j); err != nil || !changesVolume(j.Kind) {
		return err
	}
	return resumableChange(ctx, tx, j, v)
}

// ofVolume reports whether a job works on a volume that no instance has.
func ofVolume(j seedbed.Job) bool {
	return j.Kind == seedbed.JobVolumeAdd || j.Kind == seedbed.JobVolumeRemove || changesVolume(j.Kind) && j.Instance == ""
}

// changesVolume reports whether a job of that kind works on a volume whether an instance has it or not.
func changesVolume(k seedbed.JobKind) bool {
	return k == seedbed.JobVolumeResize || k == seedbed.JobVolumeSet || k == seedbed.JobVolumeMove || k == seedbed.JobVolumeDownload
}

// volumesAt returns the names of the projects' volumes that are only on that node.
func volumesAt(ctx context.Context, tx *sqldb.Tx, node string) ([]string, error) {
	return sqldb.List(ctx, tx, sqldb.Value[string], `SELECT name FROM project_volume WHERE node = $1 ORDER BY project, name LIMIT 6`, node)
}

// pinnedTo returns a function that returns the node which a volume of a pool is bound to, if it is on node now; empty for a shared pool.
func pinnedTo(ctx context.Context, tx *sqldb.Tx, node string) func(pool string) (string, error) {
	return func(pool string) (string, error) {
		shared, err := nodes.Sharing(ctx, tx)
		if err != nil || shared(pool) {
			return "", err
		}
		return node, nil
	}
}

// addVolumes adds to has the volumes of an owner, whether they are attached or not.
func (o owner) addVolumes(ctx context.Context, tx *sqldb.Tx, has *seedbed.Use) error {
	where := o.kind + ` = $1`
	if o.kind == "token" {
		where += ` AND token <> ''` // as the index has it
	}
	all, err := sqldb.List(ctx, tx, func(r sqldb.Row) (v seedbed.Volume, err error) {
		err = r.Scan(&v.Pool, &v.Size)
		return v, err
	}, `SELECT pool, CAST(SUM(CASE WHEN wanted > size THEN wanted ELSE size END) AS bigint) FROM project_volume
		WHERE `+where+` GROUP BY pool`, o.name)
	for _, v := range all {
		has.AddDisk(v.Pool, v.Size)
	}
	return err
}
