package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"seedbed"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// settingMembers is the setting that holds the known control hosts, as a JSON list of names.
const settingMembers = "coordination.members"

// KnownMembers returns the control hosts that have joined and not left, sorted by name, as recorded
// by ChangeMembers.
func (s *Store) KnownMembers(ctx context.Context) (names []string, err error) {
	err = s.db.View(ctx, "list known members", func(tx *sqldb.Tx) error {
		names, err = knownMembers(ctx, tx)
		return err
	})
	return names, err
}

func knownMembers(ctx context.Context, tx *sqldb.Tx) (names []string, err error) {
	text, err := sqldb.Setting(ctx, tx, settingMembers)
	if err != nil || text == nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &names); err != nil {
		return nil, fmt.Errorf("setting %s: %w", settingMembers, err)
	}
	return names, nil
}

// ChangeMembers records which control hosts have joined and which have left, and sends an event for
// each change. A host that joins twice, or leaves without having joined, is not a change.
func (s *Store) ChangeMembers(ctx context.Context, joined []seedbed.Member, left []string) error {
	return s.db.Update(ctx, "change members", func(tx *sqldb.Tx) error {
		// Lock the row, so that two processes that report the same change run one after the other.
		err := sqldb.LockSetting(ctx, tx, settingMembers, []byte("[]"))
		if err != nil {
			return err
		}
		names, err := knownMembers(ctx, tx)
		if err != nil {
			return err
		}
		var told []outbox.Event
		for _, name := range left {
			if i := slices.Index(names, name); i >= 0 {
				names = slices.Delete(names, i, i+1)
				told = append(told, outbox.Event{Kind: seedbed.EventNodeLeft, Subject: name, Data: outbox.Fixed(map[string]any{"node": name})})
			}
		}
		for _, m := range joined {
			if !slices.Contains(names, m.Node) {
				names = append(names, m.Node)
				told = append(told, outbox.Event{Kind: seedbed.EventNodeJoined, Subject: m.Node, Data: outbox.Fixed(m)})
			}
		}
		if len(told) == 0 {
			return sqldb.ErrUnchanged
		}
		slices.Sort(names)
		text, err := json.Marshal(names)
		if err != nil {
			return err
		}
		if err := sqldb.SetSetting(ctx, tx, settingMembers, text); err != nil {
			return err
		}
		return outbox.Emit(ctx, tx, told...)
	})
}
