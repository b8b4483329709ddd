package rest

import (
	"cmp"
	"context"
	"slices"
	"strings"

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
	unsized := map[string]bool{}
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

// restoreSnapshot accepts a job that brings an instance's volumes back to a snapshot, or answers its plan.
func (r *router) restoreSnapshot(ctx context.Context, c *fiber.Ctx) error {
	var req wire.RestoreRequest
	if c.Context().Request.Header.ContentLength() != 0 {
		if err := server.Receive(c, &req); err != nil {
			return err
		}
	}
	name, err := pathName(c, "snapshot", "snapshot")
	if err != nil {
		return err
	}
	params := powerParams(req.PowerRequest, map[string]any{"snapshot": name})
	return r.jobOrPlan(ctx, c, seedbed.Request{Action: seedbed.DoSnapshotRestore, Params: params, Confirm: req.Confirm}, req.DryRun)
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

// diskNamed returns the name of the volume that the path names.
func diskNamed(c *fiber.Ctx) (string, error) { return pathName(c, "volume", "name") }

func (r *router) volumes() listing[seedbed.ProjectVolume] {
	return listing[seedbed.ProjectVolume]{
		kind: "volume", name: func(v seedbed.ProjectVolume) string { return seedbed.Qualified(v.Project, v.Name) },
		// A disk of an instance may have the name of a volume, or of a disk in another pool.
		place: func(v seedbed.ProjectVolume) string { return placed(v.Project, v.Name, v.Pool, v.ID) },
		read: func(ctx context.Context, c *fiber.Ctx) ([]seedbed.ProjectVolume, error) {
			in, err := server.ScopeOf(c)
			if err != nil {
				return nil, err
			}
			return r.Store.ProjectVolumes(ctx, in)
		},
		filters: []filterBy[seedbed.ProjectVolume]{
			byWord("state", seedbed.VolumeStates(), func(v seedbed.ProjectVolume) seedbed.VolumeState { return v.State }),
			byName("pool", func(v seedbed.ProjectVolume) string { return v.Pool }),
			byName("instance", func(v seedbed.ProjectVolume) string { return v.Holder }),
		},
	}
}

func (r *router) volume(ctx context.Context, c *fiber.Ctx) error {
	n, err := diskNamed(c)
	if err != nil {
		return err
	}
	v, err := r.Store.ProjectVolume(ctx, server.CallerOf(c).Project, n)
	if err != nil {
		return err
	}
	return server.Tagged(c, server.ContentTag(v), v)
}

func (r *router) addVolume(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var req seedbed.VolumeRequest
	if err := server.Receive(c, &req); err != nil {
		return seedbed.Receipt{}, err
	}
	req.Project = server.CallerOf(c).Project
	if req.Image == "" { // otherwise it is the image's
		req.Pool = cmp.Or(req.Pool, r.DefaultPool)
	}
	return r.VolumeJobs.AddVolume(ctx, req, o)
}

func (r *router) removeVolume(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n, err := diskNamed(c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.VolumeJobs.RemoveVolume(ctx, server.CallerOf(c).Project, n, o)
}

func (r *router) resizeVolume(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var req seedbed.VolumeResize
	if err := server.Receive(c, &req); err != nil {
		return seedbed.Receipt{}, err
	}
	n, err := diskNamed(c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.VolumeJobs.ResizeVolume(ctx, server.CallerOf(c).Project, n, req, o)
}

func (r *router) setVolume(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var change seedbed.VolumeLimits
	if err := server.Receive(c, &change); err != nil {
		return seedbed.Receipt{}, err
	}
	n, err := diskNamed(c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.VolumeJobs.SetVolume(ctx, server.CallerOf(c).Project, n, change, o)
}

func (r *router) attachVolume(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var to seedbed.Attachment
	if err := server.Receive(c, &to); err != nil {
		return seedbed.Receipt{}, err
	}
	n, err := diskNamed(c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if to.Keep != nil && !*to.Keep { // removing the instance then removes the volume as well
		if err := server.CallerOf(c).Need(seedbed.ActionDiskManage); err != nil {
			return seedbed.Receipt{}, err
		}
	}
	return r.VolumeJobs.Attach(ctx, server.CallerOf(c).Project, n, to, o)
}

func (r *router) detachVolume(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n, err := diskNamed(c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.VolumeJobs.Detach(ctx, server.CallerOf(c).Project, n, strings.Clone(c.Query("instance")), o)
}

// renameVolume renames a volume at once. A disk of an instance has no name of its own.
func (r *router) renameVolume(ctx context.Context, c *fiber.Ctx) error {
	var req wire.VolumeChange
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	n, err := diskNamed(c)
	if err != nil {
		return err
	}
	v, err := r.Store.RenameVolume(ctx, server.CallerOf(c).Project, n, req.Name, server.IfMatch(c, server.ContentTag[seedbed.ProjectVolume]))
	if err != nil {
		return err
	}
	return server.Tagged(c, server.ContentTag(v), v)
}
