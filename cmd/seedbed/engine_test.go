package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"seedbed"
	"seedbed/provision/record"
	"seedbed/provision/worker/drivertest"
	"seedbed/store"
)

// engine runs jobs without a worker. An instance or image whose name starts with "bad" fails. One
// whose name starts with "slow" waits to be cancelled, and so does the shutdown of one whose name
// starts with "deaf".
type engine struct {
	db   *store.DB
	pool disks
	// files has the files that are made of volumes.
	files *drivertest.Pool
}

func (e engine) run(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	for ctx.Err() == nil {
		job, err := e.db.ClaimJob(ctx, "test", time.Minute)
		if err != nil {
			return err
		}
		if job == nil {
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
			continue
		}
		wait.Go(func() {
			if err := e.work(ctx, job); err != nil && ctx.Err() == nil {
				panic(fmt.Errorf("job of %s: %w", job.Subject, err))
			}
		})
	}
	return nil
}

var stages = map[seedbed.JobKind][]string{
	seedbed.JobCreate: {"volumes", "define", "publish", "start", "ready"},
	seedbed.JobRemove: {"stop", "retract", "undefine", "delete"},
	seedbed.JobImport: {"import"},

	seedbed.JobStart:   {"start"},
	seedbed.JobStop:    {"shutdown", "stop"},
	seedbed.JobReboot:  {"shutdown", "stop", "start"},
	seedbed.JobRebuild: {"shutdown", "stop", "volumes", "redefine", "publish", "start", "ready", "delete"},

	seedbed.JobMigrate: {"publish", "define", "migrate", "leave"},

	seedbed.JobResize: {"redefine", "grow"},

	seedbed.JobFlatten:        {"flatten"},
	seedbed.JobSnapshot:       {"snapshot"},
	seedbed.JobSnapshotRemove: {"delete-snapshot"},
	seedbed.JobImageRemove:    {"delete-image"},
	seedbed.JobOVA:            {"import"},
	seedbed.JobOVARemove:      {"delete-image"},

	seedbed.JobAdopt:  {"take-volumes", "take-domain", "publish"},
	seedbed.JobForget: {"retract", "release-domain", "release-volumes"},

	seedbed.JobVolumeAdd:      {"make-volume"},
	seedbed.JobVolumeRemove:   {"delete-volume"},
	seedbed.JobVolumeResize:   {"grow"},
	seedbed.JobVolumeSet:      {"limit"},
	seedbed.JobVolumeMove:     {"copy", "move", "delete-volume"},
	seedbed.JobVolumeDownload: {"copy"},
	seedbed.JobAttach:         {"attach", "show-volume"},
	seedbed.JobDetach:         {"hide-volume", "detach"},
	seedbed.JobNICAdd:         {"publish-nic", "plug", "show-nic"},
	seedbed.JobNICRemove:      {"hide-nic", "unplug", "drop-nic"},
	seedbed.JobNICSet:         {"hide-nic", "unplug", "switch-nic", "plug", "show-nic"},
	seedbed.JobSet:            {"configure"},
	seedbed.JobRename:         {"rename", "publish"},
	seedbed.JobFailover:       {"fence", "recover"},

	seedbed.JobSnapshotRestore: {"restore", "delete-snapshot"},
	seedbed.JobBackup:          {"snapshot", "back-up", "delete-snapshot"},
	seedbed.JobClone:           {"copy", "define", "publish", "start", "ready"},
	seedbed.JobBackupRestore:   {"restore", "define", "publish", "start", "ready"},
	seedbed.JobBackupVerify:    {"verify-backup"},
	seedbed.JobBackupRemove:    {"remove-backup", "sweep-backups"},
}

