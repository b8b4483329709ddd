package feed

import (
	"context"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/store/sqldb"
)

// NodeBlob is like Blob, but only for a document that a record of node refers to. Any other
// document is seedbed.ErrNotFound, like one that does not exist.
func (s *Store) NodeBlob(ctx context.Context, node, sha256 string) (data []byte, err error) {
	err = s.db.View(ctx, "read blob", func(tx *sqldb.Tx) error {
		data, err = sqldb.One(ctx, tx, func(r sqldb.Row) (b []byte, err error) {
			err = r.Scan(sqldb.ToBlob(&b))
			return b, err
		}, seedbed.Errorf(seedbed.ErrNotFound, "no record of node %q names a blob %q", sqldb.Clean(node, 80), sqldb.Clean(sha256, 80)), `
			SELECT data FROM blob WHERE sha256 = $1 AND (EXISTS (SELECT 1 FROM feed WHERE blob = $1 AND node = $2)
				OR EXISTS (SELECT 1 FROM feed WHERE vendor = $1 AND node = $2))`, sha256, node)
		return err
	})
	return data, err
}

// NodeGuests returns those of ids that node serves, or served recently and no other node serves
// now.
func (s *Store) NodeGuests(ctx context.Context, node string, ids []seedbed.InstanceID) (own []seedbed.InstanceID, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if len(ids) > MaxGuestEvents {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%d instances at once: expected at most %d", len(ids), MaxGuestEvents)
	}
	places, args := make([]string, len(ids)), []any{node}
	for i, id := range ids {
		places[i] = fmt.Sprintf("$%d", i+2)
		args = append(args, id)
	}
	err = s.db.View(ctx, "read whose guests", func(tx *sqldb.Tx) error {
		own, err = sqldb.List(ctx, tx, sqldb.Value[seedbed.InstanceID],
			`SELECT instance FROM feed WHERE node = $1 AND instance IN (`+strings.Join(places, ", ")+`)
			AND (record IS NOT NULL OR NOT EXISTS (SELECT 1 FROM feed AS other WHERE other.instance = feed.instance AND other.record IS NOT NULL))`,
			args...)
		return err
	})
	return own, err
}
