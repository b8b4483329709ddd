package server

import (
	"context"
	"slices"

	"seedbed"
)

// PoolNames are the names of the storage pools.
type PoolNames []string

// PoolNames returns the pools of this host's configuration and those that nodes report.
func (r *Router) PoolNames(ctx context.Context) (PoolNames, error) {
	nodes, err := r.Store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(r.Pools)
	for _, n := range nodes {
		for _, p := range n.Report.Pools {
			all = append(all, p.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Check refuses a disk in a pool that does not exist.
func (p PoolNames) Check(d seedbed.TemplateDisk) error {
	if err := seedbed.CheckName("pool", d.Pool); err != nil {
		return err
	}
	if !slices.Contains(p, d.Pool) {
		return Invalid("the pool %q is not present on the cluster", d.Pool)
	}
	return nil
}
