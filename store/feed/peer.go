package feed

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/store/nodes"
	"seedbed/store/sqldb"
)

// A peer has one row, whichever nodes serve it: that of the node that served it last. Its revisions are those of
// all peers, so that a node asks for what changed since the last one that it has. Peers are written last in a
// transaction, after the rows of nodes and blobs.

// Peers returns the peers of node that changed after revision since, in the order of revisions. It returns a snapshot
// of all if since belongs to another generation, is older than the oldest tombstone kept, or is after the last revision.
func (s *Store) Peers(ctx context.Context, node string, since int64, gen string) (page seedbed.PeerPage, err error) {
	if err := nodes.CheckName(node); err != nil {
		return page, err
	}
	err = s.db.View(ctx, "read peers", func(tx *sqldb.Tx) error {
		var floor int64
		err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(revision), 0), COALESCE(MAX(floor), 0) FROM peer_head`).Scan(&page.Revision, &floor)
		if err != nil {
			return err
		}
		now, err := generation(ctx, tx)
		if err != nil {
			return err
		}
		if page.Snapshot = gen != now || since < floor || since > page.Revision; page.Snapshot {
			page.Changes, err = sqldb.List(ctx, tx, scanChange,
				`SELECT revision, instance, record FROM peer WHERE record IS NOT NULL AND node <> $1 ORDER BY revision`, node)
			return err
		}
		// One that came to this node is a peer no more.
		page.Changes, err = sqldb.List(ctx, tx, scanChange, `
			SELECT revision, instance, CASE WHEN node = $1 THEN NULL ELSE record END FROM peer
			WHERE revision > $2 ORDER BY revision`, node, since)
		return err
	})
	return page, err
}

// peer is a row of table peer. A tombstone has an empty record.
type peer struct{ node, record string }

func readPeer(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) (peer, error) {
	return sqldb.One(ctx, tx, func(r sqldb.Row) (p peer, err error) {
		var record sql.NullString
		err = r.Scan(&p.node, &record)
		p.record = record.String
		return p, err
	}, nil, `SELECT node, record FROM peer WHERE instance = $1`, id)
}

// setPeer tells the other nodes of a guest, as node serves it now, if it has a NIC in a network that reaches them.
func setPeer(ctx context.Context, tx *sqldb.Tx, node string, g seedbed.Guest) error {
	wide, err := wideNetworks(ctx, tx, g.NICs)
	if err != nil {
		return err
	}
	old, err := readPeer(ctx, tx, g.ID)
	if err != nil {
		return err
	}
	if len(wide) == 0 {
		return dropPeer(ctx, tx, node, g.ID, old, 0)
	}
	raw, err := json.Marshal(g.Peer(node, wide))
	if err != nil {
		return err
	}
	if old == (peer{node, string(raw)}) {
		return nil
	}
	return writePeer(ctx, tx, node, g.ID, string(raw))
}

// changePeer is setPeer after a change of the guest's record on any node.
func changePeer(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	old, err := readPeer(ctx, tx, id)
	if err != nil || old.record == "" {
		return err
	}
	return setServed(ctx, tx, old.node, id)
}

// setServed is setPeer with the record that node serves.
func setServed(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID) error {
	s, err := readServed(ctx, tx, node, id)
	if err != nil || s.record == "" {
		return err
	}
	var g seedbed.Guest
	if err := json.Unmarshal([]byte(s.record), &g); err != nil {
		return fmt.Errorf("record of instance %s: %w", id, err)
	}
	return setPeer(ctx, tx, node, g)
}

// writePeer stores a record, or a tombstone if record is empty.
func writePeer(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID, record string) error {
	// The row is locked until the transaction ends, so that no revision becomes visible before a lower one.
	revision, err := sqldb.One(ctx, tx, sqldb.Value[int64], nil, `INSERT INTO peer_head (id, revision, floor) VALUES (1, 1, 0)
		ON CONFLICT (id) DO UPDATE SET revision = peer_head.revision + 1 RETURNING revision`)
	if err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `INSERT INTO peer (instance, node, revision, record) VALUES ($1, $2, $3, $4)
		ON CONFLICT (instance) DO UPDATE SET node = excluded.node, revision = excluded.revision, record = excluded.record`,
		id, node, revision, sqldb.Null(record))
}

// dropPeer tells the other nodes that node no longer serves a guest. The newest tombstones, keep of them, stay; a follower
// that has not read the older ones gets a snapshot. 0 keeps all.
func dropPeer(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID, old peer, keep int) error {
	if old.record == "" || old.node != node {
		return nil
	}
	if err := writePeer(ctx, tx, node, id, ""); err != nil || keep == 0 {
		return err
	}
	floor, err := sqldb.One(ctx, tx, sqldb.Value[int64], nil,
		`SELECT revision FROM peer WHERE record IS NULL ORDER BY revision DESC LIMIT 1 OFFSET $1`, keep)
	if err != nil || floor == 0 {
		return err
	}
	if err := sqldb.Exec(ctx, tx, `DELETE FROM peer WHERE record IS NULL AND revision <= $1`, floor); err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `UPDATE peer_head SET floor = $1`, floor)
}

// retractPeer tells the other nodes that node no longer serves a guest. The guest is then another node's that still serves
// it, if there is one.
func retractPeer(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID, keep int) error {
	old, err := readPeer(ctx, tx, id)
	if err != nil || old.record == "" || old.node != node {
		return err
	}
	other, err := sqldb.One(ctx, tx, sqldb.Value[string], nil,
		`SELECT node FROM feed WHERE instance = $1 AND record IS NOT NULL ORDER BY node LIMIT 1`, id)
	if err != nil {
		return err
	}
	if other != "" {
		return setServed(ctx, tx, other, id)
	}
	return dropPeer(ctx, tx, node, id, old, keep)
}

// wideNetworks returns those networks of NICs that reach several nodes.
func wideNetworks(ctx context.Context, tx *sqldb.Tx, nics []seedbed.GuestNIC) ([]string, error) {
	w := &sqldb.Where{}
	var names []any
	for _, nic := range nics {
		names = append(names, nic.Network)
	}
	if len(names) == 0 {
		return nil, nil
	}
	w.And("(kind = %s OR vni > 0)", seedbed.NetworkBridged)
	w.And("name IN (%s"+strings.Repeat(", %s", len(names)-1)+")", names...)
	return sqldb.List(ctx, tx, sqldb.Value[string], `SELECT name FROM network WHERE `+w.String(), w.Args...)
}
