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
	BackupStore
	ProjectVolumes(ctx context.Context, in seedbed.Scope) ([]seedbed.ProjectVolume, error)
	ProjectVolume(ctx context.Context, project, name string) (seedbed.ProjectVolume, error)
	// RenameVolume gives a volume another name.
	RenameVolume(ctx context.Context, project, name, to string, checks ...func(seedbed.ProjectVolume) error) (seedbed.ProjectVolume, error)
}

// Fencing fences nodes.
type Fencing interface {
	// Seal encrypts the secrets of a fence agent.
	Seal(secrets map[string]string) ([]byte, error)
	// Status asks the fence agent of a node whether the node is on, and returns which node it was asked from.
	Status(ctx context.Context, n seedbed.Node) (on bool, from string, err error)
	// Failover accepts a job that fences a node and starts instances of it elsewhere. confirmed says that the node is off.
	Failover(ctx context.Context, node string, confirmed bool) (seedbed.Receipt, error)
}

// Resizer makes jobs that resize instances, change their hardware (Set), rename or clone them.
type Resizer interface {
	Resize(ctx context.Context, instance seedbed.InstanceName, req seedbed.ResizeRequest, o seedbed.JobOptions) (seedbed.Receipt, error)
	// PlanResize returns what a resize would change, and the problems that would prevent it.
	PlanResize(ctx context.Context, instance seedbed.InstanceName, req seedbed.ResizeRequest) (seedbed.Plan, error)
	Set(ctx context.Context, instance seedbed.InstanceName, c seedbed.HardwareChange, o seedbed.JobOptions) (seedbed.Receipt, error)
	PlanSet(ctx context.Context, instance seedbed.InstanceName, change seedbed.HardwareChange) (seedbed.Plan, error)
	Rename(ctx context.Context, instance seedbed.InstanceName, to string, o seedbed.JobOptions) (seedbed.Receipt, error)
	PlanRename(ctx context.Context, instance seedbed.InstanceName, to string) (seedbed.Plan, error)
	Clone(ctx context.Context, instance seedbed.InstanceName, req seedbed.CloneRequest, o seedbed.JobOptions) (seedbed.Receipt, error)
	PlanClone(ctx context.Context, instance seedbed.InstanceName, req seedbed.CloneRequest) (seedbed.Plan, error)
}
