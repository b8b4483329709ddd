package feed

import (
	"context"
	"maps"
	"slices"
	"time"

	"seedbed"
	"seedbed/store/nodes"
	"seedbed/store/sqldb"
)

// The limits of what guests report.
const (
	// MaxGuestEvents is the largest number of events in one call.
	MaxGuestEvents = 10000
	maxFields      = 4 << 10 // in bytes, as the guest plane clips them
	maxPath        = 1 << 10
	maxSpool       = 128
)

// AddGuestEvents records what guests did on node, as its spool delivers it. An event that was
// recorded before, by (node, spool, Seq), is ignored. A DHCP lease updates the table of leases. The
// first fetch of user-data and the first report set the instance's Fetched and Reported. What a
// guest did while the instance had another report token has no effect. Events of an unknown
// instance are kept too; of each instance the newest 10000 are kept. Events that are only accesses
// give no hint, because no one waits for them.
func (s *Store) AddGuestEvents(ctx context.Context, node, spool string, events []seedbed.GuestEvent) error {
	if err := nodes.CheckName(node); err != nil {
		return err
	}
	if len(events) > MaxGuestEvents || len(spool) > maxSpool {
		return seedbed.Errorf(seedbed.ErrInvalid, "%d guest events of a spool whose name has %d bytes: expected at most %d and %d",
			len(events), len(spool), MaxGuestEvents, maxSpool)
	}
	awaited := false
	added := map[seedbed.InstanceID]int{}
	var cut []seedbed.InstanceID
	changed, err := s.db.Change(ctx, "record guest events", func(tx *sqldb.Tx) error {
		awaited = false
		clear(added)
		for _, e := range events {
			e.At, e.Instance = sqldb.OrNow(e.At), seedbed.InstanceID(sqldb.Clean(string(e.Instance), 80))
			fresh, err := insertGuestEvent(ctx, tx, node, spool, e)
			if err != nil {
				return err
			}
			if !fresh {
				continue
			}
			added[e.Instance]++
			awaited = awaited || e.Kind != seedbed.GuestAccess || fetchedUserData(e)
			if err := takeEffect(ctx, tx, e); err != nil {
				return err
			}
		}
		if len(added) == 0 {
			return sqldb.ErrUnchanged
		}
		cut = s.overdue(added)
		if err := cutGuestEvents(ctx, tx, cut, s.Limits.GuestEvents); err != nil || !awaited {
			return err
		}
		return s.db.Announce(ctx, tx)
	})
	if changed {
		s.countGuestEvents(added, cut)
	}
	if changed && awaited {
		s.db.Wake()
	}
	return err
}

const guestEventColumns = `seq, instance, kind, at, mac, addr, until, method, path, status, bytes, fields`

func insertGuestEvent(ctx context.Context, tx *sqldb.Tx, node, spool string, e seedbed.GuestEvent) (fresh bool, err error) {
	n, err := sqldb.Affect(ctx, tx, `
		INSERT INTO guest_event (`+guestEventColumns+`, node, spool)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (node, spool, seq) DO NOTHING`,
		e.Seq, e.Instance, sqldb.Clean(e.Kind, 80), sqldb.Micros(e.At), sqldb.Text(e.MAC),
		sqldb.Text(e.Addr.WithZone("")), sqldb.Micros(e.Until),
		sqldb.Clean(e.Method, 80), sqldb.Clean(e.Path, maxPath), e.Status, e.Bytes, sqldb.AsJSON(clipFields(e.Fields)), node, spool)
	return n == 1, err
}

// clipFields keeps the fields that fit, in the order of their names.
func clipFields(fields map[string]string) map[string]string {
	var kept map[string]string
	room := maxFields
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		name := sqldb.Clean(k, min(room, 256))
		room -= len(name)
		v := sqldb.Clean(fields[k], room)
		if room -= len(v); name == "" {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[name] = v
	}
	return kept
}

