package client

import (
	"context"
	"net/http"
	"net/url"

	"seedbed"
	"seedbed/api/wire"
)

// RemoveImage starts a job that removes an image. It returns seedbed.ErrInUse, naming the users,
// while profiles or volumes need the image.
func (c *Client) RemoveImage(ctx context.Context, name string) (seedbed.Receipt, error) {
	return c.removal(ctx, at("/images", name))
}

// Flatten starts a job that makes an instance's volumes independent of their image.
func (c *Client) Flatten(ctx context.Context, instance string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", instance)+"/flatten", nil)
}

// Snapshots lists the snapshots of an instance, oldest first.
func (c *Client) Snapshots(ctx context.Context, instance string) ([]wire.Snapshot, error) {
	return c.ListSnapshots(ctx, instance, Selection{})
}

// TakeSnapshot starts a job that takes a snapshot of an instance's volumes.
func (c *Client) TakeSnapshot(ctx context.Context, instance string, r wire.SnapshotRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", instance)+"/snapshots", r)
}

// RestoreSnapshot starts a job that brings an instance's volumes back to a snapshot. confirm is the name of a
// protected instance again.
func (c *Client) RestoreSnapshot(ctx context.Context, instance, name, confirm string, p Power) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at(at("/instances", instance)+"/snapshots", name)+"/restore",
		wire.RestoreRequest{PowerRequest: p.request(), Confirm: confirm})
}

// PlanRestoreSnapshot returns what RestoreSnapshot would do.
func (c *Client) PlanRestoreSnapshot(ctx context.Context, instance, name string, p Power) (seedbed.Plan, error) {
	return post[seedbed.Plan](ctx, c, at(at("/instances", instance)+"/snapshots", name)+"/restore",
		wire.RestoreRequest{PowerRequest: p.request(), DryRun: true})
}

// RemoveSnapshot starts a job that removes a snapshot.
func (c *Client) RemoveSnapshot(ctx context.Context, instance, name string) (seedbed.Receipt, error) {
	return c.removal(ctx, at(at("/instances", instance)+"/snapshots", name))
}

// ChangeVolume starts the job of a request with an action on volumes.
func (c *Client) ChangeVolume(ctx context.Context, r seedbed.Request) (seedbed.Receipt, error) {
	return send[seedbed.Receipt](ctx, c, volumeCall(r, nil))
}

// PlanVolume returns what ChangeVolume would make of the volume.
func (c *Client) PlanVolume(ctx context.Context, r seedbed.Request) (seedbed.Plan, error) {
	return send[seedbed.Plan](ctx, c, volumeCall(r, map[string]string{"dry_run": "true"}))
}

func volumeCall(r seedbed.Request, query map[string]string) call {
	to := call{method: http.MethodPost, path: at("/volumes", r.Name), query: given(query)}
	switch o := r.Volume; r.Action {
	case seedbed.DoVolumeAdd:
		o.Add.Name = r.Name
		to.path, to.body = "/volumes", o.Add
	case seedbed.DoVolumeRemove:
		to.method = http.MethodDelete
	case seedbed.DoVolumeResize:
		to.path, to.body = to.path+"/resize", o.Resize
	case seedbed.DoVolumeSet:
		to.path, to.body = to.path+"/limits", o.Set
	case seedbed.DoVolumeMove:
		to.path, to.body = to.path+"/move", o.Move
	case seedbed.DoVolumeDownload:
		to.path, to.body = to.path+"/download", o.Download
	case seedbed.DoVolumeAttach:
		to.path, to.body = to.path+"/attach", o.Attach
	case seedbed.DoVolumeDetach:
		to.path += "/detach"
		if o.Attach.Instance != "" {
			to.query = given(query)
			if to.query == nil {
				to.query = url.Values{}
			}
			to.query.Set("instance", o.Attach.Instance)
		}
	}
	return to
}

// Volume returns a volume of the project, or a disk of one of its instances.
func (c *Client) Volume(ctx context.Context, name string) (seedbed.ProjectVolume, error) {
	return get[seedbed.ProjectVolume](ctx, c, at("/volumes", name), nil)
}

// RenameVolume gives a volume another name.
func (c *Client) RenameVolume(ctx context.Context, name, to string) (seedbed.ProjectVolume, error) {
	return send[seedbed.ProjectVolume](ctx, c, call{method: http.MethodPatch, path: at("/volumes", name), body: wire.VolumeChange{Name: to}})
}

// ResizeInstance starts a job that enlarges a disk of an instance, or changes its vCPUs and memory.
// Zero fields change nothing.
func (c *Client) ResizeInstance(ctx context.Context, name string, r seedbed.ResizeRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/resize", r)
}

// PlanResize returns what a resize would change.
func (c *Client) PlanResize(ctx context.Context, name string, r seedbed.ResizeRequest) (seedbed.Plan, error) {
	return post[seedbed.Plan](ctx, c, at("/instances", name)+"/resize", wire.ResizeRequest{ResizeRequest: r, DryRun: true})
}

// RenameInstance starts a job that gives an instance, which must be stopped, another name.
func (c *Client) RenameInstance(ctx context.Context, name, to string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/rename", wire.RenameRequest{Name: to})
}

// PlanRename returns what RenameInstance would change.
func (c *Client) PlanRename(ctx context.Context, name, to string) (seedbed.Plan, error) {
	return post[seedbed.Plan](ctx, c, at("/instances", name)+"/rename", wire.RenameRequest{Name: to, DryRun: true})
}

// CloneInstance starts a job that makes an instance with copies of the disks of another one.
func (c *Client) CloneInstance(ctx context.Context, name string, r seedbed.CloneRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/clone", r)
}

// PlanClone returns what CloneInstance would make.
func (c *Client) PlanClone(ctx context.Context, name string, r seedbed.CloneRequest) (seedbed.Plan, error) {
	return post[seedbed.Plan](ctx, c, at("/instances", name)+"/clone", wire.CloneRequest{CloneRequest: r, DryRun: true})
}
