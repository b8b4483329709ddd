package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"seedbed"
	"seedbed/provision/worker/drivertest"
	"seedbed/store"
)

// disks are the volumes of the world's instances: a pool in memory that keeps
// what is removed for three days.
type disks struct {
	db   *store.DB
	pool *drivertest.Pool
}

func newDisks(db *store.DB) disks {
	d := disks{db, drivertest.NewPool()}
	d.pool.SetTrash(72 * time.Hour)
	return d
}

// effect does to the volumes what a job's kind says.
func (d disks) effect(ctx context.Context, job *seedbed.Job) error {
	if job.Instance == "" {
		return nil
	}
	inst, err := d.db.Instance(ctx, job.Instance)
	if err != nil {
		return err
	}
	var input seedbed.SnapshotJob
	if len(job.Spec) > 0 {
		if err := json.Unmarshal(job.Spec, &input); err != nil {
			return err
		}
	}
	for _, v := range inst.Volumes {
		snapshot := seedbed.SnapshotSpec{Pool: v.Pool, Volume: v.Name, Instance: inst.ID, Name: input.Name}
		switch job.Kind {
		case seedbed.JobCreate:
			_, err = d.pool.CloneVolume(ctx, job.ID, seedbed.VolumeSpec{Pool: v.Pool, Name: v.Name, Instance: inst.ID, Size: v.Size})
		case seedbed.JobRemove:
			_, err = d.pool.TrashVolume(ctx, v.Name, inst.ID)
		case seedbed.JobFlatten:
			_, err = d.pool.FlattenVolume(ctx, v.Name, inst.ID, nil)
		case seedbed.JobSnapshot:
			_, err = d.pool.CreateSnapshot(ctx, job.ID, snapshot)
		case seedbed.JobSnapshotRemove:
			err = d.pool.RemoveSnapshot(ctx, snapshot, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Snapshots is what the API asks the worker.
func (d disks) Snapshots(ctx context.Context, _, _, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
	return d.pool.Snapshots(ctx, volume, id)
}

// Trash is what the API asks the worker.
func (d disks) Trash(ctx context.Context, _ string) ([]seedbed.TrashItem, error) {
	all, err := d.pool.Trash(ctx)
	if err != nil {
		return nil, err
	}
	volumes, err := d.pool.Volumes(ctx)
	for _, v := range volumes {
		if v.Restored {
			all = append(all, seedbed.TrashItem{Pool: v.Pool, Name: v.Name, State: seedbed.Restored, Instance: v.Instance, Size: v.Size})
		}
	}
	return all, err
}

// RestoreVolume is what the API asks the worker.
func (d disks) RestoreVolume(ctx context.Context, _, id string) (seedbed.VolumeInfo, error) {
	return d.pool.RestoreVolume(ctx, id)
}

// DiscardVolume is what the API asks the worker.
func (d disks) DiscardVolume(ctx context.Context, pool, name string) (*seedbed.TrashItem, error) {
	volumes, err := d.pool.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range volumes {
		if v.Name == name && v.Restored {
			return d.pool.TrashVolume(ctx, name, v.Instance)
		}
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "volume %q is not in pool %s", name, pool)
}

// PurgeVolume is what the API asks the worker.
func (d disks) PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error {
	return d.pool.PurgeVolume(ctx, item.ID, early)
}

// ReceiveUpload is what the API asks the worker.
func (d disks) ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error) {
	return d.pool.ReceiveUpload(ctx, spec, body)
}

// DropUpload is what the API asks the worker.
func (d disks) DropUpload(ctx context.Context, up seedbed.Upload) error {
	return d.pool.DropUpload(ctx, up.ID)
}

// ova are the disks of the OVA that a job imports.
func (d disks) ova(job *seedbed.Job) []seedbed.OVAVolume {
	var input seedbed.OVAJob
	if err := json.Unmarshal(job.Spec, &input); err != nil {
		panic(err) // the intake wrote it
	}
	return input.Volumes
}
