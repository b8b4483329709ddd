package worker

import (
	"context"

	"seedbed"
)

// CreateSnapshot takes a snapshot of a volume: see Snapshotter.
func (c *Client) CreateSnapshot(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) (seedbed.SnapshotInfo, error) {
	return ask[seedbed.SnapshotInfo](ctx, c, exchange{effect: createSnapshot, call: call, args: spec})
}

// RemoveSnapshot removes a snapshot, unless of is empty only that job's: see Snapshotter.
func (c *Client) RemoveSnapshot(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec, of seedbed.JobID) error {
	_, err := ask[none](ctx, c, exchange{effect: removeSnapshot, call: call, args: snapshotArgs{spec, of}})
	return err
}

// Snapshots are the snapshots of a volume, oldest first: see Snapshotter.
func (c *Client) Snapshots(ctx context.Context, pool, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
	return ask[[]seedbed.SnapshotInfo](ctx, c, exchange{effect: snapshots, args: volumeArgs{pool, volume, id}})
}

// FlattenVolume makes a volume independent of its image: see Flattener. Of
// progress the latest is passed on; it may be nil.
func (c *Client) FlattenVolume(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID, progress func(seedbed.Progress)) (seedbed.VolumeInfo, error) {
	return ask[seedbed.VolumeInfo](ctx, c, exchange{effect: flattenVolume, call: call, args: volumeArgs{pool, name, id}, progress: progress})
}

// StopFlatten ends what goes on of a flatten: see Flattener.
func (c *Client) StopFlatten(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID) error {
	_, err := ask[none](ctx, c, exchange{effect: stopFlatten, call: call, args: volumeArgs{pool, name, id}})
	return err
}

// TrashVolume moves a volume into its pool's trash: see Trash. The answer is
// nil when nothing is kept of it.
func (c *Client) TrashVolume(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID) (*seedbed.TrashItem, error) {
	return ask[*seedbed.TrashItem](ctx, c, exchange{effect: trashVolume, call: call, args: volumeArgs{pool, name, id}})
}

// Trash is what is in the trash of every pool of the worker, and the volumes
// that came back from it; an error when a pool did not answer.
func (c *Client) Trash(ctx context.Context) ([]seedbed.TrashItem, error) {
	return ask[[]seedbed.TrashItem](ctx, c, exchange{effect: trash})
}

// RestoreVolume makes what is in the trash a volume again: see Trash.
func (c *Client) RestoreVolume(ctx context.Context, pool, id string) (seedbed.VolumeInfo, error) {
	return ask[seedbed.VolumeInfo](ctx, c, exchange{effect: restoreVolume, args: trashArgs{Pool: pool, ID: id}})
}

// DiscardVolume puts a restored volume back into the trash, or where the pool
// keeps none removes it, which answers nil. ErrConflict for a volume that was not restored.
func (c *Client) DiscardVolume(ctx context.Context, pool, name string) (*seedbed.TrashItem, error) {
	return ask[*seedbed.TrashItem](ctx, c, exchange{effect: discardVolume, args: imageArgs{Pool: pool, Name: name}})
}

// PurgeVolume removes what is in the trash for good: see Trash.
func (c *Client) PurgeVolume(ctx context.Context, pool, id string, early bool) error {
	_, err := ask[none](ctx, c, exchange{effect: purgeVolume, args: trashArgs{pool, id, early}})
	return err
}
