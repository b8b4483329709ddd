package server

import (
	"context"

	"seedbed"
)

// VolumeJobs makes jobs on volumes and images. A job is durable before the method returns.
type VolumeJobs interface {
	VolumeKeeper
	Resizer
}

// Volumes reads and renames the volumes of projects, and reads the disks of their instances.
type Volumes interface {
	ProjectVolumes(ctx context.Context, in seedbed.Scope) ([]seedbed.ProjectVolume, error)
	ProjectVolume(ctx context.Context, project, name string) (seedbed.ProjectVolume, error)
	// RenameVolume gives a volume another name.
	RenameVolume(ctx context.Context, project, name, to string, checks ...func(seedbed.ProjectVolume) error) (seedbed.ProjectVolume, error)
}
