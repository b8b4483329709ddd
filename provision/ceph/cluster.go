//go:build ceph

package ceph

import (
	"context"

	"seedbed"
)

// Cluster implements worker.RBDCluster.
func (p *Pool) Cluster(ctx context.Context) (seedbed.RBDSource, error) {
	return call(ctx, p, "ask for the monitors", "", func(_ context.Context, s *session) (seedbed.RBDSource, error) {
		return seedbed.RBDSource{Monitors: p.link.monitors(s), User: p.cfg.User, Secret: SecretID(p.cfg.Name, p.cfg.User)}, nil
	})
}
