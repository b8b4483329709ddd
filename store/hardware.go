package store

import (
	"context"
	"encoding/json"
	"slices"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// acceptSet completes the row of a job that changes the hardware of an instance.
func acceptSet(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	var spec seedbed.HardwareJob
	if err := readSpec(*j, &spec); err != nil {
		return err
	}
	if spec.Set.CDROM != nil && *spec.Set.CDROM != "" { // before the instance, as a removal of the image does
		if err := catalogue.HoldISO(ctx, tx, *spec.Set.CDROM); err != nil {
			return err
		}
	}
	if group := spec.Set.Group; group != nil && *group != "" { // likewise
		if _, err := catalogue.LockPlacementGroup(ctx, tx, *group); err != nil {
			return err
		}
	}
	if err := acceptVolumeJob(ctx, tx, j); err != nil {
		return err
	}
	inst, err := instances.ReadOne(ctx, tx, j.Instance)
	if err != nil {
		return err
	}
	was := inst.Hardware()
	to, changed, err := spec.Set.Of(was)
	if err == nil {
		err = inst.CheckHardware(to)
	}
	if err == nil && to.Group != was.Group {
		err = instances.HoldGroup(ctx, tx, to.Group, inst.ID, inst.Node, "")
	}
	if err != nil {
		return err
	}
	spec.Was, spec.To, spec.Changed = &was, &to, changed
	j.Spec, err = json.Marshal(spec)
	return err
}

// resumableSet returns ErrInvalid if an image or a placement group that a job needs, which is resumed, has been removed in the meantime.
func resumableSet(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	var spec seedbed.HardwareJob
	if err := readSpec(j, &spec); err != nil {
		return err
	}
	for _, h := range []*seedbed.Hardware{spec.Was, spec.To} {
		if h == nil {
			continue
		}
		if h.Group != "" {
			if _, err := catalogue.LockPlacementGroup(ctx, tx, h.Group); err != nil {
				return err
			}
		}
		if h.CDROM == "" {
			continue
		}
		if err := catalogue.HoldISO(ctx, tx, h.CDROM); err != nil {
			return err
		}
	}
	return nil
}

// SetHardware records the hardware of the job's instance, and which of it, of what the job changes, its guest gets only when it is started
// again. It may be repeated.
func (db *DB) SetHardware(ctx context.Context, ref seedbed.JobRef, h seedbed.Hardware, pending []string) error {
	return db.sql.Update(ctx, "set hardware", func(tx *sqldb.Tx) error {
		j, err := jobs.Hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		if j.Kind != seedbed.JobSet || j.State != seedbed.JobRunning && j.State != seedbed.JobUndoing {
			return seedbed.Errorf(seedbed.ErrConflict, "job %s is a %s job and %s: it does not change hardware", j.ID.Short(), j.Kind, j.State)
		}
		var spec seedbed.HardwareJob
		if err := readSpec(j, &spec); err != nil {
			return err
		}
		inst, err := instances.ReadOne(ctx, tx, j.Instance)
		if err != nil {
			return err
		}
		next := inst.WithHardware(h)
		next.Pending = nil
		for _, name := range seedbed.HardwareFields() {
			if slices.Contains(pending, name) || slices.Contains(inst.Pending, name) && !slices.Contains(spec.Changed, name) {
				next.Pending = append(next.Pending, name)
			}
		}
		if next.Hardware() == inst.Hardware() && slices.Equal(next.Pending, inst.Pending) {
			return sqldb.ErrUnchanged
		}
		if j.State == seedbed.JobRunning && next.PlacementGroup != inst.PlacementGroup { // an undo is not refused
			// Other instances may have come into the group since the job was accepted.
			if err := instances.HoldGroup(ctx, tx, next.PlacementGroup, inst.ID, inst.Node, ""); err != nil {
				return err
			}
		}
		return instances.SetHardware(ctx, tx, next)
	})
}

// DeletePlacementGroup removes a placement group that no instance and no profile has. It returns ErrNotFound, ErrInUse with what has it, or
// the error of a check that the group does not pass.
func (db *DB) DeletePlacementGroup(ctx context.Context, name string, checks ...func(seedbed.PlacementGroup) error) error {
	return db.sql.Update(ctx, "delete placement group "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		g, err := instances.ReadPlacementGroup(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(g, checks); err != nil {
			return err
		}
		joins, err := setsTo(ctx, tx, func(h seedbed.Hardware) bool { return h.Group == name })
		if err != nil {
			return err
		}
		var users catalogue.Uses
		users.Add(ctx, "a change of the placement group of instance", joins)
		return instances.DropPlacementGroup(ctx, tx, name, &users)
	})
}

// insertsOf returns the instances into whose CD-ROM drives a job that has not ended may put an image, or has taken it from there.
func insertsOf(ctx context.Context, tx *sqldb.Tx, image string) (users []catalogue.User, err error) {
	return setsTo(ctx, tx, func(h seedbed.Hardware) bool { return h.CDROM == image })
}

// setsTo returns the instances whose hardware has something before or after a job that has not ended.
func setsTo(ctx context.Context, tx *sqldb.Tx, has func(seedbed.Hardware) bool) (users []catalogue.User, err error) {
	all, err := sqldb.List(ctx, tx, jobs.ScanJob, `SELECT `+jobs.JobColumns+` FROM job WHERE kind = $1 AND `+jobs.Live+` ORDER BY id`,
		seedbed.JobSet)
	for _, j := range all {
		var spec seedbed.HardwareJob
		if err := readSpec(j, &spec); err != nil {
			return nil, err
		}
		if spec.Was != nil && has(*spec.Was) || spec.To != nil && has(*spec.To) {
			users = append(users, catalogue.User{Project: j.Project, Name: j.FullSubject().String()})
		}
	}
	return users, err
}
