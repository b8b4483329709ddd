package feed

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"seedbed"
	"seedbed/store/nodes"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// The limits of the maintenance events of one node or one instance.
const (
	maxActive  = 32 // active at the same time
	maxHistory = 20 // completed or canceled; only the latest are kept
	maxReason  = 512
)

var maintenanceCodes = []string{"instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"}

const maintenanceColumns = `id, code, description, not_before, not_after, state`

func scanMaintenance(r sqldb.Row) (m seedbed.Maintenance, err error) {
	err = r.Scan(&m.ID, &m.Code, &m.Description, sqldb.ToTime(&m.NotBefore), sqldb.ToTime(&m.NotAfter), &m.State)
	return m, err
}

// maintenanceOf returns the events of a node, or of an instance if node is empty: the active ones
// by their time, and then the others, latest first.
func maintenanceOf(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID) ([]seedbed.Maintenance, error) {
	all, err := sqldb.List(ctx, tx, scanMaintenance, `
		SELECT `+maintenanceColumns+` FROM maintenance WHERE node = $1 AND instance = $2
		ORDER BY CASE state WHEN 'active' THEN 0 ELSE 1 END, CASE state WHEN 'active' THEN not_before ELSE -changed END, id`, node, id)
	if len(all) == 0 {
		all = nil // equal to the record from before there were any
	}
	return all, err
}

// Maintenance returns the events of a node, or of an instance if node is empty: the active ones by
// their time, and then the latest completed and canceled ones.
func (s *Store) Maintenance(ctx context.Context, node string, id seedbed.InstanceID) (all []seedbed.Maintenance, err error) {
	err = s.db.View(ctx, "list maintenance", func(tx *sqldb.Tx) error {
		all, err = maintenanceOf(ctx, tx, node, id)
		return err
	})
	return sqldb.OrEmpty(all), err
}

// AddMaintenance announces an event to every guest of a node, or to one instance if node is empty,
// and returns it with its ID. It returns ErrInvalid for an invalid event, ErrNotFound for an
// unknown node or instance, and ErrFull if there are too many active events.
func (s *Store) AddMaintenance(
	ctx context.Context, node string, id seedbed.InstanceID, m seedbed.Maintenance,
) (seedbed.Maintenance, error) {
	if err := checkMaintenance(m); err != nil {
		return seedbed.Maintenance{}, err
	}
	err := s.db.Update(ctx, "announce maintenance", func(tx *sqldb.Tx) (err error) {
		if err := checkSubject(ctx, tx, node, id); err != nil {
			return err
		}
		n, err := sqldb.One(ctx, tx, sqldb.Value[int], nil,
			`SELECT COUNT(*) FROM maintenance WHERE node = $1 AND instance = $2 AND state = 'active'`, node, id)
		if err != nil {
			return err
		}
		if n >= maxActive {
			return seedbed.Errorf(seedbed.ErrFull, "%d events are announced already, which is the most: complete or cancel some", n)
		}
		m, err = announce(ctx, tx, node, id, "", m)
		return err
	})
	if err != nil {
		return seedbed.Maintenance{}, err
	}
	return m, nil
}