// takeEffect applies an event to its instance.
func takeEffect(ctx context.Context, tx *sqldb.Tx, e seedbed.GuestEvent) error {
	const first = ` revision = revision + 1, changed = $1 WHERE id = $3`
	switch {
	case e.Kind == seedbed.GuestLease:
		return renewLease(ctx, tx, e)
	case e.Token != "":
		token, err := sqldb.LockOne(ctx, tx, sqldb.Value[string], nil, `UPDATE instance SET state = state WHERE id = $1 RETURNING report_token`,
			e.Instance)
		if err != nil || seedbed.TokenDigest(token) != e.Token {
			return err // the guest from before a rebuild did it, and the event comes late
		}
		e.Token = ""
		return takeEffect(ctx, tx, e)
	case e.Kind == seedbed.GuestReport:
		return sqldb.Exec(ctx, tx, `UPDATE instance SET reported = $2, host_key = $4,`+first+` AND reported IS NULL`,
			sqldb.Micros(sqldb.Now()), sqldb.Micros(e.At), e.Instance, seedbed.HostKey(e.Fields[seedbed.HostKeyField]))
	case e.Kind == seedbed.GuestPassword:
		return setPassword(ctx, tx, e.Instance, e.Fields["password"])
	case fetchedUserData(e):
		return sqldb.Exec(ctx, tx, `UPDATE instance SET fetched = $2,`+first+` AND fetched IS NULL`,
			sqldb.Micros(sqldb.Now()), sqldb.Micros(e.At), e.Instance)
	}
	return nil
}

// fetchedUserData reports whether the guest got its user-data, or learned that it has none (404). A
// refusal, such as for a missing token, does not count.
func fetchedUserData(e seedbed.GuestEvent) bool {
	return e.OfUserData() && (e.Method == "" || e.Method == "GET") && (e.Status < 400 || e.Status == 404)
}

// renewLease records the end of the DHCP lease of an existing NIC. An earlier end does not replace
// a later one.
func renewLease(ctx context.Context, tx *sqldb.Tx, e seedbed.GuestEvent) error {
	if e.Until.IsZero() {
		return nil
	}
	// Lock the NIC's row, so that its address is not released before the commit.
	if err := sqldb.Exec(ctx, tx, `UPDATE nic SET idx = idx WHERE mac = $1 AND instance = $2`, e.MAC.String(), e.Instance); err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `
		INSERT INTO lease (`+leaseColumns+`)
		SELECT mac, $2, instance, CAST($3 AS bigint) FROM nic WHERE mac = $1 AND instance = $4
		ON CONFLICT (mac) DO UPDATE SET addr = excluded.addr, instance = excluded.instance, until = excluded.until
		WHERE excluded.until > lease.until OR excluded.instance <> lease.instance`,
		e.MAC.String(), sqldb.Text(e.Addr.WithZone("")), sqldb.Micros(e.Until), e.Instance)
}

func scanGuestEvent(r sqldb.Row) (e seedbed.GuestEvent, err error) {
	err = r.Scan(&e.Seq, &e.Instance, &e.Kind, sqldb.ToTime(&e.At), sqldb.ToText(&e.MAC), sqldb.ToText(&e.Addr), sqldb.ToTime(&e.Until),
		&e.Method, &e.Path, &e.Status, &e.Bytes, sqldb.ToJSON(&e.Fields))
	return e, err
}

// GuestEvents returns the events of an instance, the last recorded first, at most limit and at most
// 10000.
func (s *Store) GuestEvents(ctx context.Context, id seedbed.InstanceID, limit int) (all []seedbed.GuestEvent, err error) {
	err = s.db.View(ctx, "list guest events", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanGuestEvent,
			`SELECT `+guestEventColumns+` FROM guest_event WHERE instance = $1 ORDER BY id DESC LIMIT $2`,
			id, sqldb.Bound(limit, s.Limits.GuestEvents))
		return err
	})
	return all, err
}

// oldGuestEvents selects the events before $1.
const oldGuestEvents = `FROM guest_event WHERE at < $1`

// CountGuestEvents counts the events that DropGuestEvents would delete.
func (s *Store) CountGuestEvents(ctx context.Context, before time.Time) (int, error) {
	return s.db.Count(ctx, "count guest events", `SELECT COUNT(*) `+oldGuestEvents, before)
}

// DropGuestEvents deletes the guest events before that time, and returns how many there were.
func (s *Store) DropGuestEvents(ctx context.Context, before time.Time) (int, error) {
	return s.db.Drop(ctx, "drop guest events", `DELETE `+oldGuestEvents, before)
}

// Limits bounds what would otherwise grow without end.
type Limits struct {
	Tombstones  int // kept by each node for followers that resume
	Page        int // changes of a feed page that is not a snapshot
	GuestEvents int // kept of one instance, the newest
	GuestMargin int // how many more there may be before they are cut
	Guests      int // instances whose events are counted at the same time
}
