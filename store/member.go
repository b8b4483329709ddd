package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"seedbed"
)

// settingMembers are the control hosts that were told of, as a list of names in JSON.
const settingMembers = "coordination.members"

// KnownMembers are the control hosts that joined and have not left, by name, as
// ChangeMembers was told.
func (db *DB) KnownMembers(ctx context.Context) (names []string, err error) {
	err = db.view(ctx, "list known members", func(tx *Tx) error {
		names, err = knownMembers(ctx, tx)
		return err
	})
	return names, err
}

func knownMembers(ctx context.Context, tx *Tx) (names []string, err error) {
	text, err := setting(ctx, tx, settingMembers)
	if err != nil || text == nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &names); err != nil {
		return nil, fmt.Errorf("setting %s: %w", settingMembers, err)
	}
	return names, nil
}

// ChangeMembers keeps which control hosts have joined and which have left, and
// tells the endpoints of each. Who joined already or was not there is no change.
func (db *DB) ChangeMembers(ctx context.Context, joined []seedbed.Member, left []string) error {
	return db.update(ctx, "change members", func(tx *Tx) error {
		// The row is locked, so that two who tell the same take turns.
		err := exec(ctx, tx, `INSERT INTO setting (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET key = excluded.key`, settingMembers, []byte("[]"))
		if err != nil {
			return err
		}
		names, err := knownMembers(ctx, tx)
		if err != nil {
			return err
		}
		var told []notice
		for _, name := range left {
			if i := slices.Index(names, name); i >= 0 {
				names = slices.Delete(names, i, i+1)
				told = append(told, notice{seedbed.EventNodeLeft, name, fixed(map[string]any{"node": name})})
			}
		}
		for _, m := range joined {
			if !slices.Contains(names, m.Node) {
				names = append(names, m.Node)
				told = append(told, notice{seedbed.EventNodeJoined, m.Node, fixed(m)})
			}
		}
		if len(told) == 0 {
			return errUnchanged
		}
		slices.Sort(names)
		text, err := json.Marshal(names)
		if err != nil {
			return err
		}
		if err := exec(ctx, tx, `UPDATE setting SET value = $1 WHERE key = $2`, text, settingMembers); err != nil {
			return err
		}
		return emit(ctx, tx, told...)
	})
}
