package server

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/api/wire"
)

// SnapshotsOf returns the snapshots that the volumes of an instance have, oldest first.
func (r *Router) SnapshotsOf(ctx context.Context, i seedbed.Instance) ([]wire.Snapshot, error) {
	var all []wire.Snapshot
	unsized := map[string]bool{}
	for _, v := range i.Volumes {
		found, err := r.Snapshots.Snapshots(ctx, i.Node, v.Pool, v.Name, i.ID)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			at := slices.IndexFunc(all, func(a wire.Snapshot) bool { return a.Name == s.Name })
			if at < 0 {
				all = append(all, wire.Snapshot{Name: s.Name, Job: s.Job, Created: s.Created, Consistency: s.Consistency})
				at = len(all) - 1
			}
			if all[at].Consistency != s.Consistency {
				all[at].Consistency = ""
			}
			all[at].Volumes = append(all[at].Volumes, v.Name)
			all[at].Size += s.Size
			unsized[s.Name] = unsized[s.Name] || s.Size == 0
			all[at].Complete = len(all[at].Volumes) == len(i.Volumes)
		}
	}
	for i, s := range all {
		if unsized[s.Name] {
			all[i].Size = 0
		}
	}
	return all, nil
}

// HasSnapshot reports whether a volume of an instance has a snapshot of that name, or one is recorded, which counts to the quota of its
// project.
func (r *Router) HasSnapshot(ctx context.Context, i seedbed.Instance, name string) (bool, error) {
	all, err := r.SnapshotsOf(ctx, i)
	if err != nil || slices.ContainsFunc(all, func(s wire.Snapshot) bool { return s.Name == name }) {
		return err == nil, err
	}
	return r.Store.HasSnapshot(ctx, i.ID, name)
}
