package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"seedbed"
)

// Publish makes node serve the instance of a running job from the revision
// that it returns on. The documents go out as blobs, which the record names; a
// nil one means none. The instance's maintenance events are added to the record.
// The same record again keeps its revision.
func (db *DB) Publish(ctx context.Context, ref seedbed.JobRef, node string, g seedbed.Guest, docs seedbed.Documents) (revision int64, err error) {
	if err := checkNode(node); err != nil {
		return 0, err
	}
	err = cmp.Or(seedbed.CheckDocument("user-data", docs.UserData), seedbed.CheckDocument("vendor-data", docs.VendorData))
	if err != nil {
		return 0, within(fmt.Sprintf("instance %q", g.Name), err)
	}
	g.UserData, g.VendorData = blobOf(docs.UserData), blobOf(docs.VendorData)
	err = db.share(ctx, "publish", func(ctx context.Context, b *Batch) ([]notice, error) {
		tx := b.Tx
		if err := publishable(ctx, tx, ref, g.ID); err != nil {
			return nil, err
		}
		// A change of the instance that has found no record is over before this one is,
		// so that who looks at the instance afterwards sees it. The order is that of Refresh.
		if lock := db.dialect.holdInstance; lock != "" {
			if err := exec(ctx, tx, lock, g.ID); err != nil {
				return nil, err
			}
		}
		g := g
		if g.Maintenance, err = maintenanceOf(ctx, tx, "", g.ID); err != nil {
			return nil, err
		}
		record, err := json.Marshal(g)
		if err != nil {
			return nil, err
		}
		old, err := readServed(ctx, tx, node, g.ID)
		if err != nil {
			return nil, err
		}
		if old.record == string(record) {
			revision = old.revision
			return nil, errUnchanged
		}
		// The node's row is locked before any blob, here and in bury.
		if revision, err = nextRevision(ctx, tx, node); err != nil {
			return nil, err
		}
		if err := keepBlobs(ctx, tx, docs); err != nil {
			return nil, err
		}
		err = exec(ctx, tx, `
			INSERT INTO feed (node, instance, revision, record, blob, vendor) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (node, instance) DO UPDATE SET revision = excluded.revision, record = excluded.record, blob = excluded.blob, vendor = excluded.vendor`,
			node, g.ID, revision, string(record), null(sumOf(g.UserData)), null(sumOf(g.VendorData)))
		if err != nil {
			return nil, err
		}
		return nil, retireBlobs(ctx, tx, old)
	})
	if err != nil {
		return 0, err
	}
	db.published.ring()
	return revision, nil
}

// FeedHint is closed when a job of this process next publishes or retracts an
// instance: what comes on any other way only rings [DB.Hint]. It is only a hint, as that is.
func (db *DB) FeedHint() <-chan struct{} { return db.published.next() }

// keepBlobs keeps the documents, in the order in which retireBlobs locks them.
func keepBlobs(ctx context.Context, tx *Tx, docs seedbed.Documents) error {
	named := map[string][]byte{sumOf(blobOf(docs.UserData)): docs.UserData, sumOf(blobOf(docs.VendorData)): docs.VendorData}
	for _, sum := range slices.Sorted(maps.Keys(named)) {
		if sum == "" {
			continue
		}
		err := exec(ctx, tx, `INSERT INTO blob (sha256, data) VALUES ($1, $2) ON CONFLICT (sha256) DO UPDATE SET unused_since = NULL`, sum, named[sum])
		if err != nil {
			return err
		}
	}
	return nil
}

// blobOf names a document; nil for none.
func blobOf(data []byte) *seedbed.Blob {
	if data == nil {
		return nil
	}
	digest := sha256.Sum256(data)
	return &seedbed.Blob{SHA256: hex.EncodeToString(digest[:]), Size: int64(len(data))}
}

func sumOf(b *seedbed.Blob) string {
	if b == nil {
		return ""
	}
	return b.SHA256
}

// Retract makes node stop serving the instance of a job, from the revision that
// it returns on. Again, it keeps its revision; it is 0 when node never had the instance.
func (db *DB) Retract(ctx context.Context, ref seedbed.JobRef, node string, id seedbed.InstanceID) (revision int64, err error) {
	if err := checkNode(node); err != nil {
		return 0, err
	}
	err = db.share(ctx, "retract", func(ctx context.Context, b *Batch) ([]notice, error) {
		tx := b.Tx
		if err := holdFor(ctx, tx, ref, id, seedbed.JobRunning, seedbed.JobUndoing); err != nil {
			return nil, err
		}
		old, err := readServed(ctx, tx, node, id)
		if err != nil {
			return nil, err
		}
		if revision = old.revision; old.record == "" {
			return nil, errUnchanged
		}
		revision, err = bury(ctx, tx, node, id, old, db.limits.tombstones)
		return nil, err
	})
	if err != nil {
		return 0, err
	}
	db.published.ring()
	return revision, nil
}

