package jobs

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// Held is a job whose row is locked, with the number of its events.
type Held struct {
	seedbed.Job
	Events int64
}

func scanHeld(r sqldb.Row) (*Held, error) {
	h := &Held{}
	j, err := ScanJob(extended{r, &h.Events})
	h.Job = j
	return h, err
}

// extended is a row that ends with one more column.
type extended struct {
	sqldb.Row
	last any
}

func (r extended) Scan(dest ...any) error { return r.Row.Scan(append(dest, r.last)...) }

// batchJobs holds the jobs that the writes of a batch are about.
type batchJobs struct {
	held    map[seedbed.JobID]*Held
	awaited []seedbed.JobID // the jobs to be ended that other jobs wait for
}

// HoldInBatch is like hold, and adds the number of the job's events. In a shared transaction
// all jobs of the batch were read before. If the job is missing then, because another transaction
// has locked it or ref no longer owns it, the write runs in a transaction of its own.
func HoldInBatch(ctx context.Context, b *groupcommit.Batch, ref seedbed.JobRef) (*Held, error) {
	if b.Shared {
		held := groupcommit.Of[batchJobs](b).held
		if j := held[ref.ID]; j != nil && j.Epoch == ref.Epoch && j.Owner != "" {
			rowChanged(b, ref.ID)
			return j, nil
		}
		return nil, groupcommit.ErrApart
	}
	j, err := Hold(ctx, b.Tx, ref)
	if err != nil {
		return nil, err
	}
	events, err := sqldb.Value[int64](b.QueryRowContext(ctx, `SELECT events FROM job WHERE id = $1`, j.ID))
	return &Held{j, events}, err
}

// rowChanged notes that a write of a shared batch has changed the row of a job, so that what the
// batch read of it before is old. A later write of the job runs in its own transaction.
func rowChanged(b *groupcommit.Batch, id seedbed.JobID) {
	delete(groupcommit.Of[batchJobs](b).held, id)
}

// IsAwaited reports whether other jobs wait for a job that a write of a shared batch ends.
func IsAwaited(b *groupcommit.Batch, id seedbed.JobID) bool {
	return slices.Contains(groupcommit.Of[batchJobs](b).awaited, id)
}

// Prepare reads and locks the jobs that the writes of a batch are about. Of those that end, it
// notes which ones other jobs wait for.
func Prepare(ctx context.Context, b *groupcommit.Batch, writes []groupcommit.Change) error {
	var ids, ending []any
	for _, w := range writes {
		if w.Job == nil {
			continue
		}
		ids = append(ids, w.Job.ID)
		if w.Ends {
			ending = append(ending, w.Job.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	in, args := anyOf(ids)
	all, err := sqldb.List(ctx, b.Tx, scanHeld,
		`SELECT `+JobColumns+`, events FROM job WHERE id IN `+in+` ORDER BY id`+b.Dialect.LockFree, args...)
	if err != nil {
		return err
	}
	known := groupcommit.Of[batchJobs](b)
	known.held = map[seedbed.JobID]*Held{}
	for _, j := range all {
		known.held[j.ID] = j
	}
	if len(ending) == 0 {
		return nil
	}
	in, args = anyOf(ending)
	known.awaited, err = sqldb.List(ctx, b.Tx, sqldb.Value[seedbed.JobID], `SELECT after FROM job WHERE blocked = 1 AND after IN `+in, args...)
	return err
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