// announce adds an active event, and returns it with its ID. cause is empty if an operator announces it.
func announce(
	ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID, cause string, m seedbed.Maintenance,
) (seedbed.Maintenance, error) {
	var random [9]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	m.ID, m.State = "instance-event-"+hex.EncodeToString(random[:])[:17], seedbed.MaintenanceActive
	m.NotBefore = sqldb.OrNow(m.NotBefore)
	if !m.NotAfter.IsZero() {
		m.NotAfter = sqldb.OrNow(m.NotAfter)
	}
	err := sqldb.Exec(ctx, tx, `
		INSERT INTO maintenance (`+maintenanceColumns+`, node, instance, changed, cause) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		m.ID, m.Code, m.Description, sqldb.Micros(m.NotBefore), sqldb.Micros(m.NotAfter), m.State, node, id, sqldb.Micros(sqldb.Now()), cause)
	if err != nil {
		return m, err
	}
	if err := tellMaintenance(ctx, tx, node, id); err != nil {
		return m, err
	}
	return m, outbox.Emit(ctx, tx, ofMaintenance(seedbed.EventMaintenanceAnnounced, node, m)...)
}

func checkMaintenance(m seedbed.Maintenance) error {
	switch {
	case !slices.Contains(maintenanceCodes, m.Code):
		return seedbed.Errorf(seedbed.ErrInvalid, "maintenance code %q is unknown: expected %s",
			sqldb.Clean(m.Code, 80), strings.Join(maintenanceCodes, ", "))
	case m.NotBefore.IsZero():
		return seedbed.Errorf(seedbed.ErrInvalid, "maintenance has no not_before: expected when it may begin")
	case !m.NotAfter.IsZero() && m.NotAfter.Before(m.NotBefore):
		return seedbed.Errorf(seedbed.ErrInvalid, "maintenance ends before it begins")
	case len(m.Description) > maxReason || sqldb.Clean(m.Description, maxReason) != m.Description ||
		strings.ContainsAny(m.Description, "\r\n"):
		return seedbed.Errorf(seedbed.ErrInvalid, "maintenance description is not usable: expected one line of at most %d bytes", maxReason)
	}
	return nil
}

// checkSubject returns ErrNotFound if the node or instance does not exist. It locks the row of an
// instance.
func checkSubject(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID) error {
	if node == "" {
		n, err := sqldb.Affect(ctx, tx, `UPDATE instance SET revision = revision WHERE id = $1`, id)
		if err == nil && n == 0 {
			err = seedbed.Errorf(seedbed.ErrNotFound, "instance %s does not exist", sqldb.Clean(string(id), 80))
		}
		return err
	}
	if err := nodes.CheckName(node); err != nil {
		return err
	}
	_, err := sqldb.One(ctx, tx, sqldb.Value[int], seedbed.Errorf(seedbed.ErrNotFound, "node %q was never heard of", sqldb.Clean(node, 80)), `
		SELECT 1 FROM node WHERE name = $1 UNION ALL SELECT 1 FROM feed_node WHERE node = $1
		UNION ALL SELECT 1 FROM instance WHERE node = $1 LIMIT 1`, node)
	return err
}

// EndMaintenance makes an active event completed or canceled, and returns it. It returns
// ErrNotFound if the event does not exist, and ErrConflict if it has ended.
func (s *Store) EndMaintenance(ctx context.Context, event, state string) (m seedbed.Maintenance, err error) {
	if state != seedbed.MaintenanceCompleted && state != seedbed.MaintenanceCanceled {
		return m, seedbed.Errorf(seedbed.ErrInvalid, "maintenance state %q is not an end: expected completed or canceled", sqldb.Clean(state, 80))
	}
	err = s.db.Update(ctx, "end maintenance", func(tx *sqldb.Tx) error {
		type subject struct {
			node string
			id   seedbed.InstanceID
		}
		missing := seedbed.Errorf(seedbed.ErrNotFound, "maintenance event %q does not exist", sqldb.Clean(event, 80))
		of, err := sqldb.One(ctx, tx, func(r sqldb.Row) (s subject, err error) {
			err = r.Scan(&s.node, &s.id)
			return s, err
		}, missing, `SELECT node, instance FROM maintenance WHERE id = $1
			ORDER BY CASE state WHEN 'active' THEN 0 ELSE 1 END, instance LIMIT 1`, event)
		if err != nil {
			return err
		}
		m, err = endMaintenance(ctx, tx, of.node, of.id, event, state)
		return err
	})
	if err != nil {
		return seedbed.Maintenance{}, err
	}
	return m, nil
}

// endMaintenance makes an active event of a node, or of an instance, completed or canceled, and returns it. It returns ErrConflict if
// the event has ended.
func endMaintenance(
	ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID, event, state string,
) (m seedbed.Maintenance, err error) {
	n, err := sqldb.Affect(ctx, tx, `
		UPDATE maintenance SET state = $1, changed = $2 WHERE id = $3 AND node = $4 AND instance = $5 AND state = 'active'`,
		state, sqldb.Micros(sqldb.Now()), event, node, id)
	if err != nil {
		return m, err
	}
	m, err = sqldb.One(ctx, tx, scanMaintenance, seedbed.Errorf(seedbed.ErrNotFound, "maintenance event %q does not exist", event),
		`SELECT `+maintenanceColumns+` FROM maintenance WHERE id = $1 AND node = $2 AND instance = $3`, event, node, id)
	if err == nil && n == 0 {
		err = seedbed.Errorf(seedbed.ErrConflict, "maintenance event %s is %s already", m.ID, m.State)
	}
	if err == nil {
		err = cutHistory(ctx, tx, node, id)
	}
	if err == nil {
		err = tellMaintenance(ctx, tx, node, id)
	}
	if err != nil {
		return m, err
	}
	return m, outbox.Emit(ctx, tx, ofMaintenance("node.maintenance."+state, node, m)...)
}

// cutHistory deletes the oldest ended events of a node, or of an instance, above maxHistory.
func cutHistory(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID) error {
	return sqldb.Exec(ctx, tx, `
		DELETE FROM maintenance WHERE node = $1 AND instance = $2 AND state <> 'active' AND id NOT IN (
			SELECT id FROM maintenance WHERE node = $1 AND instance = $2 AND state <> 'active' ORDER BY changed DESC, id LIMIT $3)`,
		node, id, maxHistory)
}

// tellMaintenance brings a change to the guests: in the node's feed page, or in the instance's
// record.
func tellMaintenance(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID) error {
	if node != "" {
		_, err := nextRevision(ctx, tx, node)
		return err
	}
	return rewriteAll(ctx, tx, id, func(g seedbed.Guest) seedbed.Guest { return g })
}

// ofMaintenance returns the event of a node's maintenance. An instance's maintenance has no event.
func ofMaintenance(kind, node string, m seedbed.Maintenance) []outbox.Event {
	if node == "" {
		return nil
	}
	return []outbox.Event{{Kind: kind, Subject: node, Data: outbox.Fixed(map[string]any{"node": node, "maintenance": m})}}
}

// DropMaintenance deletes the maintenance events of a node or, if node is empty, of an instance.
func DropMaintenance(ctx context.Context, tx *sqldb.Tx, node string, id seedbed.InstanceID) error {
	if node != "" {
		return sqldb.Exec(ctx, tx, `DELETE FROM maintenance WHERE node = $1`, node)
	}
	return sqldb.Exec(ctx, tx, `DELETE FROM maintenance WHERE instance = $1`, id)
}
