package plans

import (
	"cmp"
	"context"
	"fmt"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// backupVerifyPlan reads backups as a whole. It changes nothing.
func (t *task) backupVerifyPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{{Name: "verify-backup", Run: t.verifyBackups}}}
}

// backupRemovePlan removes backups, and then what no backup in the target needs.
func (t *task) backupRemovePlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "remove-backup", Run: t.removeBackups},
		{Name: "sweep-backups", Run: t.sweepBackups},
	}}
}

func (t *task) verifyBackups(ctx context.Context) error {
	var job seedbed.BackupWork
	place, err := t.backupPlace(ctx, &job, &job.Target)
	if err != nil {
		return err
	}
	var found seedbed.BackupCheck
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		found, err = effects.VerifyBackup.Do(ctx, t.Worker(), call, effects.BackupSelection{Place: place, Keys: job.Backups},
			effects.OnProgress(t.percent("reading")))
		return err
	})
	if err != nil {
		return fmt.Errorf("verify in target %s: %w", job.Target, err)
	}
	for _, p := range found.Problems {
		t.Event("error", t.Progress(), "backup %s: %s", p.Backup, p.Problem)
	}
	if n := len(found.Problems); n > 0 {
		return seedbed.Errorf(seedbed.ErrConflict, "damaged or missing: %d, first in backup %s: %s", n, found.Problems[0].Backup,
			found.Problems[0].Problem)
	}
	t.Event("info", 100, "%d backup(s) are whole: %d chunks, %s read", found.Backups, found.Chunks, found.Read)
	return nil
}

func (t *task) removeBackups(ctx context.Context) error {
	var job seedbed.BackupWork
	place, err := t.backupPlace(ctx, &job, &job.Target)
	if err != nil {
		return err
	}
	for _, key := range job.Backups {
		if err := t.removeBackup(ctx, job.Target, effects.BackupRef{Place: place, Key: key}); err != nil {
			return err
		}
	}
	return nil
}

func (t *task) sweepBackups(ctx context.Context) error {
	var job seedbed.BackupWork
	place, err := t.backupPlace(ctx, &job, &job.Target)
	if err != nil {
		return err
	}
	var swept seedbed.BackupSwept
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		swept, err = effects.SweepBackups.Do(ctx, t.Worker(), call, effects.BackupSweep{Place: place, Grace: effects.MinBackupGrace},
			effects.OnProgress(t.percent("sweeping")))
		return err
	})
	if err != nil {
		return fmt.Errorf("sweep target %s: %w", job.Target, err)
	}
	if swept.Refused > 0 {
		t.Event("warn", t.Progress(), "target %s did not let %d chunk(s) be removed: %s", job.Target, swept.Refused,
			cmp.Or(swept.Refusal, "it did not say why"))
	}
	t.Event("info", 100, "%d chunk(s) without a backup are removed (%s), %d are kept, %d are too young", swept.Removed, swept.Freed,
		swept.Kept, swept.Young)
	return nil
}
