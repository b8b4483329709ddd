package store

import (
	"context"
	"slices"
	"time"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/feed"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/nodes"
	"seedbed/store/sqldb"
)

// cordonTime is how long after a node was cordoned an instance may still be accepted for it,
// because other control hosts place instances with data that is up to a second old.
const cordonTime = 2 * time.Second

// RemoveNode deletes a node that is cordoned and empty. It returns ErrInUse for a node with
// instances, with live jobs or with images that no other node can reach, and ErrConflict for a node
// that is not cordoned. If the node was cordoned just now, RemoveNode first waits up to two
// seconds, so that no instance can be accepted for it later. If the node does not pass a check, it
// returns the error of that.
func (db *DB) RemoveNode(ctx context.Context, name string, checks ...func(seedbed.Node) error) error {
	if err := db.awaitCordon(ctx, name); err != nil {
		return err
	}
	defer db.nodeStore.Changed()
	return db.sql.Update(ctx, "remove node", func(tx *sqldb.Tx) error {
		was, err := nodes.HoldNode(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(was, checks); err != nil {
			return err
		}
		if !was.Cordoned {
			return notCordoned(name)
		}
		if err := emptyNode(ctx, tx, name); err != nil {
			return err
		}
		if err := catalogue.MoveImages(ctx, tx, name, ""); err != nil {
			return err
		}
		if err := feed.DropMaintenance(ctx, tx, name, ""); err != nil {
			return err
		}
		if err := nodes.DropNode(ctx, tx, name); err != nil {
			return err
		}
		return feed.TouchForOverlays(ctx, tx)
	})
}

// awaitCordon waits until no control host places instances on the node any more.
func (db *DB) awaitCordon(ctx context.Context, name string) error {
	var since, clock time.Time
	err := db.sql.View(ctx, "read node", func(tx *sqldb.Tx) (err error) {
		since, err = sqldb.One(ctx, tx, func(r sqldb.Row) (at time.Time, err error) {
			err = r.Scan(sqldb.ToTime(&at))
			return at, err
		}, nodes.NoNode(name), `SELECT cordoned FROM node WHERE name = $1`, name)
		if err == nil && since.IsZero() {
			err = notCordoned(name)
		}
		if err == nil {
			clock, err = db.sql.LeaseClock(ctx, tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	timer := time.NewTimer(min(cordonTime-clock.Sub(since), cordonTime)) // bounded, because the clock may have been set back
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func notCordoned(name string) error {
	return seedbed.Errorf(seedbed.ErrConflict, "node %q may be given new instances: cordon it first (seedbed node cordon %s)", name, name)
}

func emptyNode(ctx context.Context, tx *sqldb.Tx, name string) error {
	here, err := sqldb.List(ctx, tx, sqldb.Value[string],
		`SELECT `+instances.FullName+` FROM instance WHERE node = $1 ORDER BY project, name LIMIT 6`, name)
	if err != nil {
		return err
	}
	if len(here) > 0 {
		return seedbed.Errorf(seedbed.ErrInUse, "node %q has instance %s: remove them first (seedbed vm list)", name, sqldb.Quoted(here))
	}
	images, err := imagesAt(ctx, tx, name)
	if err != nil {
		return err
	}
	if len(images) > 0 {
		return seedbed.Errorf(seedbed.ErrInUse, "node %q has image %s, which no other node can reach: remove them first (seedbed image remove)",
			name, sqldb.Quoted(images))
	}
	volumes, err := volumesAt(ctx, tx, name)
	if err != nil {
		return err
	}
	if len(volumes) > 0 {
		return seedbed.Errorf(seedbed.ErrInUse, "node %q has volume %s, which no other node can reach: remove them first (seedbed volume remove)",
			name, sqldb.Quoted(volumes))
	}
	job, err := arriving(ctx, tx, name)
	if err == nil && job.ID == "" {
		job, err = sqldb.One(ctx, tx, jobs.ScanJob, nil,
			`SELECT `+jobs.JobColumns+` FROM job WHERE node = $1 AND `+jobs.Live+` ORDER BY created LIMIT 1`, name)
	}
	if err != nil || job.ID == "" {
		return err
	}
	return &seedbed.Error{Kind: seedbed.ErrInUse, Holder: job.ID,
		Msg: "node \"" + name + "\" is to run " + string(job.Kind) + " job " + job.ID.Short() + ": wait for its end" + orCancel(job)}
}

// imagesAt returns the names, sorted, of the images that are only on that node.
func imagesAt(ctx context.Context, tx *sqldb.Tx, node string) ([]string, error) {
	nodes, err := sqldb.List(ctx, tx, nodes.ScanNode, `SELECT `+nodes.NodeColumns+` FROM node`)
	if err != nil {
		return nil, err
	}
	all, err := sqldb.List(ctx, tx, catalogue.ScanImage,
		`SELECT `+catalogue.ImageColumns+` FROM image WHERE node = $1 AND dropped = 0 ORDER BY name`, node)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range all {
		elsewhere := slices.ContainsFunc(nodes, func(n seedbed.Node) bool {
			pool, known := n.Pool(i.Pool)
			return n.Name != node && known && pool.Shared
		})
		private := slices.ContainsFunc(nodes, func(n seedbed.Node) bool { // if nodes disagree, the pool is not shared
			pool, known := n.Pool(i.Pool)
			return known && !pool.Shared
		})
		if !elsewhere || private {
			names = append(names, i.Name)
		}
	}
	return names, nil
}

// EnsureNode adds a control host that is also a node; its worker is reached on its local socket. An
// existing node of that name does not change. The first node of all gets the images without a node.
func (db *DB) EnsureNode(ctx context.Context, name string) error {
	if err := nodes.CheckName(name); err != nil {
		return err
	}
	defer db.nodeStore.Changed()
	return db.sql.Update(ctx, "add node "+name, func(tx *sqldb.Tx) error {
		made, err := nodes.InsertNode(ctx, tx, seedbed.Node{Name: name, Created: sqldb.Now()}, time.Time{})
		if err != nil || !made {
			return sqldb.OrUnchanged(err)
		}
		others, err := sqldb.One(ctx, tx, sqldb.Value[int], nil, `SELECT COUNT(*) FROM node WHERE name <> $1`, name)
		if err != nil || others > 0 {
			return err
		}
		return catalogue.MoveImages(ctx, tx, "", name)
	})
}
