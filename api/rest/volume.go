package rest

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) flatten(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	i, err := r.named(ctx, c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.VolumeJobs.Flatten(ctx, i.FullName(), o)
}

func (r *router) readSnapshots(ctx context.Context, c *fiber.Ctx) ([]wire.Snapshot, error) {
	i, err := r.named(ctx, c)
	if err != nil {
		return nil, err
	}
	var all []wire.Snapshot
	for _, v := range i.Volumes {
		found, err := r.Snapshots.Snapshots(ctx, i.Node, v.Pool, v.Name, i.ID)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			at := slices.IndexFunc(all, func(a wire.Snapshot) bool { return a.Name == s.Name })
			if at < 0 {
				all = append(all, wire.Snapshot{Name: s.Name, Job: s.Job, Created: s.Created})
				at = len(all) - 1
			}
			all[at].Volumes = append(all[at].Volumes, v.Name)
			all[at].Complete = len(all[at].Volumes) == len(i.Volumes)
		}
	}
	return all, nil
}

func (r *router) takeSnapshot(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var req wire.SnapshotRequest
	if err := server.Receive(c, &req); err != nil {
		return seedbed.Receipt{}, err
	}
	if err := seedbed.CheckName("snapshot", req.Name); err != nil {
		return seedbed.Receipt{}, err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.VolumeJobs.Snapshot(ctx, i.FullName(), req.Name, o)
}

// removeSnapshot accepts the removal of a snapshot that a volume has, or that is recorded and so counts to
// the quota of its project.
func (r *router) removeSnapshot(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n, err := pathName(c, "snapshot", "snapshot")
	if err != nil {
		return seedbed.Receipt{}, err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	there := false
	for _, v := range i.Volumes {
		found, err := r.Snapshots.Snapshots(ctx, i.Node, v.Pool, v.Name, i.ID)
		if err != nil {
			return seedbed.Receipt{}, err
		}
		there = there || slices.ContainsFunc(found, func(s seedbed.SnapshotInfo) bool { return s.Name == n })
	}
	if !there {
		if there, err = r.Store.HasSnapshot(ctx, i.ID, n); err != nil {
			return seedbed.Receipt{}, err
		}
	}
	if !there {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrNotFound, "instance %s has no snapshot %s", i.Name, n)
	}
	return r.VolumeJobs.RemoveSnapshot(ctx, i.FullName(), n, o)
}

func (r *router) resize(ctx context.Context, c *fiber.Ctx) error {
	o, err := r.JobOptions(ctx, c)
	if err != nil {
		return err
	}
	var req wire.ResizeRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	if req.DryRun {
		p, err := r.VolumeJobs.PlanResize(ctx, i.FullName(), req.ResizeRequest)
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusOK, p)
	}
	receipt, err := r.VolumeJobs.Resize(server.OnMatch(ctx, c), i.FullName(), req.ResizeRequest, o)
	if err != nil {
		return err
	}
	return server.Accepted(c, receipt)
}