func (e engine) work(ctx context.Context, job *seedbed.Job) error {
	if job.State == seedbed.JobUndoing {
		return e.undo(ctx, job.Ref(), "", "cancelled")
	}
	todo, done := stages[job.Kind], ""
	for _, stage := range todo[job.Done:] {
		if err := e.db.Step(ctx, job.Ref(), seedbed.Step{Done: done, Next: stage, Total: len(todo)}); err != nil {
			return err
		}
		if err := e.db.LogEvent(ctx, job.Ref(), seedbed.Event{Level: "info", Stage: stage, Msg: "doing " + stage, Progress: 50}); err != nil {
			return err
		}
		if to := map[string]seedbed.VolumeState{"show-volume": seedbed.VolumeAttached, "hide-volume": seedbed.VolumeDetaching}[stage]; to != "" {
			if err := e.db.SetAttachment(ctx, job.Ref(), to); err != nil {
				return err
			}
		}
		if job.Kind == seedbed.JobVolumeResize {
			var spec seedbed.VolumeJob
			if err := errors.Join(json.Unmarshal(job.Spec, &spec), e.db.SetVolumeSize(ctx, job.Ref(), spec.Size)); err != nil {
				return err
			}
		}
		if job.Kind == seedbed.JobVolumeSet {
			var spec seedbed.VolumeJob
			if err := errors.Join(json.Unmarshal(job.Spec, &spec), e.db.SetVolumeLimits(ctx, job.Ref(), *spec.Limits)); err != nil {
				return err
			}
		}
		if job.Kind == seedbed.JobVolumeDownload {
			var spec seedbed.VolumeJob
			if err := json.Unmarshal(job.Spec, &spec); err != nil {
				return err
			}
			text := "what volume " + spec.Name + " has as " + spec.Download.Format
			if err := e.files.AddFile(seedbed.FileOf(job.Pool, spec.ID, job.ID), []byte(text)); err != nil {
				return err
			}
		}
		if job.Kind == seedbed.JobVolumeMove && stage == "move" {
			var spec seedbed.VolumeJob
			if err := errors.Join(json.Unmarshal(job.Spec, &spec), e.db.SetVolumePlace(ctx, job.Ref(), *spec.Place)); err != nil {
				return err
			}
		}
		if job.Kind == seedbed.JobMigrate && stage == "leave" {
			var spec seedbed.MigrateSpec
			if err := json.Unmarshal(job.Spec, &spec); err != nil {
				return err
			}
			if _, err := e.db.Move(ctx, job.Ref(), spec.To, spec.Home, job.Instance, record.Renderer{}.Of); err != nil {
				return err
			}
		}
		if err := errors.Join(e.set(ctx, job), e.nic(ctx, job, stage)); err != nil {
			return err
		}
		if job.Kind == seedbed.JobRebuild && stage == "redefine" {
			if err := e.db.Exchange(ctx, job.Ref(), seedbed.RebuildNext); err != nil {
				return err
			}
		}
		if err := e.db.LogOutput(ctx, job.Ref(), stage,
			[]seedbed.OutputLine{{Stream: "stdout", Text: "hello from " + stage}, {Stream: "stderr", Text: "\x1b[31mred"}}); err != nil {
			return err
		}
		if strings.HasPrefix(job.Subject, "bad") && job.OnFailure.Policy == seedbed.FailKeep {
			if job.Epoch == 1 {
				return e.db.Finish(ctx, job.Ref(),
					seedbed.JobResult{State: seedbed.JobFailed, Error: "no room", Keep: true, InstanceState: seedbed.InstanceFailed})
			}
		} else if strings.HasPrefix(job.Subject, "bad") {
			return e.undo(ctx, job.Ref(), stage, "the disk is \x1b[31mfull")
		}
		if strings.HasPrefix(job.Subject, "left") {
			return e.leave(ctx, job.Ref(), stage)
		}
		if strings.HasPrefix(job.Subject, "slow") && job.Kind == seedbed.JobCreate {
			if err := e.awaitCancel(ctx, job.Ref()); err != nil {
				return err
			}
			return e.undo(ctx, job.Ref(), stage, "cancelled")
		}
		if strings.HasPrefix(job.Subject, "deaf") && stage == "shutdown" && !strings.Contains(string(job.Spec), `"force":true`) {
			if err := e.awaitCancel(ctx, job.Ref()); err != nil {
				return err
			}
			return errors.Join(e.db.Undo(ctx, job.Ref(), "cancelled"), e.db.Undone(ctx, job.Ref(), stage, ""),
				e.db.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "cancelled"}))
		}
		done = stage
	}
	if err := e.pool.effect(ctx, job); err != nil {
		return err
	}
	last := seedbed.Step{Done: done, Total: len(todo), Flattened: job.Kind == seedbed.JobFlatten}
	outcome := seedbed.JobResult{State: seedbed.JobSucceeded, Drop: job.Kind == seedbed.JobRemove ||
		job.Kind == seedbed.JobImageRemove || job.Kind == seedbed.JobOVARemove || job.Kind == seedbed.JobForget ||
		job.Kind == seedbed.JobVolumeRemove}
	switch job.Kind {
	case seedbed.JobImport:
		last.Image = &seedbed.ImageInfo{Pool: "default", Name: job.Subject, Size: 2 * seedbed.GiB,
			Format: formatOf(job.Subject),
			SHA256: strings.Repeat("0", 64)}
	case seedbed.JobRename:
		var spec seedbed.RenameJob
		if err := json.Unmarshal(job.Spec, &spec); err != nil {
			return err
		}
		last.Renamed = spec.To
	case seedbed.JobResize:
		last.Resized = &seedbed.ResizeSpec{}
		if err := json.Unmarshal(job.Spec, last.Resized); err != nil {
			return err
		}
	case seedbed.JobOVA:
		for _, v := range e.pool.ova(job) {
			last.Images = append(last.Images, seedbed.ImageInfo{Pool: v.Pool, Name: v.Image, Size: 2 * seedbed.GiB, Format: v.Format})
		}
	case seedbed.JobStop, seedbed.JobAdopt:
		outcome.InstanceState = seedbed.InstanceStopped
	case seedbed.JobCreate, seedbed.JobStart, seedbed.JobReboot, seedbed.JobRebuild, seedbed.JobBackupRestore,
		seedbed.JobClone:
		outcome.InstanceState = seedbed.InstanceRunning
	}
	if err := e.db.Step(ctx, job.Ref(), last); err != nil {
		return err
	}
	return e.db.Finish(ctx, job.Ref(), outcome)
}

