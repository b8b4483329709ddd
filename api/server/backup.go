package server

import (
	"context"

	"seedbed"
)

// BackupStore reads and writes the targets of backups, with their secrets, and the schedules.
type BackupStore interface {
	CreateBackupTarget(ctx context.Context, t seedbed.BackupTarget) (seedbed.BackupTarget, error)
	BackupTarget(ctx context.Context, name string) (seedbed.BackupTarget, error)
	BackupTargets(ctx context.Context) ([]seedbed.BackupTarget, error)
	// ChangeBackupTarget applies change to a target. The name cannot change.
	ChangeBackupTarget(ctx context.Context, name string, change func(*seedbed.BackupTarget) error) (seedbed.BackupTarget, error)
	// DeleteBackupTarget removes a target, and nothing that is in it. It returns ErrInUse if a schedule has it.
	DeleteBackupTarget(ctx context.Context, name string, checks ...func(seedbed.BackupTarget) error) error
	CreateSchedule(ctx context.Context, s seedbed.Schedule) (seedbed.Schedule, error)
	Schedule(ctx context.Context, kind seedbed.ScheduleKind, name string) (seedbed.Schedule, error)
	Schedules(ctx context.Context) ([]seedbed.Schedule, error)
	DeleteSchedule(ctx context.Context, kind seedbed.ScheduleKind, name string, checks ...func(seedbed.Schedule) error) error
	// BackupOwners returns whose the backups of instances are, as far as they are known to this installation.
	BackupOwners(ctx context.Context, ids []seedbed.InstanceID) (map[seedbed.InstanceID]seedbed.BackupOwner, error)
}

// Schedules runs schedules.
type Schedules interface {
	// Check returns ErrInvalid for what is not five cron fields.
	Check(cron string) error
	// RunNow runs a schedule at once. If dry is true, it only returns what the schedule would ask for.
	RunNow(ctx context.Context, s seedbed.Schedule, dry bool) (seedbed.ScheduleRun, error)
}

// Backups reaches the targets of backups through workers.
type Backups interface {
	// CheckTarget reports whether a target can be reached and written to. It makes an empty one ready.
	CheckTarget(ctx context.Context, t seedbed.BackupTarget) (seedbed.BackupPlaceInfo, error)
	ListBackups(ctx context.Context, t seedbed.BackupTarget) (seedbed.BackupList, error)
	BackupManifest(ctx context.Context, t seedbed.BackupTarget, key seedbed.BackupKey) (seedbed.BackupManifest, error)
}

// BackupJobs makes jobs on backups. A job is durable before the method returns.
type BackupJobs interface {
	// RestoreBackup makes an instance of a project of a backup. PlanRestoreBackup returns what it would make.
	RestoreBackup(ctx context.Context, project string, of seedbed.BackupRestore, req seedbed.BackupRestoreRequest,
		o seedbed.JobOptions) (seedbed.Receipt, error)
	PlanRestoreBackup(ctx context.Context, project string, of seedbed.BackupRestore, req seedbed.BackupRestoreRequest) (seedbed.Plan, error)
	VerifyBackups(ctx context.Context, project string, work seedbed.BackupWork, o seedbed.JobOptions) (seedbed.Receipt, error)
	// PlanBackupWork returns what one of these would do, by the kind of job.
	PlanBackupWork(ctx context.Context, kind seedbed.JobKind, project string, work seedbed.BackupWork) (seedbed.Plan, error)
	RemoveBackups(ctx context.Context, project string, work seedbed.BackupWork, o seedbed.JobOptions) (seedbed.Receipt, error)
}
