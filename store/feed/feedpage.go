package feed

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/nodes"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// FeedPage returns what changed for node after revision since, in the order of revisions, at most
// 1000 changes. It returns a snapshot of everything that the node serves if since belongs to
// another generation, is older than the oldest tombstone kept, or is after the head. The page's
// Revision is the last one that the page covers.
func (s *Store) FeedPage(ctx context.Context, node string, since int64, gen string) (page seedbed.FeedPage, err error) {
	if err := nodes.CheckName(node); err != nil {
		return page, err
	}
	err = s.db.View(ctx, "read feed", func(tx *sqldb.Tx) error {
		var head, floor int64
		err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(revision), 0), COALESCE(MAX(floor), 0) FROM feed_node WHERE node = $1`,
			node).Scan(&head, &floor)
		if err != nil {
			return err
		}
		if page.Generation, err = generation(ctx, tx); err != nil {
			return err
		}
		if page.TokenKey, err = sqldb.Setting(ctx, tx, SettingTokenKey); err != nil {
			return err
		}
		if page.Networks, err = instances.ReadNetworks(ctx, tx); err != nil {
			return err
		}
		if page.Nodes, page.Tunnels, err = overlayNodes(ctx, tx, page.Networks); err != nil {
			return err
		}
		if page.Groups, err = instances.ReadSecurityGroups(ctx, tx); err != nil {
			return err
		}
		if page.Site, err = site(ctx, tx); err != nil {
			return err
		}
		if page.Maintenance, err = maintenanceOf(ctx, tx, node, ""); err != nil {
			return err
		}
		page.Revision = head
		if page.Snapshot = gen != page.Generation || since < floor || since > head; page.Snapshot {
			page.Changes, err = sqldb.List(ctx, tx, scanChange, `
				SELECT revision, instance, record FROM feed WHERE node = $1 AND record IS NOT NULL ORDER BY revision`, node)
			return err
		}
		page.Changes, err = sqldb.List(ctx, tx, scanChange, `
			SELECT revision, instance, record FROM feed WHERE node = $1 AND revision > $2 ORDER BY revision LIMIT $3`, node, since, s.Limits.Page)
		if n := len(page.Changes); n == s.Limits.Page {
			page.Revision = page.Changes[n-1].Revision
		}
		return err
	})
	return page, err
}

// TouchForOverlays gives every node of the feed a new revision after a change of the nodes' addresses, if there are overlays.
func TouchForOverlays(ctx context.Context, tx *sqldb.Tx) error {
	some, err := sqldb.One(ctx, tx, sqldb.Value[int], nil, `SELECT 1 FROM network WHERE vni > 0 LIMIT 1`)
	if err != nil || some == 0 {
		return err
	}
	return TouchNodes(ctx, tx)
}

// overlayNodes returns the addresses and the tunnels of nodes, by name, if one of the networks is an overlay.
func overlayNodes(ctx context.Context, tx *sqldb.Tx, networks []seedbed.Network) (
	addrs map[string]netip.Addr, tunnels map[string]seedbed.Tunnel, err error,
) {
	if !slices.ContainsFunc(networks, func(n seedbed.Network) bool { return n.VNI != 0 }) {
		return nil, nil, nil
	}
	return nodes.ReadAddresses(ctx, tx)
}

func scanChange(r sqldb.Row) (c seedbed.FeedChange, err error) {
	var record sql.NullString
	if err := r.Scan(&c.Revision, &c.Instance, &record); err != nil || !record.Valid {
		return c, err
	}
	c.Record = json.RawMessage(record.String)
	return c, nil
}

// Blob returns the document with that lower-case hexadecimal SHA-256.
func (s *Store) Blob(ctx context.Context, sha256 string) (data []byte, err error) {
	err = s.db.View(ctx, "read blob", func(tx *sqldb.Tx) error {
		data, err = sqldb.One(ctx, tx, func(r sqldb.Row) (b []byte, err error) {
			err = r.Scan(sqldb.ToBlob(&b))
			return b, err
		}, seedbed.Errorf(seedbed.ErrNotFound, "blob %q does not exist", sqldb.Clean(sha256, 80)),
			`SELECT data FROM blob WHERE sha256 = $1`, sha256)
		return err
	})
	return data, err
}

// SetApplied records that node serves everything up to revision, as of at. A lower revision than
// the recorded one does not replace it. A revision that was never assigned is ErrConflict: the node
// follows another database.
func (s *Store) SetApplied(ctx context.Context, node string, revision int64, at time.Time) error {
	if err := nodes.CheckName(node); err != nil {
		return err
	}
	err := s.writes.Share(ctx, "record applied revision", func(ctx context.Context, b *groupcommit.Batch) ([]outbox.Event, error) {
		tx := b.Tx
		if err := sqldb.Exec(ctx, tx, `INSERT INTO feed_node (node) VALUES ($1) ON CONFLICT (node) DO NOTHING`, node); err != nil {
			return nil, err
		}
		n, err := sqldb.Affect(ctx, tx, `
			UPDATE feed_node SET applied = CASE WHEN applied < $1 THEN $1 ELSE applied END, applied_at = $2 WHERE node = $3 AND revision >= $1`,
			revision, sqldb.Micros(sqldb.OrNow(at)), node)
		if err != nil || n == 1 {
			return nil, err
		}
		return nil, sqldb.OrConflict(nil,
			"node %q says that it has applied revision %d, which was never sent: it must start from a snapshot", node, revision)
	})
	if err == nil {
		s.applied.Wake()
	}
	return err
}

// AppliedHint returns a channel that is closed when this process next records what a node has
// applied. Like that of [DB.Hint], it is only a hint.
func (s *Store) AppliedHint() <-chan struct{} { return s.applied.Next() }

// Applied returns the last revision that node reported to serve, and when. It returns 0 and the
// zero time if the node has not reported.
func (s *Store) Applied(ctx context.Context, node string) (revision int64, at time.Time, err error) {
	err = s.db.View(ctx, "read applied revision", func(tx *sqldb.Tx) error {
		_, err := sqldb.One(ctx, tx, func(r sqldb.Row) (struct{}, error) {
			return struct{}{}, r.Scan(&revision, sqldb.ToTime(&at))
		}, nil, `SELECT applied, applied_at FROM feed_node WHERE node = $1`, node)
		return err
	})
	return revision, at, err
}

// The settings that the store creates itself, once per database.
const (
	// SettingGeneration shows a follower of the feed that the database was replaced.
	SettingGeneration = "feed.generation"
	// SettingTokenKey is the key of IMDSv2 session tokens. The feed carries it to the nodes.
	SettingTokenKey = "metadata.token_key"
)

// generation returns the random ID of this database.
func generation(ctx context.Context, tx *sqldb.Tx) (string, error) {
	b, err := sqldb.Setting(ctx, tx, SettingGeneration)
	return hex.EncodeToString(b), err
}
