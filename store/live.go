package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"seedbed"
)

// bell tells those who wait that something happened.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed when the bell rings next.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// Revised is closed at the next change of a profile or userdata document by this
// process. It is only a hint, as [DB.Hint] is.
func (db *DB) Revised() <-chan struct{} { return db.revised.next() }

// LiveDocuments returns at most limit instances whose user-data follows a
// profile or document that was changed since it was made. Those whose profile is
// no more keep what they have. So what is due is told by the rows themselves,
// whatever happened to whoever was to do it.
func (db *DB) LiveDocuments(ctx context.Context, limit int) (due []seedbed.LiveDocument, err error) {
	err = db.view(ctx, "list user-data that is due", func(tx *Tx) error {
		due, err = list(ctx, tx, func(r Row) (d seedbed.LiveDocument, err error) {
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

// SetDocuments gives an instance whose user-data was made from was the documents
// that were made from source, and has every node that serves it serve them. It
// does nothing when somebody else did meanwhile, or the instance is no more.
// Nothing else of the record changes.
func (db *DB) SetDocuments(ctx context.Context, id seedbed.InstanceID, was, source string, docs seedbed.Documents) error {
	return db.update(ctx, "change user-data", func(tx *Tx) error {
		n, err := affect(ctx, tx, `UPDATE instance SET revision = revision WHERE id = $1 AND source = $2 AND follow = 'live' AND state <> 'removing'`, id, was)
		if err != nil || n == 0 {
			return orUnchanged(err)
		}
		inst, err := oneInstance(ctx, tx, id)
		if err != nil {
			return err
		}
		if sameDocument(inst.UserData, docs.UserData) && sameDocument(inst.VendorData, docs.VendorData) {
			return exec(ctx, tx, `UPDATE instance SET source = $1 WHERE id = $2`, source, id)
		}
		inst.UserData, inst.VendorData = docs.UserData, docs.VendorData
		if err := checkServed(inst); err != nil {
			return within(fmt.Sprintf("instance %q", inst.Name), err)
		}
		err = exec(ctx, tx, `UPDATE instance SET source = $1, user_data = $2, vendor_data = $3, revision = revision + 1, changed = $4 WHERE id = $5`,
			source, blob(docs.UserData), blob(docs.VendorData), micros(now()), id)
		if err != nil {
			return err
		}
		nodes, err := list(ctx, tx, value[string], `SELECT node FROM feed WHERE instance = $1 AND record IS NOT NULL ORDER BY node`, id)
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

// PinDocuments has an instance keep the documents that it has, since there can
// be no others; was is what they were made from.
func (db *DB) PinDocuments(ctx context.Context, id seedbed.InstanceID, was, source string) error {
	return db.update(ctx, "keep user-data", func(tx *Tx) error {
		n, err := affect(ctx, tx, `UPDATE instance SET source = $1 WHERE id = $2 AND source = $3`, source, id, was)
		if err == nil && n == 0 {
			return errUnchanged
		}
		return err
	})
}

// sameDocument tells whether two documents are; nil is none, and not an empty one.
func sameDocument(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) }

// redocument has node serve other documents for an instance that it serves.
func redocument(ctx context.Context, tx *Tx, node string, id seedbed.InstanceID, docs seedbed.Documents) error {
	// Whoever publishes or retracts on the node locks its row first, and that before any blob.
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
	err = exec(ctx, tx, `UPDATE feed SET revision = $1, record = $2, blob = $3, vendor = $4 WHERE node = $5 AND instance = $6`,
		revision, string(record), null(sumOf(g.UserData)), null(sumOf(g.VendorData)), node, id)
	if err != nil {
		return err
	}
	return retireBlobs(ctx, tx, old)
}
