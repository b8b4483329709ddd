package nodes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// fencing is how the column has the fencing of a node.
type fencing struct {
	seedbed.Fencing
	Sealed []byte `json:"sealed,omitempty"`
	Boot   string `json:"boot,omitempty"`
}

// toFencing scans the fencing of a node.
type toFencing struct{ f *seedbed.Fencing }

// Scan implements sql.Scanner.
func (c toFencing) Scan(src any) error {
	var kept fencing
	if err := sqldb.ToJSON(&kept).Scan(src); err != nil {
		return err
	}
	*c.f = kept.Fencing
	c.f.Sealed, c.f.Boot = kept.Sealed, kept.Boot
	return nil
}

// ChangeFencing changes the fencing of a node whose row it locks, and returns the node before.
func ChangeFencing(ctx context.Context, tx *sqldb.Tx, name string, change func(*seedbed.Fencing) error) (seedbed.Node, error) {
	was, err := HoldNode(ctx, tx, name)
	if err != nil {
		return was, err
	}
	next := was.Fencing
	if err := change(&next); err != nil {
		return was, err
	}
	text, err := json.Marshal(fencing{next, next.Sealed, next.Boot})
	if err != nil {
		return was, err
	}
	return was, sqldb.Exec(ctx, tx, `UPDATE node SET fencing = $1 WHERE name = $2`, string(text), name)
}

// NoteBoot records the boot of a node since which its instances were started again.
func (s *Store) NoteBoot(ctx context.Context, name, boot string) error {
	defer s.Changed()
	return s.db.Update(ctx, "note the boot of a node", func(tx *sqldb.Tx) error {
		_, err := ChangeFencing(ctx, tx, name, func(f *seedbed.Fencing) error {
			if f.Boot == boot {
				return sqldb.ErrUnchanged
			}
			f.Boot = boot
			return nil
		})
		return err
	})
}

// setAgent records the agent that fences a node, with its options and sealed secrets, if they differ, and reports whether they did. Nothing
// else of next counts.
func setAgent(ctx context.Context, tx *sqldb.Tx, name string, was seedbed.Fencing, next *seedbed.Fencing) (bool, error) {
	agent, options, sealed := next.Agent, next.Options, next.Sealed
	*next = was
	if agent == was.Agent && maps.Equal(options, was.Options) && bytes.Equal(sealed, was.Sealed) {
		return false, nil
	}
	if agent == "" {
		options, sealed = nil, nil
	} else if err := cmp.Or(seedbed.CheckFence(agent, options), checkShown(options)); err != nil {
		return false, err
	}
	_, err := ChangeFencing(ctx, tx, name, func(to *seedbed.Fencing) error {
		to.Agent, to.Options, to.Sealed, to.Problem = agent, options, sealed, ""
		*next = *to
		return nil
	})
	return true, err
}

// Readmit records that a node which was fenced is back: its worker was told of that incarnation, and what ran elsewhere is gone from
// it. The incarnation may be later than the recorded one, if the database was restored. It returns ErrConflict if the node was fenced
// again in the meantime, and the error of ready, which is called with the node locked.
func Readmit(ctx context.Context, tx *sqldb.Tx, name string, incarnation int64, ready func() error) error {
	_, err := ChangeFencing(ctx, tx, name, func(to *seedbed.Fencing) error {
		if to.Incarnation > incarnation {
			return seedbed.Errorf(seedbed.ErrConflict, "node %q was fenced again: its incarnation is %d now, and not %d", name, to.Incarnation,
				incarnation)
		}
		if to.Fenced.IsZero() && to.Incarnation == incarnation {
			return sqldb.ErrUnchanged
		}
		to.Incarnation, to.Fenced, to.Problem = incarnation, time.Time{}, ""
		return ready()
	})
	return err
}

// checkShown returns ErrInvalid if one of the options, which are shown to whoever reads nodes, is a secret by its name.
func checkShown(options map[string]string) error {
	for name := range options {
		if strings.Contains(name, "passw") || strings.HasSuffix(name, "token") {
			return seedbed.Errorf(seedbed.ErrInvalid, "option %s of a fence agent is a secret, and options are shown: "+
				"give it in the secrets (--secret-file)", name)
		}
	}
	return nil
}
