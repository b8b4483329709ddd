package feed

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// What the events of a node come from that no operator announces: its own state.
const (
	causeCordon = "cordon"
	causeFence  = "fence"
)

// Cordon tells the guests of a node that it was cordoned, by an event, or that it no longer is: everything that was announced for the
// node ends then. What has begun is completed, and what has not is canceled.
func Cordon(ctx context.Context, tx *sqldb.Tx, node string, cordoned bool) error {
	if cordoned {
		_, err := announce(ctx, tx, node, "", causeCordon, seedbed.Maintenance{Code: "system-maintenance", NotBefore: sqldb.Now(),
			Description: "The host of this instance is to be maintained"})
		return err
	}
	return endCaused(ctx, tx, node, causeCordon, "")
}

// Fence tells the guests of a node that it was switched off, by an event, or that it is back. Those that are started elsewhere see the
// event among the completed ones.
func Fence(ctx context.Context, tx *sqldb.Tx, node string, fenced bool) error {
	if fenced {
		_, err := announce(ctx, tx, node, "", causeFence, seedbed.Maintenance{Code: "system-reboot", NotBefore: sqldb.Now(),
			Description: "The host of this instance was lost and was switched off"})
		return err
	}
	return endCaused(ctx, tx, node, causeFence)
}

// endCaused ends the active events of a node with one of the causes.
func endCaused(ctx context.Context, tx *sqldb.Tx, node string, causes ...string) error {
	for _, cause := range causes {
		active, err := sqldb.List(ctx, tx, scanMaintenance, `SELECT `+maintenanceColumns+` FROM maintenance
			WHERE node = $1 AND instance = '' AND state = 'active' AND cause = $2 ORDER BY not_before, id`, node, cause)
		if err != nil {
			return err
		}
		for _, m := range active {
			state := seedbed.MaintenanceCompleted
			if m.NotBefore.After(sqldb.Now()) {
				state = seedbed.MaintenanceCanceled
			}
			if _, err := endMaintenance(ctx, tx, node, "", m.ID, state); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepMaintenance keeps the active events of the node that an instance leaves among those of the instance: it has nothing more to
// expect of them. What has begun is completed, and what has not is canceled. Those of the node to which it goes are served by that.
func keepMaintenance(ctx context.Context, tx *sqldb.Tx, from, to string, id seedbed.InstanceID) error {
	now := sqldb.Micros(sqldb.Now())
	err := sqldb.Exec(ctx, tx, `
		INSERT INTO maintenance (id, node, instance, code, description, not_before, not_after, state, changed, cause)
		SELECT id, '', $1, code, description, not_before, not_after,
			CASE WHEN not_before <= $2 THEN 'completed' ELSE 'canceled' END, $2, cause
		FROM maintenance WHERE node = $3 AND instance = '' AND state = 'active'
		ON CONFLICT (id, node, instance) DO UPDATE SET state = excluded.state, changed = excluded.changed`, id, now, from)
	if err == nil {
		err = sqldb.Exec(ctx, tx, `DELETE FROM maintenance WHERE node = '' AND instance = $1 AND id IN (
			SELECT id FROM maintenance WHERE node = $2)`, id, to)
	}
	if err != nil {
		return err
	}
	return cutHistory(ctx, tx, "", id)
}
