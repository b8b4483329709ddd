package store

import (
	"context"
	"database/sql"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// heldJob is a job whose row is locked, with the part of its history that a step needs.
type heldJob struct {
	seedbed.Job
	events int64                         // the number of its events
	stages map[string]seedbed.StageState // by name
}

// hold is like the function hold, and adds the job's history. In a shared transaction all jobs of
// the batch were read before. If the job is missing then, because another transaction has locked it
// or ref no longer owns it, the write runs in a transaction of its own.
func (b *Batch) hold(ctx context.Context, ref seedbed.JobRef) (*heldJob, error) {
	if b.shared {
		if j := b.jobs[ref.ID]; j != nil && j.Epoch == ref.Epoch && j.Owner != "" {
			delete(b.jobs, ref.ID) // a second write of the job runs in its own transaction
			return j, nil
		}
		return nil, errApart
	}
	j, err := hold(ctx, b.Tx, ref)
	if err != nil {
		return nil, err
	}
	all, err := readHistory(ctx, b.Tx, []*heldJob{{Job: j}})
	if err != nil {
		return nil, err
	}
	return all[j.ID], nil
}

// readJobs reads and locks the jobs that the writes of a batch are about.
func (b *Batch) readJobs(ctx context.Context, batch []*groupcommit.Write[write]) error {
	var ids []any
	for _, w := range batch {
		if w.Do.job != nil && w.Ctx.Err() == nil {
			ids = append(ids, w.Do.job.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	in, args := anyOf(ids)
	all, err := sqldb.List(ctx, b.Tx, func(r sqldb.Row) (*heldJob, error) {
		j, err := scanJob(r)
		return &heldJob{Job: j}, err
	}, `SELECT `+jobColumns+` FROM job WHERE id IN `+in+` ORDER BY id`+b.dialect.LockFree, args...)
	if err != nil || len(all) == 0 {
		return err
	}
	b.jobs, err = readHistory(ctx, b.Tx, all)
	return err
}

// readHistory adds the history to jobs whose rows are locked.
func readHistory(ctx context.Context, tx *sqldb.Tx, all []*heldJob) (map[seedbed.JobID]*heldJob, error) {
	jobs := map[seedbed.JobID]*heldJob{}
	var ids []any
	for _, j := range all {
		j.stages = map[string]seedbed.StageState{}
		jobs[j.ID], ids = j, append(ids, j.ID)
	}
	in, args := anyOf(ids)
	_, err := sqldb.List(ctx, tx, func(r sqldb.Row) (struct{}, error) {
		var job seedbed.JobID
		var events int64
		var name, state sql.NullString
		err := r.Scan(&job, &events, &name, &state)
		if j := jobs[job]; err == nil && j != nil {
			j.events = events
			if name.Valid {
				j.stages[name.String] = seedbed.StageState(state.String)
			}
		}
		return struct{}{}, err
	}, `SELECT job.id, job.events, job_stage.name, job_stage.state FROM job LEFT JOIN job_stage ON job_stage.job = job.id WHERE job.id IN `+in, args...)
	return jobs, err
}

// anyOf returns a list of placeholders for IN, and their arguments. Their number is a power of two,
// so that a few prepared statements serve any number of values; the last value is repeated.
func anyOf(all []any) (in string, args []any) {
	n := 1
	for n < len(all) {
		n *= 2
	}
	args = append(args, all...)
	for len(args) < n {
		args = append(args, all[len(all)-1])
	}
	return sqldb.Placeholders(1, n), args
}
