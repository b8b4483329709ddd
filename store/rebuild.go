package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// acceptRebuild completes the row of a rebuild job, and stores what the instance becomes.
func acceptRebuild(ctx context.Context, tx *sqldb.Tx, a *seedbed.Acceptance) error {
	if err := acceptSwitch(ctx, tx, &a.Job); err != nil {
		return err
	}
	if err := instances.Confirmed(ctx, tx, *a); err != nil {
		return err
	}
	var spec seedbed.RebuildSpec
	if err := readSpec(a.Job, &spec); err != nil {
		return err
	}
	next := *a.Rebuild
	next.ID, next.Project, next.Name = a.Job.Instance, a.Job.Project, a.Job.Subject
	of, err := ownersOf(ctx, tx, next.ID)
	if err != nil {
		return err
	}
	next.Token = of.Token
	if err := instances.CheckAttached(ctx, tx, next.ID, len(next.Volumes)); err != nil {
		return err
	}
	if err := holdQuotas(ctx, groupcommit.Alone(tx), next); err != nil {
		return err
	}
	// A transaction that removes one of the images waits for this lock, and then sees this job.
	for _, name := range imagesOf(next) {
		if err := sqldb.Exec(ctx, tx, `UPDATE image SET state = state WHERE name = $1`, name); err != nil {
			return err
		}
	}
	if err := instances.CheckImages(ctx, groupcommit.Alone(tx), next); err != nil {
		return err
	}
	if a.Script != nil {
		if err := insertScriptRun(ctx, tx, a.Job.ID, *a.Script); err != nil {
			return err
		}
	}
	return putSide(ctx, tx, a.Job.ID, seedbed.RebuildNext, next)
}

// addRebuilt adds to has what either side of a rebuild needs beyond the instance's current
// resources. Until the job ends, the instance may become either side.
func addRebuilt(ctx context.Context, tx *sqldb.Tx, job seedbed.JobID, inst seedbed.Instance, has *seedbed.Use) error {
	now, most := useOf(inst), useOf(inst)
	for _, which := range []seedbed.RebuildSide{seedbed.RebuildNext, seedbed.RebuildBefore} {
		s, err := side(ctx, tx, job, which)
		if err != nil {
			return err
		}
		if s == nil {
			continue
		}
		u := useOf(*s)
		most.VCPUs, most.Memory = max(most.VCPUs, u.VCPUs), max(most.Memory, u.Memory)
		for pool, size := range u.DiskIn {
			most.AddDisk(pool, max(0, size-most.DiskIn[pool]))
		}
	}
	addDifference(has, now, most)
	return nil
}

// resumableRebuild checks the quota for a rebuild that is resumed, unless the instance has already
// been exchanged.
func resumableRebuild(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	before, err := side(ctx, tx, j.ID, seedbed.RebuildBefore)
	if err != nil || before != nil {
		return err
	}
	next, err := nextOf(ctx, tx, j.ID)
	if err != nil {
		return err
	}
	of, err := ownersOf(ctx, tx, next.ID)
	if err != nil {
		return err
	}
	next.Project, next.Token = of.Project, of.Token
	if err := instances.CheckAttached(ctx, tx, next.ID, len(next.Volumes)); err != nil {
		return err
	}
	return holdQuotas(ctx, groupcommit.Alone(tx), *next)
}

// checkRebuild validates what a rebuild job makes of its instance.
func checkRebuild(a seedbed.Acceptance) error {
	if _, err := seedbed.ParseInstanceID(string(a.Job.Instance)); err != nil {
		return err
	}
	if a.Rebuild == nil || len(a.Rebuild.Volumes) > seedbed.MaxVolumes {
		return seedbed.Errorf(seedbed.ErrInvalid, "a rebuild needs what it makes of the instance, with at most %d volumes", seedbed.MaxVolumes)
	}
	if _, err := seedbed.ParseReady(string(a.Rebuild.Ready)); err != nil {
		return err
	}
	return instances.CheckServed(*a.Rebuild)
}

