package client

import (
	"context"
	"net/http"

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
func (c *Client) TakeSnapshot(ctx context.Context, instance, name string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", instance)+"/snapshots", wire.SnapshotRequest{Name: name})
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

// AddVolume starts a job that makes a volume which no instance has.
func (c *Client) AddVolume(ctx context.Context, r seedbed.VolumeRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, "/volumes", r)
}

// Volume returns a volume of the project, or a disk of one of its instances.
func (c *Client) Volume(ctx context.Context, name string) (seedbed.ProjectVolume, error) {
	return get[seedbed.ProjectVolume](ctx, c, at("/volumes", name), nil)
}

// RenameVolume gives a volume another name.
func (c *Client) RenameVolume(ctx context.Context, name, to string) (seedbed.ProjectVolume, error) {
	return send[seedbed.ProjectVolume](ctx, c, call{method: http.MethodPatch, path: at("/volumes", name), body: wire.VolumeChange{Name: to}})
}

// RemoveVolume starts a job that removes a volume that no instance has.
func (c *Client) RemoveVolume(ctx context.Context, name string) (seedbed.Receipt, error) {
	return c.removal(ctx, at("/volumes", name))
}

// ResizeVolume starts a job that makes a volume larger.
func (c *Client) ResizeVolume(ctx context.Context, name string, r seedbed.VolumeResize) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/volumes", name)+"/resize", r)
}

// SetVolume starts a job that changes how fast a volume may be.
func (c *Client) SetVolume(ctx context.Context, name string, change seedbed.VolumeLimits) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/volumes", name)+"/limits", change)
}

// AttachVolume starts a job that attaches a volume to an instance.
func (c *Client) AttachVolume(ctx context.Context, name string, to seedbed.Attachment) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/volumes", name)+"/attach", to)
}

// DetachVolume starts a job that takes a volume from the instance that has it: the one named, unless that is empty.
func (c *Client) DetachVolume(ctx context.Context, name, instance string) (seedbed.Receipt, error) {
	return send[seedbed.Receipt](ctx, c, call{
		method: http.MethodPost, path: at("/volumes", name) + "/detach", query: given(map[string]string{"instance": instance}),
	})
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
