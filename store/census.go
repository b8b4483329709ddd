package store

import (
	"context"
	"time"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/sqldb"
)

// Counts counts everything in a scope, with the images, profiles and networks that its project may use. Of the
// jobs that did not succeed, it counts those that ended after since.
func (db *DB) Counts(ctx context.Context, in seedbed.Scope, since time.Time) (c seedbed.Counts, err error) {
	err = db.sql.View(ctx, "count the objects", func(tx *sqldb.Tx) error {
		of, ofVolumes := sqldb.InScope(in), ""
		if _, one := in.One(); one {
			ofVolumes = ` WHERE instance IN (SELECT id FROM instance WHERE ` + of.String() + `)`
		}
		c = seedbed.Counts{Jobs: map[seedbed.JobState]int{}, Since: since}
		c.Instances, err = sqldb.List(ctx, tx, func(r sqldb.Row) (n seedbed.InstanceCounts, err error) {
			err = r.Scan(&n.Node, &n.State, &n.Count, &n.VCPUs, &n.Memory)
			return n, err
		}, `SELECT node, state, COUNT(*), CAST(SUM(vcpus) AS bigint), CAST(SUM(memory) AS bigint)
			FROM instance WHERE `+of.String()+` GROUP BY node, state ORDER BY node, state`, of.Args...)
		if err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS bigint) FROM (SELECT size FROM volume`+ofVolumes+`
			UNION ALL SELECT size FROM project_volume WHERE `+of.String()+`) AS one`, of.Args...).
			Scan(&c.Volumes, &c.Disks); err != nil {
			return err
		}
		type live struct {
			state seedbed.JobState
			n     int
		}
		jobs, err := sqldb.List(ctx, tx, func(r sqldb.Row) (l live, err error) {
			err = r.Scan(&l.state, &l.n)
			return l, err
		}, `SELECT state, COUNT(*) FROM job WHERE state IN ('queued', 'running', 'undoing') AND `+of.String()+` GROUP BY state`, of.Args...)
		if err != nil {
			return err
		}
		for _, l := range jobs {
			c.Jobs[l.state] = l.n
		}
		failed := sqldb.InScope(in)
		failed.And("state IN ('failed', 'rolled_back', 'rollback_incomplete') AND ended >= %s", sqldb.Micros(since))
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM job WHERE `+failed.String(), failed.Args...).Scan(&c.Failed); err != nil {
			return err
		}
		for kind, n := range map[seedbed.PublishedKind]*int{
			seedbed.PublishedImage: &c.Images, seedbed.PublishedProfile: &c.Profiles, seedbed.PublishedNetwork: &c.Networks,
		} {
			if *n, err = catalogue.CountUsable(ctx, tx, in, kind); err != nil {
				return err
			}
		}
		return nil
	})
	return c, err
}