// imagesOf returns the images that an instance is made from, sorted and without duplicates.
func imagesOf(i seedbed.Instance) []string {
	names := []string{i.Image}
	for _, v := range i.Volumes {
		names = append(names, v.Image)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
}

const sideColumns = `instance, user_data, vendor_data, report_token, source, params`

func putSide(ctx context.Context, tx *sqldb.Tx, job seedbed.JobID, side seedbed.RebuildSide, i seedbed.Instance) error {
	return sqldb.Exec(ctx, tx,
		`INSERT INTO rebuild (`+sideColumns+`, job, side) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		sqldb.AsJSON(i), sqldb.Blob(i.UserData), sqldb.Blob(i.VendorData), i.ReportToken, i.Source, sqldb.AsJSON(i.Params), job, side)
}

func scanSide(r sqldb.Row) (i seedbed.Instance, err error) {
	var user, vendor []byte
	var token string
	var source string
	var params map[string]any
	err = r.Scan(sqldb.ToJSON(&i), sqldb.ToBlob(&user), sqldb.ToBlob(&vendor), &token, &source, sqldb.ToParams(&params))
	i.UserData, i.VendorData, i.ReportToken, i.Source, i.Params = user, vendor, token, source, params
	return i, err
}

// side reads one side of a rebuild, or nil if it is not stored.
func side(ctx context.Context, tx *sqldb.Tx, job seedbed.JobID, which seedbed.RebuildSide) (*seedbed.Instance, error) {
	found, err := sqldb.List(ctx, tx, scanSide,
		`SELECT `+sideColumns+` FROM rebuild WHERE job = $1 AND side = $2`, job, which)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// nextOf returns what a rebuild job makes of its instance.
func nextOf(ctx context.Context, tx *sqldb.Tx, id seedbed.JobID) (*seedbed.Instance, error) {
	next, err := side(ctx, tx, id, seedbed.RebuildNext)
	if err == nil && next == nil {
		err = seedbed.Errorf(seedbed.ErrNotFound, "job %s rebuilds nothing, or has ended", id.Short())
	}
	return next, err
}

// Rebuilding returns both sides of a rebuild job that has not ended. It returns ErrNotFound for any
// other job.
func (db *DB) Rebuilding(ctx context.Context, id seedbed.JobID) (r seedbed.Rebuild, err error) {
	err = db.sql.View(ctx, "read rebuild", func(tx *sqldb.Tx) error {
		next, err := nextOf(ctx, tx, id)
		if err != nil {
			return err
		}
		r.Next = *next
		r.Before, err = side(ctx, tx, id, seedbed.RebuildBefore)
		return err
	})
	return r, err
}

// Exchange makes the instance of a rebuild job what the job makes of it (while the job runs), or
// what it was before (while the job is undone). Repeating the latter changes nothing. Repeating the
// former only clears the times at which the guest fetched and reported, its password and its host key, because
// they may be those of the previous guest.
func (db *DB) Exchange(ctx context.Context, ref seedbed.JobRef, to seedbed.RebuildSide) error {
	return db.sql.Update(ctx, "exchange instance", func(tx *sqldb.Tx) error {
		j, err := jobs.Hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		want := seedbed.JobRunning
		if to == seedbed.RebuildBefore {
			want = seedbed.JobUndoing
		}
		if j.State != want || j.Kind != seedbed.JobRebuild {
			return seedbed.Errorf(seedbed.ErrConflict, "%s job %s is %s: it does not make its instance what it has as %q",
				j.Kind, j.ID.Short(), j.State, to)
		}
		before, err := side(ctx, tx, j.ID, seedbed.RebuildBefore)
		switch {
		case err != nil:
			return err
		case to == seedbed.RebuildBefore && before == nil:
			return sqldb.ErrUnchanged
		case to == seedbed.RebuildBefore:
			if err := sqldb.Exec(ctx, tx, `DELETE FROM rebuild WHERE job = $1 AND side = $2`, j.ID, seedbed.RebuildBefore); err != nil {
				return err
			}
			if err := exchangeDomain(ctx, tx, j, to); err != nil {
				return err
			}
			if err := instances.RestoreSnapshots(ctx, tx, j); err != nil {
				return err
			}
			if err := remake(ctx, tx, *before); err != nil {
				return err
			}
			return instances.UnindexVolumes(ctx, tx, before.ID)
		case before != nil:
			return sqldb.Exec(ctx, tx, `
				UPDATE instance SET fetched = NULL, reported = NULL, password = '', host_key = '', revision = revision + 1, changed = $1 WHERE id = $2`,
				sqldb.Micros(sqldb.Now()), j.Instance)
		}
		was, err := instances.ReadOne(ctx, tx, j.Instance)
		if err != nil {
			return err
		}
		next, err := nextOf(ctx, tx, j.ID)
		if err != nil {
			return err
		}
		if err := putSide(ctx, tx, j.ID, seedbed.RebuildBefore, was); err != nil {
			return err
		}
		if err := exchangeDomain(ctx, tx, j, to); err != nil {
			return err
		}
		if err := instances.ReplaceSnapshots(ctx, tx, j); err != nil {
			return err
		}
		next.Password, next.HostKey = "", "" // those of the previous guest
		if err := remake(ctx, tx, *next); err != nil {
			return err
		}
		return instances.ReindexVolumes(ctx, tx, next.ID)
	})
}

// remake replaces what an instance is made from, what it is served, and its volumes with those of
// i.
func remake(ctx context.Context, tx *sqldb.Tx, i seedbed.Instance) error {
	n, err := sqldb.Affect(ctx, tx, `
		UPDATE instance SET profile = $1, image = $2, vcpus = $3, memory = $4, ready = $5,
			user_data = $6, vendor_data = $7, ssh_keys = $8, report_token = $9,
			datasource = $10, metadata = $11, fetched = $12, reported = $13, revision = revision + 1, changed = $14,
			follow = $16, source = $17, params = $18, system = $19, password = $20, host_key = $21, restarts = $22 WHERE id = $15`,
		i.Profile, i.Image, i.VCPUs, i.Memory, i.Ready,
		sqldb.Blob(i.UserData), sqldb.Blob(i.VendorData), sqldb.AsJSON(sqldb.OrEmpty(i.SSHKeys)), i.ReportToken,
		i.Datasource, sqldb.AsJSON(i.Metadata), sqldb.Micros(i.Fetched), sqldb.Micros(i.Reported), sqldb.Micros(sqldb.Now()), i.ID,
		cmp.Or(i.Follow, seedbed.FollowPinned), i.Source, sqldb.AsJSON(i.Params), sqldb.AsJSON(i.System), i.Password, i.HostKey,
		instances.Restarts(i))
	if err == nil && n == 0 {
		err = seedbed.Errorf(seedbed.ErrConflict, "instance %s does not exist any more", i.ID)
	}
	if err != nil {
		return err
	}
	if err := sqldb.Exec(ctx, tx, `DELETE FROM volume WHERE instance = $1`, i.ID); err != nil {
		return err
	}
	for _, v := range i.Volumes {
		if err := instances.InsertVolume(ctx, tx, i.ID, v); err != nil {
			return err
		}
	}
	return nil
}

// rebuildsOf returns the full names of the instances that live jobs rebuild from or to an image, with their
// projects.
func rebuildsOf(ctx context.Context, tx *sqldb.Tx, image string) ([]catalogue.User, error) {
	all, err := sqldb.List(ctx, tx, scanSide, `SELECT `+sideColumns+` FROM rebuild
		WHERE EXISTS (SELECT 1 FROM job WHERE job.id = rebuild.job AND job.`+jobs.Live+`) ORDER BY job, side`)
	var names []catalogue.User
	for _, i := range all {
		if slices.Contains(imagesOf(i), image) {
			names = append(names, catalogue.User{Project: i.Project, Name: i.FullName().String()})
		}
	}
	slices.SortFunc(names, func(a, b catalogue.User) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(names), err
}

// endRebuild deletes the stored sides of a rebuild job, unless the job can be resumed. They are the
// only record of the disks that the job could not remove.
func endRebuild(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, o seedbed.JobResult) error {
	if j.Kind != seedbed.JobRebuild || o.State == seedbed.JobFailed || o.State == seedbed.JobIncomplete {
		return nil
	}
	tx.Later(`DELETE FROM rebuild WHERE job = $1`, j.ID)
	return nil
}

// reclaim adds to the instance the disks that its rebuilds left behind, so that its removal also
// removes them. Their images are left out, because they no longer matter.
func reclaim(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	left, err := leftBy(ctx, tx, id)
	if err != nil {
		return err
	}
	for _, v := range left {
		err := sqldb.Exec(ctx, tx, `INSERT INTO volume (pool, name, instance, idx, size)
			SELECT $1, $2, $3, COALESCE(MAX(idx) + 1, 0), $4 FROM volume WHERE instance = $3 ON CONFLICT DO NOTHING`, v.Pool, v.Name, id, v.Size)
		if err != nil {
			return err
		}
	}
	return nil
}

// leftBy returns the disks that the rebuilds of an instance left behind and that it does not have: the old disks of a rebuild that
// failed, and the disks of both sides if it could not be undone.
func leftBy(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) (left []seedbed.Volume, err error) {
	sides, err := sqldb.List(ctx, tx, scanSide,
		`SELECT `+sideColumns+` FROM rebuild JOIN (SELECT id, state, created, instance AS made FROM job) AS j ON j.id = job
		WHERE made = $1 AND (side = $2 OR state = $3) ORDER BY created, side`,
		id, seedbed.RebuildBefore, seedbed.JobIncomplete)
	if err != nil || len(sides) == 0 {
		return nil, err
	}
	inst, err := instances.ReadOne(ctx, tx, id)
	for _, side := range sides {
		for _, v := range side.Volumes {
			same := func(w seedbed.Volume) bool { return w.Pool == v.Pool && w.Name == v.Name }
			if !slices.ContainsFunc(inst.Volumes, same) && !slices.ContainsFunc(left, same) {
				left = append(left, v)
			}
		}
	}
	return left, err
}

// uncancellable returns why a job can no longer be cancelled, or nil if it can.
func uncancellable(j seedbed.Job) error {
	if j.State == seedbed.JobUndoing || !j.Final {
		return nil
	}
	switch j.Kind {
	case seedbed.JobRebuild:
		return seedbed.Errorf(seedbed.ErrConflict, "job %s has rebuilt its instance already, and removes the former disks", j.ID.Short())
	case seedbed.JobResize: // the guest may use the new space at once
		return seedbed.Errorf(seedbed.ErrConflict, "job %s is already growing the disk, which cannot be undone", j.ID.Short())
	case seedbed.JobFlatten:
		return seedbed.Errorf(seedbed.ErrConflict, "job %s has made the volumes independent already", j.ID.Short())
	case seedbed.JobCreate: // they may belong to another by then
		return seedbed.Errorf(seedbed.ErrConflict, "job %s is already releasing its disks, which then belong to no instance", j.ID.Short())
	}
	return seedbed.Errorf(seedbed.ErrConflict, "job %s is already in a stage that cannot be undone", j.ID.Short())
}