// nic makes the changes of a stage of a job on a NIC.
func (e engine) nic(ctx context.Context, job *seedbed.Job, stage string) error {
	switch stage {
	case "publish-nic":
		return e.db.SetNIC(ctx, job.Ref(), seedbed.NICAttaching)
	case "show-nic":
		return e.db.SetNIC(ctx, job.Ref(), seedbed.NICAttached)
	case "hide-nic":
		return e.db.SetNIC(ctx, job.Ref(), seedbed.NICDetaching)
	case "drop-nic":
		return e.db.DropNIC(ctx, job.Ref())
	case "switch-nic":
		var spec seedbed.NICJob
		if err := json.Unmarshal(job.Spec, &spec); err != nil {
			return err
		}
		return e.db.MoveNIC(ctx, job.Ref(), spec.Network)
	}
	return nil
}

func (e engine) awaitCancel(ctx context.Context, ref seedbed.JobRef) error {
	for {
		hint := e.db.Hint()
		if cancelled, err := e.db.RenewLease(ctx, ref, time.Minute); err != nil || cancelled {
			return err
		}
		select {
		case <-hint:
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (e engine) undo(ctx context.Context, ref seedbed.JobRef, stage, cause string) error {
	if err := e.db.Undo(ctx, ref, cause); err != nil && stage != "" {
		return err
	}
	if stage != "" {
		if err := e.db.LogEvent(ctx, ref, seedbed.Event{Level: "error", Stage: stage, Msg: cause}); err != nil {
			return err
		}
		if err := e.db.Undone(ctx, ref, stage, ""); err != nil {
			return err
		}
	}
	return e.db.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobRolledBack, Error: cause, Drop: true})
}

// leave undoes a job, except for one disk.
func (e engine) leave(ctx context.Context, ref seedbed.JobRef, stage string) error {
	disk := seedbed.Orphan{Kind: seedbed.OrphanVolume, Pool: "default", Name: "disk0", Why: "the pool \x1b[31mis away"}
	return errors.Join(
		e.db.Undo(ctx, ref, "no room"),
		e.db.Undone(ctx, ref, stage, disk.Why, disk),
		e.db.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobIncomplete, Error: "no room", InstanceState: seedbed.InstanceFailed}),
	)
}
