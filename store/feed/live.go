package feed

import (
	"context"
	"encoding/json"
	"fmt"

	"seedbed"
	"seedbed/store/instances"
	"seedbed/store/sqldb"
)

// LiveDocuments returns at most limit instances whose user-data follows a profile or document that
// has changed since that user-data was made. Instances whose profile no longer exists keep their
// user-data. Because the rows themselves show what is due, nothing is lost if the process that was
// to update them fails.
func (s *Store) LiveDocuments(ctx context.Context, limit int) (due []seedbed.LiveDocument, err error) {
	err = s.db.View(ctx, "list user-data that is due", func(tx *sqldb.Tx) error {
		due, err = sqldb.List(ctx, tx, func(r sqldb.Row) (d seedbed.LiveDocument, err error) {
			err = r.Scan(&d.Instance, &d.Source, &d.Want)
			return d, err
		}, `
			SELECT i.id, i.source, CAST(p.revision AS text) || '.' || CAST(COALESCE(u.revision, 0) AS text) FROM instance i
				JOIN profile p ON p.name = i.profile LEFT JOIN userdata u ON u.name = p.document
				WHERE i.follow = 'live' AND i.state <> 'removing'
					AND i.source <> CAST(p.revision AS text) || '.' || CAST(COALESCE(u.revision, 0) AS text)
			LIMIT $1`, limit)
		return err
	})
	return due, err
}

// SetDocuments replaces the documents of an instance and has every node that serves the instance
// serve them. was is what the instance's user-data was made from, and source is what docs were made
// from. SetDocuments does nothing if was is out of date or the instance no longer exists. The rest
// of the record does not change.
func (s *Store) SetDocuments(ctx context.Context, id seedbed.InstanceID, was, source string, docs seedbed.Documents) error {
	return s.db.Update(ctx, "change user-data", func(tx *sqldb.Tx) error {
		n, err := sqldb.Affect(ctx, tx,
			`UPDATE instance SET revision = revision WHERE id = $1 AND source = $2 AND follow = 'live' AND state <> 'removing'`, id, was)
		if err != nil || n == 0 {
			return sqldb.OrUnchanged(err)
		}
		inst, err := instances.ReadOne(ctx, tx, id)
		if err != nil {
			return err
		}
		if sameDocument(inst.UserData, docs.UserData) && sameDocument(inst.VendorData, docs.VendorData) {
			return sqldb.Exec(ctx, tx, `UPDATE instance SET source = $1 WHERE id = $2`, source, id)
		}
		inst.UserData, inst.VendorData = docs.UserData, docs.VendorData
		if err := instances.CheckServed(inst); err != nil {
			return sqldb.Within(fmt.Sprintf("instance %q", inst.Name), err)
		}
		err = sqldb.Exec(ctx, tx,
			`UPDATE instance SET source = $1, user_data = $2, vendor_data = $3, revision = revision + 1, changed = $4 WHERE id = $5`,
			source, sqldb.Blob(docs.UserData), sqldb.Blob(docs.VendorData), sqldb.Micros(sqldb.Now()), id)
		if err != nil {
			return err
		}
		nodes, err := sqldb.List(ctx, tx, sqldb.Value[string],
			`SELECT node FROM feed WHERE instance = $1 AND record IS NOT NULL ORDER BY node`, id)
		if err != nil {
			return err
		}
		for _, node := range nodes {
			if err := redocument(ctx, tx, node, id, docs); err != nil {
				return err
			}
		}
		return nil
	})
}

// PinDocuments has an instance keep its documents because no new ones can be made. was is what they
// were made from.
func (s *Store) PinDocuments(ctx context.Context, id seedbed.InstanceID, was, source string) error {
	return s.db.Update(ctx, "keep user-data", func(tx *sqldb.Tx) error {
		n, err := sqldb.Affect(ctx, tx, `UPDATE instance SET source = $1 WHERE id = $2 AND source = $3`, source, id, was)
		if err == nil && n == 0 {
			return sqldb.ErrUnchanged
		}
		return err
	})
}

// sameDocument reports whether two documents are equal. Nil means no document, which differs from
// an empty one.
func sameDocument(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) }

// redocument replaces the documents of an instance that node serves.
func redocument(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID, docs seedbed.Documents) error {
	// Lock the node's row first, and before any blob, as Publish and Retract do.
	revision, err := nextRevision(ctx, tx, node)
	if err != nil {
		return err
	}
	old, err := readServed(ctx, tx, node, id)
	if err != nil || old.record == "" {
		return err
	}
	var g seedbed.Guest
	if err := json.Unmarshal([]byte(old.record), &g); err != nil {
		return fmt.Errorf("record of instance %s: %w", id, err)
	}
	g.UserData, g.VendorData = blobOf(docs.UserData), blobOf(docs.VendorData)
	record, err := json.Marshal(g)
	if err != nil {
		return err
	}
	if err := keepBlobs(ctx, tx, docs); err != nil {
		return err
	}
	err = sqldb.Exec(ctx, tx, `UPDATE feed SET revision = $1, record = $2, blob = $3, vendor = $4 WHERE node = $5 AND instance = $6`,
		revision, string(record), sqldb.Null(sumOf(g.UserData)), sqldb.Null(sumOf(g.VendorData)), node, id)
	if err != nil {
		return err
	}
	return retireBlobs(ctx, tx, old)
}
