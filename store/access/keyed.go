package access

import (
	"context"
	"crypto/rand"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// kept is a row of keyed_request.
type kept struct {
	digest  []byte
	changed bool
	answer  []byte // nil until there is one
	at      time.Time
}

func scanKept(r sqldb.Row) (k kept, err error) {
	err = r.Scan(&k.digest, &k.changed, &k.answer, sqldb.ToTime(&k.at))
	return k, err
}

// BeginRequest begins to carry out a request with an idempotency key, or returns the answer that it
// had. Without an answer, the caller carries it out and then calls EndRequest, and until then
// RenewRequest. BeginRequest returns ErrInUse while another caller carries it out, which it takes to
// be gone after that silence. It returns ErrConflict if the key was used for another request, or if
// the request was carried out by a process that ended before it had kept the answer.
func (s *Store) BeginRequest(
	ctx context.Context, k seedbed.KeyedRequest, silence time.Duration,
) (_ seedbed.KeyedRequest, answer []byte, err error) {
	k.Run = rand.Text()
	_, err = s.db.Change(ctx, "begin a request with an idempotency key", func(tx *sqldb.Tx) error {
		answer = nil
		now, err := s.db.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		made, err := sqldb.Affect(ctx, tx, `INSERT INTO keyed_request (id, digest, run, changed, at) VALUES ($1, $2, $3, 0, $4)
			ON CONFLICT DO NOTHING`, k.ID[:], k.Digest[:], k.Run, sqldb.Micros(now))
		if err != nil || made == 1 {
			return err
		}
		was, err := sqldb.One(ctx, tx, scanKept, sqldb.ErrAgain, `
			UPDATE keyed_request SET at = at WHERE id = $1 RETURNING digest, changed, answer, at`, k.ID[:])
		switch {
		case err != nil:
			return err
		case string(was.digest) != string(k.Digest[:]):
			return seedbed.Errorf(seedbed.ErrConflict, "this Idempotency-Key was used for another request: send each request with a key of its own")
		case was.answer != nil:
			answer = was.answer
			return sqldb.ErrUnchanged
		case now.Sub(was.at).Abs() < silence:
			return seedbed.Errorf(seedbed.ErrInUse, "the request with this Idempotency-Key is still being carried out: send it again in a second")
		case was.changed:
			return seedbed.Errorf(seedbed.ErrConflict, "the request with this Idempotency-Key was carried out, but seedbedd ended before it "+
				"had kept the answer: look at what there is, and at the audit log")
		}
		return sqldb.Exec(ctx, tx, `UPDATE keyed_request SET run = $1, at = $2 WHERE id = $3`, k.Run, sqldb.Micros(now), k.ID[:])
	})
	return k, answer, err
}

// RenewRequest says that the request is still being carried out.
func (s *Store) RenewRequest(ctx context.Context, k seedbed.KeyedRequest) error {
	_, err := s.db.Change(ctx, "renew a request with an idempotency key", func(tx *sqldb.Tx) error {
		now, err := s.db.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `UPDATE keyed_request SET at = $1 WHERE id = $2 AND run = $3 AND answer IS NULL`,
			sqldb.Micros(now), k.ID[:], k.Run)
	})
	return err
}

// EndRequest keeps the answer to the request. If it failed and has changed nothing, EndRequest
// forgets the request instead, so that it can be sent again.
func (s *Store) EndRequest(ctx context.Context, k seedbed.KeyedRequest, answer []byte, failed bool) error {
	return s.db.Update(ctx, "keep the answer to a request with an idempotency key", func(tx *sqldb.Tx) error {
		if failed {
			gone, err := sqldb.Affect(ctx, tx, `DELETE FROM keyed_request WHERE id = $1 AND run = $2 AND answer IS NULL AND changed = 0`,
				k.ID[:], k.Run)
			if err != nil || gone > 0 {
				return err
			}
		}
		now, err := s.db.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `UPDATE keyed_request SET answer = $1, at = $2 WHERE id = $3 AND run = $4 AND answer IS NULL`,
			answer, sqldb.Micros(now), k.ID[:], k.Run)
	})
}

// noteChange records, in the transaction of the change, that a request with an idempotency key has
// changed something. The transaction fails if another caller carries out the request by now.
func noteChange(tx *sqldb.Tx, k *seedbed.KeyedRequest) {
	var changed int64
	sqldb.LaterOne(tx, &changed, sqldb.Value[int64],
		seedbed.Errorf(seedbed.ErrUnavailable, "the request took so long that another one with its Idempotency-Key is carried out by now"),
		`UPDATE keyed_request SET changed = 1 WHERE id = $1 AND run = $2 RETURNING changed`, k.ID[:], k.Run)
}

// CountRequests counts the requests that DropRequests would delete.
func (s *Store) CountRequests(ctx context.Context, before time.Time) (int, error) {
	return s.db.Count(ctx, "count requests with an idempotency key", `SELECT COUNT(*) FROM keyed_request WHERE at < $1`, before)
}

// DropRequests deletes the requests with an idempotency key from before, with their answers, and
// returns how many there were.
func (s *Store) DropRequests(ctx context.Context, before time.Time) (int, error) {
	return s.db.Drop(ctx, "drop requests with an idempotency key", `DELETE FROM keyed_request WHERE at < $1`, before)
}
