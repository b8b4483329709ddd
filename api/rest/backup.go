package rest

import (
	"context"
	"errors"
	"slices"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// targetTag returns the entity tag of a target.
func targetTag(t seedbed.BackupTarget) string {
	return server.RevisionTag(t.Revision, t.Created.UnixMicro())
}

func shownTarget(t seedbed.BackupTarget) wire.BackupTarget {
	return wire.BackupTarget{BackupTarget: t, HasIdentity: t.Identity != ""}
}

func (r *router) backupTargets() listing[wire.BackupTarget] {
	return listing[wire.BackupTarget]{
		kind: "backup target", name: func(t wire.BackupTarget) string { return t.Name },
		read: func(ctx context.Context, _ *fiber.Ctx) ([]wire.BackupTarget, error) {
			all, err := r.Store.BackupTargets(ctx)
			return server.Each(all, shownTarget), err
		},
	}
}

// targetNamed returns the target that the path or the query names.
func (r *router) targetNamed(ctx context.Context, name string) (seedbed.BackupTarget, error) {
	if err := seedbed.CheckTargetName(name); err != nil {
		return seedbed.BackupTarget{}, err
	}
	return r.Store.BackupTarget(ctx, name)
}

func (r *router) backupTarget(ctx context.Context, c *fiber.Ctx) error {
	t, err := r.targetNamed(ctx, string([]byte(c.Params("name"))))
	if err != nil {
		return err
	}
	return server.Tagged(c, targetTag(t), shownTarget(t))
}

// createBackupTarget adds a target that a worker has reached and made ready.
func (r *router) createBackupTarget(ctx context.Context, c *fiber.Ctx) error {
	var req seedbed.BackupTargetRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	t := seedbed.BackupTarget{Name: req.Name, BackupSettings: req.BackupSettings, Secret: req.Secret, Identity: req.Identity}
	if err := t.Check(); err != nil {
		return err
	}
	switch _, err := r.Store.BackupTarget(ctx, t.Name); {
	case err == nil:
		return seedbed.Errorf(seedbed.ErrExists, "backup target %q exists already", t.Name)
	case !errors.Is(err, seedbed.ErrNotFound):
		return err
	}
	info, err := r.Backups.CheckTarget(ctx, t)
	if err != nil {
		return err
	}
	t.NameKey = info.NameKey
	if t, err = r.Store.CreateBackupTarget(ctx, t); err != nil {
		return err
	}
	return server.Created(c, "/backup-targets/"+t.Name, shownTarget(t))
}

func (r *router) changeBackupTarget(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.NameOf(c, "backup target")
	if err != nil {
		return err
	}
	var req seedbed.BackupTargetChange
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	if req == (seedbed.BackupTargetChange{}) {
		return server.Invalid("nothing to change: expected some of key_id, secret, identity, node, before, after and keep")
	}
	if req.KeyID != nil || req.Secret != nil || req.Identity != nil { // with a wrong one, every backup would fail
		t, err := r.targetNamed(ctx, n)
		if err != nil {
			return err
		}
		if t = req.Of(t); t.Check() == nil { // or else the change is refused
			if _, err := r.Backups.CheckTarget(ctx, t); err != nil {
				return err
			}
		}
	}
	t, err := r.Store.ChangeBackupTarget(ctx, n, func(t *seedbed.BackupTarget) error {
		if err := server.Matches(c, targetTag(*t)); err != nil {
			return err
		}
		*t = req.Of(*t)
		return nil
	})
	if err != nil {
		return err
	}
	return server.Tagged(c, targetTag(t), shownTarget(t))
}

func (r *router) deleteBackupTarget(ctx context.Context, c *fiber.Ctx) error {
	return dropTagged(ctx, c, "backup target", r.Store.DeleteBackupTarget, targetTag)
}

// checkBackupTarget reports whether the target can be reached and written to.
func (r *router) checkBackupTarget(ctx context.Context, c *fiber.Ctx) (any, error) {
	t, err := r.targetNamed(ctx, string([]byte(c.Params("name"))))
	if err != nil {
		return nil, err
	}
	info, err := r.Backups.CheckTarget(ctx, t)
	return wire.BackupTargetCheck{ChunkSize: info.ChunkSize, Recipient: info.Recipient}, err
}

// backUp accepts a job that makes a backup of an instance, or answers its plan.
func (r *router) backUp(ctx context.Context, c *fiber.Ctx) error {
	var req wire.BackupRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	params := map[string]any{"target": req.Target, "full": req.Full, "exclude": req.Exclude}
	return r.jobOrPlan(ctx, c, seedbed.Request{Action: seedbed.DoBackup, Params: params}, req.DryRun)
}

// backups lists the backups in all targets, or in the one that the query names: those of the project's instances and, for a caller that
// acts in the default project, all of them.
func (r *router) backups() listing[wire.Backup] {
	return listing[wire.Backup]{
		kind: "backup", name: func(b wire.Backup) string { return seedbed.Qualified(projectIn(b), b.Name) },
		place: func(b wire.Backup) string { return placed(projectIn(b), b.Name, string(b.Backup), b.Target) },
		read: func(ctx context.Context, c *fiber.Ctx) (all []wire.Backup, err error) {
			targets := []seedbed.BackupTarget{{}}
			if name := string([]byte(c.Query("target"))); name != "" {
				targets[0], err = r.targetNamed(ctx, name)
			} else {
				targets, err = r.Store.BackupTargets(ctx)
			}
			if err != nil {
				return nil, err
			}
			for _, t := range targets {
				some, err := r.backupsIn(ctx, c, t)
				if err != nil {
					return nil, err
				}
				all = append(all, some...)
			}
			return all, nil
		},
		filters: []filterBy[wire.Backup]{
			byName("target", func(b wire.Backup) string { return b.Target }),
			byName("instance", func(b wire.Backup) string { return b.Name }),
		},
	}
}

// projectIn returns the project that a backup says; a damaged one says none.
func projectIn(b wire.Backup) string {
	if b.Project == "" {
		return seedbed.DefaultProject
	}
	return b.Project
}

// backupsIn returns the backups in a target that the caller may see.
func (r *router) backupsIn(ctx context.Context, c *fiber.Ctx, t seedbed.BackupTarget) (all []wire.Backup, err error) {
	list, err := r.Backups.ListBackups(ctx, t)
	if err != nil {
		r.Log.Warn("list backups", "target", t.Name, "err", err)
		return nil, seedbed.BackupUnread(ctx, t.Name, err)
	}
	for _, b := range list.Backups {
		all = append(all, wire.Backup{Target: t.Name, BackupHead: b})
	}
	for _, d := range list.Damaged {
		all = append(all, wire.Backup{Target: t.Name, BackupHead: seedbed.BackupHead{BackupKey: d.BackupKey}, Problem: d.Problem})
	}
	in, err := server.ScopeOf(c)
	if err != nil {
		return nil, err
	}
	project, one := in.One()
	if !one || project == seedbed.DefaultProject {
		return all, nil
	}
	of, err := r.Store.BackupOwners(ctx, server.Each(all, func(b wire.Backup) seedbed.InstanceID { return b.Instance }))
	return slices.DeleteFunc(all, func(b wire.Backup) bool { return of[b.Instance].Project != project }), err
}

// backupNamed returns the backup that the path names, and its target.
func (r *router) backupNamed(ctx context.Context, c *fiber.Ctx) (t seedbed.BackupTarget, b wire.Backup, err error) {
	id, err := pathName(c, "backup", "id")
	if err != nil {
		return t, b, err
	}
	if t, err = r.targetNamed(ctx, string([]byte(c.Params("target")))); err != nil {
		return t, b, err
	}
	all, err := r.backupsIn(ctx, c, t)
	if err != nil {
		return t, b, err
	}
	all = slices.DeleteFunc(all, func(b wire.Backup) bool { return string(b.Backup) != id })
	switch len(all) {
	case 0:
		return t, b, seedbed.Errorf(seedbed.ErrNotFound, "backup %q is not in target %q", id, t.Name)
	case 1:
		return t, all[0], nil
	}
	return t, b, seedbed.Errorf(seedbed.ErrConflict, "%d instances have a backup %q in target %q", len(all), id, t.Name)
}

func (r *router) backup(ctx context.Context, c *fiber.Ctx) error {
	t, b, err := r.backupNamed(ctx, c)
	if err != nil {
		return err
	}
	m, err := r.Backups.BackupManifest(ctx, t, b.BackupKey)
	if err != nil {
		r.Log.Warn("read a backup", "target", t.Name, "backup", b.Backup, "err", err)
		return seedbed.BackupUnread(ctx, t.Name, err)
	}
	shown, err := wire.DetailsOf(b, m)
	if err != nil {
		return err
	}
	if seedbed.IsTenant(ctx) {
		shown.Node = ""
	}
	return server.Tagged(c, server.ContentTag(shown), shown)
}

// restoreBackup accepts a job that makes an instance of a backup, or answers its plan.
func (r *router) restoreBackup(ctx context.Context, c *fiber.Ctx) error {
	o, err := r.JobOptions(ctx, c)
	if err != nil {
		return err
	}
	var req wire.BackupRestoreRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	if err := seedbed.CheckInstanceName(req.Name); err != nil {
		return err
	}
	t, b, err := r.backupNamed(ctx, c)
	if err != nil {
		return err
	}
	of, project := seedbed.BackupRestore{Target: t.Name, Backup: b.BackupKey}, server.CallerOf(c).Project
	if req.DryRun {
		p, err := r.BackupJobs.PlanRestoreBackup(ctx, project, of, req.BackupRestoreRequest)
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusOK, p)
	}
	receipt, err := r.BackupJobs.RestoreBackup(ctx, project, of, req.BackupRestoreRequest, o)
	if err != nil {
		return err
	}
	return server.Accepted(c, receipt)
}

