package client

import (
	"context"
	"net/http"

	"seedbed"
	"seedbed/api/wire"
)

// AddBackupTarget adds a target of backups, which a worker reaches first.
func (c *Client) AddBackupTarget(ctx context.Context, r seedbed.BackupTargetRequest) (wire.BackupTarget, error) {
	return post[wire.BackupTarget](ctx, c, "/backup-targets", r)
}

// ListBackupTargets lists the targets of backups, as s selects them. It reads them page by page.
func (c *Client) ListBackupTargets(ctx context.Context, s Selection) ([]wire.BackupTarget, error) {
	return selected[wire.BackupTarget](ctx, c, "/backup-targets", s)
}

// BackupTarget returns a target of backups.
func (c *Client) BackupTarget(ctx context.Context, name string) (wire.BackupTarget, error) {
	return get[wire.BackupTarget](ctx, c, at("/backup-targets", name), nil)
}

// SetBackupTarget changes a target of backups.
func (c *Client) SetBackupTarget(ctx context.Context, name string, change seedbed.BackupTargetChange) (wire.BackupTarget, error) {
	return patch[wire.BackupTarget](ctx, c, at("/backup-targets", name), change)
}

// DeleteBackupTarget removes a target of backups. What is in it stays there.
func (c *Client) DeleteBackupTarget(ctx context.Context, name string) error {
	return c.remove(ctx, at("/backup-targets", name))
}

// CheckBackupTarget reports whether a target can be reached and written to.
func (c *Client) CheckBackupTarget(ctx context.Context, name string) (wire.BackupTargetCheck, error) {
	return post[wire.BackupTargetCheck](ctx, c, at("/backup-targets", name)+"/check", nil)
}

// BackUp starts a job that makes a backup of an instance. PlanBackup returns what it would do.
func (c *Client) BackUp(ctx context.Context, instance string, r wire.BackupRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", instance)+"/backups", r)
}

// PlanBackup returns what BackUp would do.
func (c *Client) PlanBackup(ctx context.Context, instance string, r wire.BackupRequest) (seedbed.Plan, error) {
	r.DryRun = true
	return post[seedbed.Plan](ctx, c, at("/instances", instance)+"/backups", r)
}

// ListBackups lists backups, as s selects them. It reads them page by page.
func (c *Client) ListBackups(ctx context.Context, s Selection) ([]wire.Backup, error) {
	return selected[wire.Backup](ctx, c, "/backups", s)
}

func backupAt(target, id string) string { return at(at("/backups", target), id) }

// Backup returns a backup in a target.
func (c *Client) Backup(ctx context.Context, target, id string) (wire.BackupDetails, error) {
	return get[wire.BackupDetails](ctx, c, backupAt(target, id), nil)
}

// RestoreBackup starts a job that makes an instance of a backup.
func (c *Client) RestoreBackup(ctx context.Context, target, id string, r seedbed.BackupRestoreRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, backupAt(target, id)+"/restore", r)
}

// PlanRestoreBackup returns what RestoreBackup would make.
func (c *Client) PlanRestoreBackup(ctx context.Context, target, id string, r seedbed.BackupRestoreRequest) (seedbed.Plan, error) {
	return post[seedbed.Plan](ctx, c, backupAt(target, id)+"/restore", wire.BackupRestoreRequest{BackupRestoreRequest: r, DryRun: true})
}

// VerifyBackup starts a job that reads a backup as a whole.
func (c *Client) VerifyBackup(ctx context.Context, target, id string) (seedbed.Receipt, error) {
	return send[seedbed.Receipt](ctx, c, call{method: http.MethodPost, path: backupAt(target, id) + "/verify"})
}

// RemoveBackup starts a job that removes a backup.
func (c *Client) RemoveBackup(ctx context.Context, target, id string) (seedbed.Receipt, error) {
	return c.removal(ctx, backupAt(target, id))
}

// PlanVerifyBackup returns what VerifyBackup would do.
func (c *Client) PlanVerifyBackup(ctx context.Context, target, id string) (seedbed.Plan, error) {
	return send[seedbed.Plan](ctx, c, call{method: http.MethodPost, path: backupAt(target, id) + "/verify",
		query: given(map[string]string{"dry_run": "true"})})
}

// PlanRemoveBackup returns what RemoveBackup would do.
func (c *Client) PlanRemoveBackup(ctx context.Context, target, id string) (seedbed.Plan, error) {
	return send[seedbed.Plan](ctx, c, call{method: http.MethodDelete, path: backupAt(target, id),
		query: given(map[string]string{"dry_run": "true"})})
}

// schedulesAt returns the path of the schedules of a kind.
func schedulesAt(kind seedbed.ScheduleKind) string { return "/" + string(kind) + "-schedules" }

// AddBackupSchedule adds a schedule of backups.
func (c *Client) AddBackupSchedule(ctx context.Context, r wire.BackupScheduleRequest) (seedbed.Schedule, error) {
	return post[seedbed.Schedule](ctx, c, schedulesAt(seedbed.ScheduleBackup), r)
}

// AddSnapshotSchedule adds a schedule of snapshots.
func (c *Client) AddSnapshotSchedule(ctx context.Context, r wire.SnapshotScheduleRequest) (seedbed.Schedule, error) {
	return post[seedbed.Schedule](ctx, c, schedulesAt(seedbed.ScheduleSnapshot), r)
}

// ListSchedules lists the schedules of a kind, as s selects them. It reads them page by page.
func (c *Client) ListSchedules(ctx context.Context, kind seedbed.ScheduleKind, s Selection) ([]seedbed.Schedule, error) {
	return selected[seedbed.Schedule](ctx, c, schedulesAt(kind), s)
}

// Schedule returns a schedule.
func (c *Client) Schedule(ctx context.Context, kind seedbed.ScheduleKind, name string) (seedbed.Schedule, error) {
	return get[seedbed.Schedule](ctx, c, at(schedulesAt(kind), name), nil)
}

// RunSchedule runs a schedule at once. If dry is true, it only returns what the schedule would ask for.
func (c *Client) RunSchedule(ctx context.Context, kind seedbed.ScheduleKind, name string, dry bool) (seedbed.ScheduleRun, error) {
	query := map[string]string{}
	if dry {
		query["dry_run"] = "true"
	}
	return send[seedbed.ScheduleRun](ctx, c, call{method: http.MethodPost, path: at(schedulesAt(kind), name) + "/run", query: given(query)})
}

// DeleteSchedule removes a schedule. What it has made stays.
func (c *Client) DeleteSchedule(ctx context.Context, kind seedbed.ScheduleKind, name string) error {
	return c.remove(ctx, at(schedulesAt(kind), name))
}
