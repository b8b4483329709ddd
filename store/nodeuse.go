package store

import (
	"context"
	"time"

	"seedbed"
)

// settling is how long it takes until what a new guest uses shows in its node's
// report: a guest boots, and then a worker is asked.
const settling = 45 * time.Second

// NodeUse returns what the instances of each node that has some take, by node.
// Those are coming that are not made yet, or were asked for just now.
func (db *DB) NodeUse(ctx context.Context) (all []seedbed.NodeUse, err error) {
	err = db.view(ctx, "count what nodes have", func(tx *Tx) error {
		// The time is that of the jobs, which have an index for it; an instance's own
		// stands behind its documents, which would all be read.
		all, err = list(ctx, tx, func(r Row) (u seedbed.NodeUse, err error) {
			err = r.Scan(&u.Node, &u.Instances, &u.Running, &u.VCPUs, &u.Memory, &u.ComingVCPUs, &u.ComingMemory)
			return u, err
		}, `
			SELECT node, COUNT(*), SUM(running), CAST(SUM(vcpus) AS bigint), CAST(SUM(memory) AS bigint),
				CAST(SUM(coming * vcpus) AS bigint), CAST(SUM(coming * memory) AS bigint)
			FROM (SELECT node, vcpus, memory, CASE WHEN state = 'running' THEN 1 ELSE 0 END AS running,
					CASE WHEN state = 'provisioning' OR id IN (SELECT instance FROM job WHERE created >= $1 AND kind = 'create') THEN 1 ELSE 0 END AS coming
				FROM instance) AS one
			GROUP BY node ORDER BY node`, micros(now().Add(-settling)))
		return err
	})
	return all, err
}
