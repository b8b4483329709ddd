package nodes

import (
	"context"
	"slices"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// settling is how long it takes until the resources of a new guest show in its node's report: the
// guest boots, and then the worker is asked.
const settling = 45 * time.Second

// NodeUse returns what the instances of each node use, sorted by node; nodes without instances are
// left out. An instance that a job takes from one node to another counts for both. The Coming fields
// count the instances that are still being made or were requested, or taken there, less than
// settling ago.
func (s *Store) NodeUse(ctx context.Context) (all []seedbed.NodeUse, err error) {
	err = s.db.View(ctx, "count what nodes have", func(tx *sqldb.Tx) error {
		// Use the time of the job, which has an index. The column of the instance is stored after
		// its documents, which would all be read.
		all, err = sqldb.List(ctx, tx, func(r sqldb.Row) (u seedbed.NodeUse, err error) {
			err = r.Scan(&u.Node, &u.Instances, &u.Running, &u.VCPUs, &u.Memory, &u.ComingVCPUs, &u.ComingMemory, &u.Restarts)
			return u, err
		}, `
			SELECT node, CAST(SUM(one) AS bigint), SUM(running), CAST(SUM(vcpus) AS bigint), CAST(SUM(memory) AS bigint),
				CAST(SUM(coming * vcpus) AS bigint), CAST(SUM(coming * memory) AS bigint),
				CAST(SUM(restarts) AS bigint)
			FROM (SELECT 1 AS one, node, vcpus, memory, CASE WHEN state = 'running' THEN 1 ELSE 0 END AS running,
					CASE WHEN state = 'provisioning'
						OR id IN (SELECT instance FROM job WHERE created >= $1 AND kind IN ('create', 'migrate')) THEN 1 ELSE 0 END AS coming, 0 AS restarts
				FROM instance
				UNION ALL SELECT 1, target, vcpus, memory, 0, 1, 0 FROM instance WHERE target <> ''
				UNION ALL SELECT 0, node, 0, 0, 0, 0, memory FROM instance WHERE restarts = 1) AS one
			GROUP BY node ORDER BY node`, sqldb.Micros(sqldb.Now().Add(-settling)))
		return err
	})
	return all, err
}

// PoolUse returns what the volumes of each node may grow to in each pool: those of its instances, and those of projects. A volume of a
// project in a shared pool has no node.
func (s *Store) PoolUse(ctx context.Context) (all []seedbed.PoolUse, err error) {
	err = s.db.View(ctx, "count what pools have", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, func(r sqldb.Row) (u seedbed.PoolUse, err error) {
			err = r.Scan(&u.Node, &u.Pool, &u.Size)
			return u, err
		}, `
			SELECT node, pool, CAST(SUM(size) AS bigint)
			FROM (SELECT instance.node AS node, volume.pool AS pool, volume.size AS size
					FROM volume JOIN instance ON instance.id = volume.instance
				UNION ALL SELECT node, pool, size FROM project_volume) AS one
			GROUP BY node, pool ORDER BY node, pool`)
		return err
	})
	return all, err
}

// Sharing returns a function that reports whether nodes share a pool. If they disagree, it is not shared.
func Sharing(ctx context.Context, tx *sqldb.Tx) (func(pool string) bool, error) {
	all, err := sqldb.List(ctx, tx, ScanNode, `SELECT `+NodeColumns+` FROM node`)
	return func(pool string) bool {
		of := func(shared bool) bool {
			return slices.ContainsFunc(all, func(n seedbed.Node) bool {
				p, known := n.Pool(pool)
				return known && p.Shared == shared
			})
		}
		return of(true) && !of(false)
	}, err
}
