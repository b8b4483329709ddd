package rest

import (
	"cmp"
	"context"
	"reflect"
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
	return r.SnapshotsOf(ctx, i)
}

func (r *router) takeSnapshot(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var req wire.SnapshotRequest
	if err := server.Receive(c, &req); err != nil {
		return seedbed.Receipt{}, err
	}
	if err := cmp.Or(seedbed.CheckName("snapshot", req.Name), req.Freeze.Check()); err != nil {
		return seedbed.Receipt{}, err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.VolumeJobs.Snapshot(ctx, i.FullName(), req.Name, req.Freeze, o)
}

// removeSnapshot accepts the removal of a snapshot.
func (r *router) removeSnapshot(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n, err := pathName(c, "snapshot", "snapshot")
	if err != nil {
		return seedbed.Receipt{}, err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	has, err := r.HasSnapshot(ctx, i, n)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if !has {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrNotFound, "instance %s has no snapshot %s", i.Name, n)
	}
	return r.VolumeJobs.RemoveSnapshot(ctx, i.FullName(), n, o)
}

// restoreSnapshot accepts a job that brings an instance's volumes back to a snapshot, or answers its plan.
func (r *router) restoreSnapshot(ctx context.Context, c *fiber.Ctx) error {
	var req wire.RestoreRequest
	if err := server.ReceiveAny(c, &req); err != nil {
		return err
	}
	name, err := pathName(c, "snapshot", "snapshot")
	if err != nil {
		return err
	}
	params := powerParams(req.PowerRequest, map[string]any{"snapshot": name})
	return r.jobOrPlan(ctx, c, seedbed.Request{Action: seedbed.DoSnapshotRestore, Params: params, Confirm: req.Confirm}, req.DryRun)
}

func (r *router) resize(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ResizeRequest
	return r.planOrAccept(ctx, c, &req, &req.DryRun,
		func(i seedbed.InstanceName) (seedbed.Plan, error) {
			return r.VolumeJobs.PlanResize(ctx, i, req.ResizeRequest)
		},
		func(i seedbed.InstanceName, o seedbed.JobOptions) (seedbed.Receipt, error) {
			return r.VolumeJobs.Resize(server.OnMatch(ctx, c), i, req.ResizeRequest, o)
		})
}

// renameInstance accepts a job that gives the instance that the path names another name, or answers its plan.
func (r *router) renameInstance(ctx context.Context, c *fiber.Ctx) error {
	var req wire.RenameRequest
	return r.planOrAccept(ctx, c, &req, &req.DryRun,
		func(i seedbed.InstanceName) (seedbed.Plan, error) { return r.VolumeJobs.PlanRename(ctx, i, req.Name) },
		func(i seedbed.InstanceName, o seedbed.JobOptions) (seedbed.Receipt, error) {
			return r.VolumeJobs.Rename(server.OnMatch(ctx, c), i, req.Name, o)
		})
}

// cloneInstance accepts a job that makes an instance with copies of the disks of the one that the path names, or answers its plan.
func (r *router) cloneInstance(ctx context.Context, c *fiber.Ctx) error {
	var req wire.CloneRequest
	return r.planOrAccept(ctx, c, &req, &req.DryRun,
		func(i seedbed.InstanceName) (seedbed.Plan, error) {
			return r.VolumeJobs.PlanClone(ctx, i, req.CloneRequest)
		},
		func(i seedbed.InstanceName, o seedbed.JobOptions) (seedbed.Receipt, error) {
			return r.VolumeJobs.Clone(ctx, i, req.CloneRequest, o)
		})
}

// planOrAccept receives req, a request about the instance that the path names. It answers the plan if dry is true after that, and
// otherwise accepts the job.
func (r *router) planOrAccept(ctx context.Context, c *fiber.Ctx, req any, dry *bool, plan func(seedbed.InstanceName) (seedbed.Plan, error),
	accept func(seedbed.InstanceName, seedbed.JobOptions) (seedbed.Receipt, error),
) error {
	o, err := r.JobOptions(ctx, c)
	if err != nil {
		return err
	}
	if err := server.Receive(c, req); err != nil {
		return err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	if *dry {
		p, err := plan(i.FullName())
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusOK, p)
	}
	receipt, err := accept(i.FullName(), o)
	if err != nil {
		return err
	}
	return server.Accepted(c, receipt)
}

// setHardware accepts a job that changes the hardware of the instance that the path names, or answers its plan.
func (r *router) setHardware(ctx context.Context, c *fiber.Ctx, req wire.InstanceChange) error {
	if err := server.CallerOf(c).Need(seedbed.ActionInstanceResize); err != nil {
		return err
	}
	change := *req.Hardware
	if change.VNCBind != nil {
		if err := server.ChoosesHost(c, seedbed.SystemTemplate{VNCBind: *change.VNCBind}); err != nil {
			return err
		}
	}
	if req.Hardware = nil; !reflect.DeepEqual(req, wire.InstanceChange{}) {
		return server.Invalid("hardware is changed by a job, and the rest at once: send them in two requests")
	}
	o, err := r.JobOptions(ctx, c)
	if err != nil {
		return err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	if change.DryRun {
		p, err := r.VolumeJobs.PlanSet(ctx, i.FullName(), change.HardwareChange)
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusOK, p)
	}
	receipt, err := r.VolumeJobs.Set(server.OnMatch(ctx, c), i.FullName(), change.HardwareChange, o)
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

// volumeChange returns the handler of a job on a volume, or of its plan. read reads what the action asks for; the path names the volume,
// unless it is a new one.
func (r *router) volumeChange(action string, read func(c *fiber.Ctx, req *seedbed.Request) error) server.Handler {
	return func(ctx context.Context, c *fiber.Ctx) (err error) {
		req := seedbed.Request{Action: action, Project: server.CallerOf(c).Project}
		if req.JobOptions, err = r.JobOptions(ctx, c); err != nil {
			return err
		}
		if err := read(c, &req); err != nil {
			return err
		}
		if add := &req.Volume.Add; action == seedbed.DoVolumeAdd {
			req.Name = add.Name
			if add.Image+add.From == "" { // otherwise it is theirs
				add.Pool = cmp.Or(add.Pool, r.DefaultPool)
			}
		} else if req.Name, err = diskNamed(c); err != nil {
			return err
		}
		dry, err := switched(c, "dry_run")
		if err != nil {
			return err
		}
		switch action {
		case seedbed.DoVolumeRemove, seedbed.DoVolumeResize, seedbed.DoVolumeSet, seedbed.DoVolumeMove,
			seedbed.DoVolumeDownload:
			ctx = server.OnMatch(ctx, c)
		}
		return r.submitOrPlan(ctx, c, req, dry)
	}
}

func readNothing(*fiber.Ctx, *seedbed.Request) error { return nil }

func readVolumeAdd(c *fiber.Ctx, req *seedbed.Request) error {
	return server.Receive(c, &req.Volume.Add)
}

func readVolumeResize(c *fiber.Ctx, req *seedbed.Request) error {
	return server.Receive(c, &req.Volume.Resize)
}

func readVolumeSet(c *fiber.Ctx, req *seedbed.Request) error {
	return server.Receive(c, &req.Volume.Set)
}

func readVolumeMove(c *fiber.Ctx, req *seedbed.Request) error {
	return server.Receive(c, &req.Volume.Move)
}

func readVolumeDownload(c *fiber.Ctx, req *seedbed.Request) error {
	return server.Receive(c, &req.Volume.Download)
}

// openVolumeFile answers with a ticket to download the file that a job has made of a volume.
func (r *router) openVolumeFile(ctx context.Context, c *fiber.Ctx) error {
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	var spec seedbed.VolumeJob
	switch {
	case j.Kind != seedbed.JobVolumeDownload:
		return seedbed.Errorf(seedbed.ErrConflict, "job %s makes no file: it is a %s job, and not a %s job", j.ID.Short(), j.Kind,
			seedbed.JobVolumeDownload)
	case j.State != seedbed.JobSucceeded:
		return seedbed.Errorf(seedbed.ErrConflict, "job %s is %s: its file can be downloaded once it has succeeded", j.ID.Short(), j.State)
	}
	if err := specOf(j, &spec); err != nil {
		return err
	}
	f := seedbed.FileOf(j.Pool, spec.ID, j.ID)
	return r.giveTicket(ctx, c, server.Channel{Node: j.Node, Action: seedbed.ActionDiskManage, Volume: &f,
		What: "the file of volume " + spec.Name})
}

func readAttachment(c *fiber.Ctx, req *seedbed.Request) error {
	to := &req.Volume.Attach
	if err := server.Receive(c, to); err != nil {
		return err
	}
	if to.Keep != nil && !*to.Keep { // removing the instance then removes the volume as well
		return server.CallerOf(c).Need(seedbed.ActionDiskManage)
	}
	return nil
}

func readDetachment(c *fiber.Ctx, req *seedbed.Request) error {
	req.Volume.Attach.Instance = strings.Clone(c.Query("instance"))
	return nil
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
