package drivertest

import (
	"context"
	"io"

	"seedbed"
	"seedbed/provision/backup"
)

// OpenSnapshot implements worker.Archiver.
func (p *Pool) OpenSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, base string) (backup.Source, error) {
	return nil, seedbed.Errorf(seedbed.ErrUnavailable, "pool has no backups in this build")
}

// FillVolume implements worker.Archiver.
func (p *Pool) FillVolume(
	ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec, from string, fill func(context.Context, io.WriterAt) error,
) (seedbed.VolumeInfo, error) {
	return seedbed.VolumeInfo{}, seedbed.Errorf(seedbed.ErrUnavailable, "pool has no backups in this build")
}
