package store

import (
	"cmp"
	"context"

	"seedbed"
)

// strayWhy is the reason that is shown for a stray.
const strayWhy = "it carries Seedbed's tag, and nothing is known of its instance or job: nothing takes it away by itself"

// NoteStrays records the resources on nodes that carry our tag but belong to no known instance or
// image. Recorded strays of these nodes that are no longer found are deleted.
func (db *DB) NoteStrays(ctx context.Context, nodes []string, found []seedbed.Orphan) error {
	type place struct {
		node, pool, name string
		kind             seedbed.OrphanKind
	}
	return db.update(ctx, "note strays", func(tx *Tx) error {
		there := map[place]bool{}
		at := micros(now())
		for _, o := range found {
			there[place{o.Node, clean(o.Pool, 80), clean(o.Name, 400), o.Kind}] = true
			err := exec(ctx, tx, `INSERT INTO stray (node, kind, pool, name, owner, since, tries, tried) VALUES ($1, $2, $3, $4, $5, $6, 1, $6)
				ON CONFLICT (node, kind, pool, name) DO UPDATE SET owner = $5, tries = stray.tries + 1, tried = $6`,
				o.Node, o.Kind, clean(o.Pool, 80), clean(o.Name, 400), cmp.Or(string(o.Instance), string(o.Job)), at)
			if err != nil {
				return err
			}
		}
		changed := len(found) > 0
		for _, node := range nodes {
			was, err := list(ctx, tx, func(r Row) (p place, err error) {
				p.node = node
				err = r.Scan(&p.kind, &p.pool, &p.name)
				return p, err
			}, `SELECT kind, pool, name FROM stray WHERE node = $1 ORDER BY kind, pool, name`, node)
			if err != nil {
				return err
			}
			for _, p := range was {
				if there[p] {
					continue
				}
				changed = true
				if err := exec(ctx, tx, `DELETE FROM stray WHERE node = $1 AND kind = $2 AND pool = $3 AND name = $4`, p.node, p.kind, p.pool, p.name); err != nil {
					return err
				}
			}
		}
		if !changed {
			return errUnchanged
		}
		return nil
	})
}

// Strays returns the strays that were found at least twice in a row, the oldest first. A resource
// that was found only once may just have been removed.
func (db *DB) Strays(ctx context.Context) (all []seedbed.Orphan, err error) {
	err = db.view(ctx, "list strays", func(tx *Tx) error {
		all, err = list(ctx, tx, func(r Row) (o seedbed.Orphan, err error) {
			owner := ""
			err = r.Scan(&o.Node, &o.Kind, &o.Pool, &o.Name, &owner, toTime(&o.Since), &o.Tries, toTime(&o.Tried))
			if o.Why = strayWhy; o.Kind == seedbed.OrphanImage {
				o.Job = seedbed.JobID(owner)
			} else {
				o.Instance = seedbed.InstanceID(owner)
			}
			return o, err
		}, `SELECT node, kind, pool, name, owner, since, tries, tried FROM stray WHERE tries > 1 ORDER BY since, node, kind, pool, name`)
		return err
	})
	return all, err
}
