package server

import (
	"context"

	"seedbed"
)

// VolumeJobs makes jobs on volumes and images. A job is durable before the method returns.
type VolumeJobs interface {
	VolumeKeeper
	Resizer
	VolumeAttacher
}

// VolumeAttacher makes jobs on the volumes of projects. A name that is not theirs but that of a disk which was made with an instance
// is ErrConflict.
type VolumeAttacher interface {
	// AddVolume makes a volume that no instance has, and RemoveVolume removes it.
	AddVolume(ctx context.Context, req seedbed.VolumeRequest, o seedbed.JobOptions) (seedbed.Receipt, error)
	RemoveVolume(ctx context.Context, project, name string, o seedbed.JobOptions) (seedbed.Receipt, error)
	// ResizeVolume makes a volume larger, whether an instance has it or not.
	ResizeVolume(ctx context.Context, project, name string, req seedbed.VolumeResize, o seedbed.JobOptions) (seedbed.Receipt, error)
	// SetVolume changes how fast a volume may be.
	SetVolume(ctx context.Context, project, name string, change seedbed.VolumeLimits, o seedbed.JobOptions) (seedbed.Receipt, error)
	// Attach gives an instance a volume. Detach takes it from the instance that has it, which is the one named if any is.
	Attach(ctx context.Context, project, name string, to seedbed.Attachment, o seedbed.JobOptions) (seedbed.Receipt, error)
	Detach(ctx context.Context, project, name, instance string, o seedbed.JobOptions) (seedbed.Receipt, error)
}

// Volumes reads and renames the volumes of projects, and reads the disks of their instances.
type Volumes interface {
	ProjectVolumes(ctx context.Context, in seedbed.Scope) ([]seedbed.ProjectVolume, error)
	ProjectVolume(ctx context.Context, project, name string) (seedbed.ProjectVolume, error)
	// RenameVolume gives a volume another name.
	RenameVolume(ctx context.Context, project, name, to string, checks ...func(seedbed.ProjectVolume) error) (seedbed.ProjectVolume, error)
}
