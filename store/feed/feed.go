package feed

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
	"seedbed/store/groupcommit"
	"seedbed/store/jobs"
	"seedbed/store/nodes"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// Publish makes node serve the instance of a running job, from the revision that it returns. The
// documents become blobs that the record refers to; nil means no document. Publish adds the
// instance's maintenance events to the record. Publishing an equal record again keeps its revision.
func (s *Store) Publish(
	ctx context.Context, ref seedbed.JobRef, node string, g seedbed.Guest, docs seedbed.Documents,
) (revision int64, err error) {
	if err := nodes.CheckName(node); err != nil {
		return 0, err
	}
	err = cmp.Or(seedbed.CheckDocument("user-data", docs.UserData), seedbed.CheckDocument("vendor-data", docs.VendorData))
	if err != nil {
		return 0, sqldb.Within(fmt.Sprintf("instance %q", g.Name), err)
	}
	g.UserData, g.VendorData = blobOf(docs.UserData), blobOf(docs.VendorData)
	err = s.writes.Share(ctx, "publish", func(ctx context.Context, b *groupcommit.Batch) ([]outbox.Event, error) {
		tx := b.Tx
		if err := publishable(ctx, tx, ref, g.ID); err != nil {
			return nil, err
		}
		// A concurrent change of the instance that found no record to update must end before this
		// transaction reads the instance. The locks are taken in the order of Refresh.
		if lock := s.db.Dialect.HoldInstance; lock != "" {
			if err := sqldb.Exec(ctx, tx, lock, g.ID); err != nil {
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
			return nil, sqldb.ErrUnchanged
		}
		// Lock the node's row before any blob, here and in bury.
		if revision, err = nextRevision(ctx, tx, node); err != nil {
			return nil, err
		}
		if err := keepBlobs(ctx, tx, docs); err != nil {
			return nil, err
		}
		err = sqldb.Exec(ctx, tx, `
			INSERT INTO feed (node, instance, revision, record, blob, vendor) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (node, instance) DO UPDATE
				SET revision = excluded.revision, record = excluded.record, blob = excluded.blob, vendor = excluded.vendor`,
			node, g.ID, revision, string(record), sqldb.Null(sumOf(g.UserData)), sqldb.Null(sumOf(g.VendorData)))
		if err != nil {
			return nil, err
		}
		if err := retireBlobs(ctx, tx, old); err != nil {
			return nil, err
		}
		return nil, setPeer(ctx, tx, node, g)
	})
	if err != nil {
		return 0, err
	}
	s.published.Wake()
	return revision, nil
}

// FeedHint returns a channel that is closed when a job of this process next publishes or retracts
// an instance. All other changes of the feed only close the channel of [DB.Hint]. Like that one, it
// is only a hint.
func (s *Store) FeedHint() <-chan struct{} { return s.published.Next() }

// keepBlobs stores the documents, in the order in which retireBlobs locks them.
func keepBlobs(ctx context.Context, tx *sqldb.Tx, docs seedbed.Documents) error {
	named := map[string][]byte{sumOf(blobOf(docs.UserData)): docs.UserData, sumOf(blobOf(docs.VendorData)): docs.VendorData}
	for _, sum := range slices.Sorted(maps.Keys(named)) {
		if sum == "" {
			continue
		}
		err := sqldb.Exec(ctx, tx, `INSERT INTO blob (sha256, data) VALUES ($1, $2) ON CONFLICT (sha256) DO UPDATE SET unused_since = NULL`,
			sum, named[sum])
		if err != nil {
			return err
		}
	}
	return nil
}

// blobOf returns the reference to a document, or nil if data is nil.
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

// Retract makes node stop serving the instance of a job, from the revision that it returns.
// Retracting it again keeps the revision. The revision is 0 if node never served the instance.
func (s *Store) Retract(ctx context.Context, ref seedbed.JobRef, node string, id seedbed.InstanceID) (revision int64, err error) {
	if err := nodes.CheckName(node); err != nil {
		return 0, err
	}
	err = s.writes.Share(ctx, "retract", func(ctx context.Context, b *groupcommit.Batch) ([]outbox.Event, error) {
		tx := b.Tx
		if err := holdFor(ctx, tx, ref, id, seedbed.JobRunning, seedbed.JobUndoing); err != nil {
			return nil, err
		}
		old, err := readServed(ctx, tx, node, id)
		if err != nil {
			return nil, err
		}
		if revision = old.revision; old.record == "" {
			return nil, sqldb.ErrUnchanged
		}
		if revision, err = bury(ctx, tx, node, id, old, s.Limits.Tombstones); err != nil {
			return nil, err
		}
		return nil, retractPeer(ctx, tx, node, id, s.Limits.Tombstones)
	})
	if err != nil {
		return 0, err
	}
	s.published.Wake()
	return revision, nil
}

// served is a row of the feed. A tombstone has an empty record.
type served struct {
	revision             int64
	record, blob, vendor string
}

// readServed reads a node's row of an instance, or the zero value if there is none.
func readServed(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID) (served, error) {
	return sqldb.One(ctx, tx, func(r sqldb.Row) (s served, err error) {
		var record, blob, vendor sql.NullString
		err = r.Scan(&s.revision, &record, &blob, &vendor)
		s.record, s.blob, s.vendor = record.String, blob.String, vendor.String
		return s, err
	}, nil, `SELECT revision, record, blob, vendor FROM feed WHERE node = $1 AND instance = $2`, node, id)
}

// nextRevision increments the node's revision and locks it until the transaction ends, so that no
// revision becomes visible before a lower one.
func nextRevision(ctx context.Context, tx *sqldb.Tx, node string) (int64, error) {
	if err := sqldb.Exec(ctx, tx, `INSERT INTO feed_node (node) VALUES ($1) ON CONFLICT (node) DO NOTHING`, node); err != nil {
		return 0, err
	}
	return sqldb.One(ctx, tx, sqldb.Value[int64], nil, `UPDATE feed_node SET revision = revision + 1 WHERE node = $1 RETURNING revision`, node)
}

// RetractAll removes an instance from the feed of every node that serves it.
func RetractAll(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, keep int) error {
	nodes, err := sqldb.List(ctx, tx, sqldb.Value[string],
		`SELECT node FROM feed WHERE instance = $1 AND record IS NOT NULL ORDER BY node`, id)
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
	old, err := readPeer(ctx, tx, id)
	if err != nil {
		return err
	}
	return dropPeer(ctx, tx, old.node, id, old, keep)
}

// bury replaces a record with a tombstone. The node keeps only its newest tombstones; a follower
// that has not read the older ones gets a snapshot.
func bury(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID, old served, keep int) (int64, error) {
	revision, err := nextRevision(ctx, tx, node)
	if err != nil {
		return 0, err
	}
	err = sqldb.Exec(ctx, tx, `UPDATE feed SET revision = $1, record = NULL, blob = NULL, vendor = NULL WHERE node = $2 AND instance = $3`,
		revision, node, id)
	if err != nil {
		return 0, err
	}
	if err := retireBlobs(ctx, tx, old); err != nil {
		return 0, err
	}
	floor, err := sqldb.One(ctx, tx, sqldb.Value[int64], nil, `
		SELECT revision FROM feed WHERE node = $1 AND record IS NULL ORDER BY revision DESC LIMIT 1 OFFSET $2`, node, keep)
	if err != nil || floor == 0 {
		return revision, err
	}
	if err := sqldb.Exec(ctx, tx, `DELETE FROM feed WHERE node = $1 AND record IS NULL AND revision <= $2`, node, floor); err != nil {
		return 0, err
	}
	return revision, sqldb.Exec(ctx, tx, `UPDATE feed_node SET floor = $1 WHERE node = $2`, floor, node)
}

// BlobGrace is how long a blob outlives its last record, for a follower that has read the record
// but not yet fetched the blob.
const BlobGrace = time.Hour

// retireBlobs marks the blobs of an old record as unused.
func retireBlobs(ctx context.Context, tx *sqldb.Tx, old served) error {
	return cmp.Or(retireBlob(ctx, tx, min(old.blob, old.vendor)), retireBlob(ctx, tx, max(old.blob, old.vendor)))
}

// retireBlob marks a blob as unused, unless a record refers to it, and deletes the blobs that were
// marked more than blobGrace ago.
func retireBlob(ctx context.Context, tx *sqldb.Tx, sum string) error {
	t := sqldb.Now()
	if sum != "" {
		// A transaction that publishes the blob also locks its row. After this lock, the next
		// statement sees the record of such a transaction.
		if err := sqldb.Exec(ctx, tx, `UPDATE blob SET unused_since = unused_since WHERE sha256 = $1`, sum); err != nil {
			return err
		}
		err := sqldb.Exec(ctx, tx,
			`UPDATE blob SET unused_since = $1 WHERE sha256 = $2 AND NOT EXISTS (SELECT 1 FROM feed WHERE blob = $2 OR vendor = $2)`,
			sqldb.Micros(t), sum)
		if err != nil {
			return err
		}
	}
	return sqldb.Exec(ctx, tx, `DELETE FROM blob WHERE unused_since < $1`, sqldb.Micros(t.Add(-BlobGrace)))
}

// holdFor is hold for a job that must be about instance id and in one of states.
func holdFor(ctx context.Context, tx *sqldb.Tx, ref seedbed.JobRef, id seedbed.InstanceID, states ...seedbed.JobState) error {
	j, err := jobs.Hold(ctx, tx, ref)
	if err != nil {
		return err
	}
	if j.Instance != id {
		return seedbed.Errorf(seedbed.ErrInvalid, "job %s is not about instance %s", j.ID.Short(), sqldb.Clean(string(id), 80))
	}
	for _, s := range states {
		if j.State == s {
			return nil
		}
	}
	return sqldb.OrConflict(nil, "job %s is %s and publishes nothing", j.ID.Short(), j.State)
}

// publishable checks that a job may publish its instance in its current state. A rebuild that is
// undone publishes the old instance.
func publishable(ctx context.Context, tx *sqldb.Tx, ref seedbed.JobRef, id seedbed.InstanceID) error {
	j, err := jobs.ReadJob(ctx, tx, ref.ID)
	if err == nil && j.Kind == seedbed.JobRebuild {
		return holdFor(ctx, tx, ref, id, seedbed.JobRunning, seedbed.JobUndoing)
	}
	if err != nil {
		return err
	}
	return holdFor(ctx, tx, ref, id, seedbed.JobRunning)
}
