package store

import (
	"context"
	"encoding/json"

	"seedbed"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/nodes"
	"seedbed/store/sqldb"
)

// checkMigrate validates the input of a migrate job.
func checkMigrate(j seedbed.Job) error {
	var spec seedbed.MigrateSpec
	if err := readSpec(j, &spec); err != nil {
		return err
	}
	if err := nodes.CheckName(spec.To); err != nil {
		return err
	}
	if spec.From == spec.To {
		return seedbed.Errorf(seedbed.ErrInvalid, "a migrate job from node %q to itself: expected another node", spec.To)
	}
	_, err := seedbed.ParseInstanceID(string(j.Instance))
	return err
}

// acceptMigrate completes the row of a job that takes an instance to another node. The instance counts for both nodes from then on. It
// returns ErrConflict if the instance is not as the request saw it, and ErrNotFound without the node.
func acceptMigrate(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	var asked seedbed.MigrateSpec
	if err := readSpec(*j, &asked); err != nil {
		return err
	}
	// Before the instance, as a removal of the node does.
	if _, err := nodes.HoldNode(ctx, tx, asked.To); err != nil {
		return err
	}
	if asked.Lost {
		// It must still be fenced, and not be admitted before the job is there: see Readmit.
		switch from, err := nodes.HoldNode(ctx, tx, asked.From); {
		case err != nil:
			return err
		case from.Fencing.Fenced.IsZero():
			return seedbed.Errorf(seedbed.ErrConflict, "node %q is back: request it again", asked.From)
		}
	}
	// Before the instance, as others that put it into a group do.
	group, err := placementGroupOf(ctx, tx, j.Instance)
	if err == nil {
		err = instances.HoldGroup(ctx, tx, group, j.Instance, asked.To, asked.From)
	}
	if err != nil {
		return err
	}
	if err := acceptSwitch(ctx, tx, j); err != nil {
		return err
	}
	switch now, err := placementGroupOf(ctx, tx, j.Instance); { // no job changes it any more
	case err != nil:
		return err
	case now != group:
		return seedbed.Errorf(seedbed.ErrConflict, "instance %q has come into another placement group: request it again", j.Subject)
	}
	var spec seedbed.MigrateSpec
	if err := readSpec(*j, &spec); err != nil {
		return err
	}
	if j.Node != spec.From || spec.Was != asked.Was {
		return seedbed.Errorf(seedbed.ErrConflict, "instance %q is %s on node %s now: request it again", j.Subject, spec.Was, j.Node)
	}
	home, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT home FROM instance WHERE id = $1`, j.Instance)
	if err != nil {
		return err
	}
	spec.WasHome = home
	if j.Spec, err = json.Marshal(spec); err != nil {
		return err
	}
	return setTarget(ctx, tx, *j, spec.To)
}

// placementGroupOf returns the qualified name of the placement group of an instance; empty for none.
func placementGroupOf(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) (string, error) {
	return sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT COALESCE(placement_group, '') FROM instance WHERE id = $1`, id)
}

// setTarget records the node that the instance of a job is on its way to; empty for none.
func setTarget(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, node string) error {
	return sqldb.Exec(ctx, tx, `UPDATE instance SET target = $1, revision = revision + 1, changed = $2 WHERE id = $3 AND target <> $1`,
		node, sqldb.Micros(sqldb.Now()), j.Instance)
}

// resumableMigrate prepares an instance for a migrate job that is resumed, or undone again. The instance must be where the job left it.
func resumableMigrate(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	var spec seedbed.MigrateSpec
	if err := readSpec(j, &spec); err != nil {
		return err
	}
	node, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT node FROM instance WHERE id = $1`, j.Instance)
	if err != nil {
		return err
	}
	moved, err := sqldb.One(ctx, tx, sqldb.Value[int], nil, `SELECT 1 FROM job WHERE instance = $1 AND kind = $2 AND created > $3 LIMIT 1`,
		j.Instance, seedbed.JobMigrate, sqldb.Micros(j.Created))
	switch {
	case err != nil:
		return err
	case moved == 1 || node != spec.From && node != spec.To:
		return seedbed.Errorf(seedbed.ErrConflict, "instance %q has been taken to another node since: request it again", j.Subject)
	case node == spec.To:
		return nil
	}
	// The group may have got other instances since, and the instance another group.
	group, err := placementGroupOf(ctx, tx, j.Instance)
	if err == nil {
		err = instances.HoldGroup(ctx, tx, group, j.Instance, spec.To, spec.From)
	}
	if err != nil {
		return err
	}
	return setTarget(ctx, tx, j, spec.To)
}

// endMigrate ends what acceptMigrate began, unless the instance has arrived.
func endMigrate(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, to seedbed.JobState) error {
	if j.Kind != seedbed.JobMigrate || to == seedbed.JobSucceeded {
		return nil
	}
	return setTarget(ctx, tx, j, "")
}

// arriving returns the migrate job that takes an instance to that node; the zero Job for none.
func arriving(ctx context.Context, tx *sqldb.Tx, node string) (seedbed.Job, error) {
	return sqldb.One(ctx, tx, jobs.ScanJob, nil, `SELECT `+jobs.JobColumns+` FROM job WHERE kind = $1 AND `+jobs.Live+`
		AND instance IN (SELECT id FROM instance WHERE target = $2) ORDER BY created LIMIT 1`, seedbed.JobMigrate, node)
}