// holdFor is hold of a job that is about that instance and in one of those states.
func holdFor(ctx context.Context, tx *Tx, ref seedbed.JobRef, id seedbed.InstanceID, states ...seedbed.JobState) error {
	j, err := hold(ctx, tx, ref)
	if err != nil {
		return err
	}
	if j.Instance != id {
		return seedbed.Errorf(seedbed.ErrInvalid, "job %s is not about instance %s", j.ID.Short(), clean(string(id), 80))
	}
	for _, s := range states {
		if j.State == s {
			return nil
		}
	}
	return orConflict(nil, "job %s is %s and publishes nothing", j.ID.Short(), j.State)
}

func checkNode(node string) error {
	const longest = 253 // a domain name (RFC 1035)
	if node == "" || len(node) > longest {
		return seedbed.Errorf(seedbed.ErrInvalid, "node name %q has %d bytes: want 1 to %d", clean(node, 80), len(node), longest)
	}
	return nil
}

// served is a row of the feed; a tombstone has no record.
type served struct {
	revision             int64
	record, blob, vendor string
}

// readServed reads what node has of an instance, the zero value when nothing.
func readServed(ctx context.Context, tx *Tx, node string, id seedbed.InstanceID) (served, error) {
	return one(ctx, tx, func(r Row) (s served, err error) {
		var record, blob, vendor sql.NullString
		err = r.Scan(&s.revision, &record, &blob, &vendor)
		s.record, s.blob, s.vendor = record.String, blob.String, vendor.String
		return s, err
	}, nil, `SELECT revision, record, blob, vendor FROM feed WHERE node = $1 AND instance = $2`, node, id)
}

// nextRevision counts the node's revision up and locks it until the transaction
// ends, so that no revision becomes visible before a lower one.
func nextRevision(ctx context.Context, tx *Tx, node string) (int64, error) {
	if err := exec(ctx, tx, `INSERT INTO feed_node (node) VALUES ($1) ON CONFLICT (node) DO NOTHING`, node); err != nil {
		return 0, err
	}
	return one(ctx, tx, value[int64], nil, `UPDATE feed_node SET revision = revision + 1 WHERE node = $1 RETURNING revision`, node)
}

// retractAll takes an instance out of the feed of every node that serves it.
func retractAll(ctx context.Context, tx *Tx, id seedbed.InstanceID, keep int) error {
	nodes, err := list(ctx, tx, value[string], `SELECT node FROM feed WHERE instance = $1 AND record IS NOT NULL ORDER BY node`, id)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		old, err := readServed(ctx, tx, node, id)
		if err != nil {
			return err
		}
		if _, err := bury(ctx, tx, node, id, old, keep); err != nil {
			return err
		}
	}
	return nil
}

// bury makes a record a tombstone. Of those the node keeps the newest only:
// who comes back from before the others starts from a snapshot.
func bury(ctx context.Context, tx *Tx, node string, id seedbed.InstanceID, old served, keep int) (int64, error) {
	revision, err := nextRevision(ctx, tx, node)
	if err != nil {
		return 0, err
	}
	err = exec(ctx, tx, `UPDATE feed SET revision = $1, record = NULL, blob = NULL, vendor = NULL WHERE node = $2 AND instance = $3`, revision, node, id)
	if err != nil {
		return 0, err
	}
	if err := retireBlobs(ctx, tx, old); err != nil {
		return 0, err
	}
	floor, err := one(ctx, tx, value[int64], nil, `
		SELECT revision FROM feed WHERE node = $1 AND record IS NULL ORDER BY revision DESC LIMIT 1 OFFSET $2`, node, keep)
	if err != nil || floor == 0 {
		return revision, err
	}
	if err := exec(ctx, tx, `DELETE FROM feed WHERE node = $1 AND record IS NULL AND revision <= $2`, node, floor); err != nil {
		return 0, err
	}
	return revision, exec(ctx, tx, `UPDATE feed_node SET floor = $1 WHERE node = $2`, floor, node)
}

// blobGrace is how long a blob outlives its last record, for a follower that
// has read the record and not yet asked for the blob.
const blobGrace = time.Hour

// retireBlobs marks the blobs of a record that is gone.
func retireBlobs(ctx context.Context, tx *Tx, old served) error {
	return cmp.Or(retireBlob(ctx, tx, min(old.blob, old.vendor)), retireBlob(ctx, tx, max(old.blob, old.vendor)))
}

// retireBlob marks a blob, unless a record has it, and deletes those that were
// marked long ago.
func retireBlob(ctx context.Context, tx *Tx, sum string) error {
	t := now()
	if sum != "" {
		// Whoever publishes the blob locks its row too: with the lock held, the
		// next statement sees the record of one who came first.
		if err := exec(ctx, tx, `UPDATE blob SET unused_since = unused_since WHERE sha256 = $1`, sum); err != nil {
			return err
		}
		err := exec(ctx, tx, `UPDATE blob SET unused_since = $1 WHERE sha256 = $2 AND NOT EXISTS (SELECT 1 FROM feed WHERE blob = $2 OR vendor = $2)`, micros(t), sum)
		if err != nil {
			return err
		}
	}
	return exec(ctx, tx, `DELETE FROM blob WHERE unused_since < $1`, micros(t.Add(-blobGrace)))
}