// onBackup accepts a job of that kind on the backup that the path names, or answers its plan.
func (r *router) onBackup(kind seedbed.JobKind) server.Handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		o, err := r.JobOptions(ctx, c)
		if err != nil {
			return err
		}
		dry, err := switched(c, "dry_run")
		if err != nil {
			return err
		}
		t, b, err := r.backupNamed(ctx, c)
		if err != nil {
			return err
		}
		work, project := seedbed.BackupWork{Target: t.Name, Backups: []seedbed.BackupKey{b.BackupKey}}, server.CallerOf(c).Project
		if dry {
			p, err := r.BackupJobs.PlanBackupWork(ctx, kind, project, work)
			if err != nil {
				return err
			}
			return server.Reply(c, fiber.StatusOK, p)
		}
		do := r.BackupJobs.VerifyBackups
		if kind == seedbed.JobBackupRemove {
			do = r.BackupJobs.RemoveBackups
		}
		receipt, err := do(ctx, project, work, o)
		if err != nil {
			return err
		}
		return server.Accepted(c, receipt)
	}
}

// backupAgain submits the request of a job on backups again.
func (r *router) backupAgain(ctx context.Context, j seedbed.Job, o seedbed.JobOptions) (seedbed.Receipt, error) {
	if j.Kind == seedbed.JobBackup {
		var s seedbed.BackupJob
		if err := specOf(j, &s); err != nil {
			return seedbed.Receipt{}, err
		}
		return r.Intake.Submit(ctx, seedbed.Request{Action: seedbed.DoBackup, Project: j.Project, Name: j.Subject, JobOptions: o,
			Params: map[string]any{"target": s.Target, "full": s.Full, "exclude": s.Exclude}, Schedule: s.Schedule}, nil)
	}
	var s seedbed.BackupWork
	if err := specOf(j, &s); err != nil {
		return seedbed.Receipt{}, err
	}
	if j.Kind == seedbed.JobBackupVerify {
		return r.BackupJobs.VerifyBackups(ctx, j.Project, s, o)
	}
	return r.BackupJobs.RemoveBackups(ctx, j.Project, s, o)
}
