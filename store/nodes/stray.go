package nodes

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

const strayColumns = `node, kind, pool, name, owner, since, tries, tried, project`

// strayWhy is the reason that is shown for a stray.
const strayWhy = "it carries Seedbed's tag, but its instance or job is not known: it is never removed automatically"

// NoteStrays records the resources on nodes that carry our tag but belong to no known instance or
// image. Recorded strays of these nodes that are no longer found are deleted.
func (s *Store) NoteStrays(ctx context.Context, nodes []string, found []seedbed.Orphan) error {
	type place struct {
		node, pool, name string
		kind             seedbed.OrphanKind
	}
	return s.db.Update(ctx, "note strays", func(tx *sqldb.Tx) error {
		there := map[place]bool{}
		at := sqldb.Micros(sqldb.Now())
		for _, o := range found {
			there[place{o.Node, sqldb.Clean(o.Pool, 80), sqldb.Clean(o.Name, 400), o.Kind}] = true
			err := sqldb.Exec(ctx, tx, `INSERT INTO stray (`+strayColumns+`) VALUES ($1, $2, $3, $4, $5, $6, 1, $6, $7)
				ON CONFLICT (node, kind, pool, name) DO UPDATE SET owner = $5, tries = stray.tries + 1, tried = $6, project = $7`,
				o.Node, o.Kind, sqldb.Clean(o.Pool, 80), sqldb.Clean(o.Name, 400), cmp.Or(string(o.Instance), string(o.Job)), at,
				sqldb.Clean(o.Project, 32))
			if err != nil {
				return err
			}
		}
		changed := len(found) > 0
		for _, node := range nodes {
			was, err := sqldb.List(ctx, tx, func(r sqldb.Row) (p place, err error) {
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
				if err := sqldb.Exec(ctx, tx, `DELETE FROM stray WHERE node = $1 AND kind = $2 AND pool = $3 AND name = $4`,
					p.node, p.kind, p.pool, p.name); err != nil {
					return err
				}
			}
		}
		if !changed {
			return sqldb.ErrUnchanged
		}
		return nil
	})
}

// Strays returns the strays that were found at least twice in a row, the oldest first. A resource
// that was found only once may just have been removed.
func (s *Store) Strays(ctx context.Context) (all []seedbed.Orphan, err error) {
	err = s.db.View(ctx, "list strays", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, func(r sqldb.Row) (o seedbed.Orphan, err error) {
			owner := ""
			err = r.Scan(&o.Node, &o.Kind, &o.Pool, &o.Name, &owner, sqldb.ToTime(&o.Since), &o.Tries, sqldb.ToTime(&o.Tried), &o.Project)
			if o.Why = strayWhy; o.Kind == seedbed.OrphanImage {
				o.Job = seedbed.JobID(owner)
			} else {
				o.Instance = seedbed.InstanceID(owner)
			}
			return o, err
		}, `SELECT `+strayColumns+` FROM stray WHERE tries > 1 ORDER BY since, node, kind, pool, name`)
		return err
	})
	return all, err
}
