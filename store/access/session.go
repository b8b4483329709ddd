package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

const sessionColumns = `id, issuer, subject, name, member_of, created, expires, used, peer`

func scanSession(r sqldb.Row) (s seedbed.Session, err error) {
	var groups string
	err = r.Scan(&s.ID, &s.Issuer, &s.Subject, &s.Name, &groups, sqldb.ToTime(&s.Created), sqldb.ToTime(&s.Expires),
		sqldb.ToTime(&s.Used), &s.From)
	if err == nil {
		err = json.Unmarshal([]byte(groups), &s.Groups)
	}
	return s, err
}

// BeginSession stores a session of a person, which ends then, with the digest of its secret, and
// returns it. from is the address of the peer.
func (s *Store) BeginSession(
	ctx context.Context, p seedbed.Person, ends time.Time, from string, sum [sha256.Size]byte,
) (seedbed.Session, error) {
	if err := p.Check(); err != nil {
		return seedbed.Session{}, err
	}
	var id [8]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	made := seedbed.Session{
		ID: hex.EncodeToString(id[:]), Person: p, Created: sqldb.Now(), Expires: sqldb.OrNow(ends), From: sqldb.Clean(from, 80),
	}
	groups, err := json.Marshal(append([]string{}, p.Groups...))
	if err != nil {
		return seedbed.Session{}, err
	}
	err = s.db.Update(ctx, "begin session "+made.ID+" of "+p.Actor(), func(tx *sqldb.Tx) error {
		return sqldb.Exec(ctx, tx, `INSERT INTO session (sha256, `+sessionColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			sum[:], made.ID, p.Issuer, p.Subject, p.Name, string(groups), sqldb.Micros(made.Created), sqldb.Micros(made.Expires), 0, made.From)
	})
	return made, err
}

// SessionOf returns the session whose secret has that digest, and records its use. It returns
// ErrNotFound if there is no such session, or if it was ended or has expired.
func (s *Store) SessionOf(ctx context.Context, sum [sha256.Size]byte) (found seedbed.Session, err error) {
	none := seedbed.Errorf(seedbed.ErrNotFound, "there is no such session")
	found, err = sqldb.Cached(s.db, "session", string(sum[:]), func() (found seedbed.Session, err error) {
		err = s.db.View(ctx, "read session", func(tx *sqldb.Tx) error {
			found, err = sqldb.One(ctx, tx, scanSession, none, `SELECT `+sessionColumns+` FROM session WHERE sha256 = $1`, sum[:])
			return err
		})
		return found, err
	})
	at := sqldb.Now()
	if err == nil && found.Expired(at) {
		return seedbed.Session{}, none
	}
	if err == nil && at.Sub(found.Used) >= usedEvery {
		found.Used = at
		_, err = s.db.Change(ctx, "note use of session", func(tx *sqldb.Tx) error {
			return sqldb.Exec(ctx, tx, `UPDATE session SET used = $1 WHERE id = $2`, sqldb.Micros(at), found.ID)
		})
	}
	return found, err
}

// Sessions returns the sessions that have not expired, sorted by ID.
func (s *Store) Sessions(ctx context.Context) (all []seedbed.Session, err error) {
	err = s.db.View(ctx, "list sessions", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanSession,
			`SELECT `+sessionColumns+` FROM session WHERE expires > $1 ORDER BY id`, sqldb.Micros(sqldb.Now()))
		return err
	})
	return all, err
}

// Session returns the session with that ID. It returns ErrNotFound if it was ended or has expired.
func (s *Store) Session(ctx context.Context, id string) (found seedbed.Session, err error) {
	err = s.db.View(ctx, "read session", func(tx *sqldb.Tx) error {
		found, err = sqldb.One(ctx, tx, scanSession, seedbed.NoSession(id),
			`SELECT `+sessionColumns+` FROM session WHERE id = $1 AND expires > $2`, id, sqldb.Micros(sqldb.Now()))
		return err
	})
	return found, err
}

// EndSession ends a session, which must pass the checks. Its holder is refused from now on.
func (s *Store) EndSession(ctx context.Context, id string, checks ...func(seedbed.Session) error) error {
	return s.db.Update(ctx, "end session "+sqldb.Clean(id, 80), func(tx *sqldb.Tx) error {
		found, err := sqldb.One(ctx, tx, scanSession, seedbed.NoSession(id),
			`UPDATE session SET id = id WHERE id = $1 AND expires > $2 RETURNING `+sessionColumns, id, sqldb.Micros(sqldb.Now()))
		if err != nil {
			return err
		}
		if err := sqldb.Pass(found, checks); err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM session WHERE id = $1`, id)
	})
}

// KeepSignIn stores a step of a sign-in until then: what is known of it, by a digest of the secret with
// which it continues. A ticket is kept in the same way. It returns ErrConflict if there was such a step already.
func (s *Store) KeepSignIn(ctx context.Context, id [sha256.Size]byte, data []byte, until time.Time) error {
	_, err := s.db.Change(ctx, "keep a sign-in", func(tx *sqldb.Tx) error {
		made, err := sqldb.Affect(ctx, tx, `INSERT INTO sign_in (id, data, expires) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
			id[:], append([]byte{}, data...), sqldb.Micros(until))
		if err == nil && made == 0 {
			err = seedbed.Errorf(seedbed.ErrConflict, "this sign-in was used already")
		}
		return err
	})
	return err
}

// TakeSignIn removes a step of a sign-in, and returns what was kept with it. It returns ErrNotFound if
// there is none, or it has expired.
func (s *Store) TakeSignIn(ctx context.Context, id [sha256.Size]byte) (data []byte, err error) {
	_, err = s.db.Change(ctx, "continue a sign-in", func(tx *sqldb.Tx) error {
		data, err = sqldb.One(ctx, tx, sqldb.Value[[]byte], seedbed.Errorf(seedbed.ErrNotFound, "there is no such sign-in, or it took too long"),
			`DELETE FROM sign_in WHERE id = $1 AND expires > $2 RETURNING data`, id[:], sqldb.Micros(sqldb.Now()))
		return err
	})
	return data, err
}

// CountSessions counts the sessions that DropSessions would delete.
func (s *Store) CountSessions(ctx context.Context, before time.Time) (int, error) {
	return s.db.Count(ctx, "count sessions", `SELECT COUNT(*) FROM session WHERE expires < $1`, before)
}

// DropSessions deletes the sessions that expired before then, and returns how many there were.
func (s *Store) DropSessions(ctx context.Context, before time.Time) (int, error) {
	return s.db.Drop(ctx, "drop sessions", `DELETE FROM session WHERE expires < $1`, before)
}

// CountSignIns counts the steps of sign-ins that DropSignIns would delete.
func (s *Store) CountSignIns(ctx context.Context, before time.Time) (int, error) {
	return s.db.Count(ctx, "count sign-ins", `SELECT COUNT(*) FROM sign_in WHERE expires < $1`, before)
}

// DropSignIns deletes the steps of sign-ins that expired before then, and returns how many there were.
func (s *Store) DropSignIns(ctx context.Context, before time.Time) (int, error) {
	return s.db.Drop(ctx, "drop sign-ins", `DELETE FROM sign_in WHERE expires < $1`, before)
}
