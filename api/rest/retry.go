package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// retryJob resumes a failed job that was not undone, at the stage that failed. For any other failed
// job it submits the same request again. It refuses if the request had parameters or documents that
// are not kept.
func (r *router) retryJob(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	j, err := r.asked(ctx, c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if j.Kind == seedbed.JobMigrate {
		if err := server.CallerOf(c).Need(seedbed.ActionInstanceMigrate); err != nil {
			return seedbed.Receipt{}, err
		}
	}
	// A job that has ended changes no more, unless it is resumed.
	if err := ifJob(c)(j); err != nil {
		return seedbed.Receipt{}, err
	}
	switch {
	case !j.State.Terminal():
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict, "job %s is %s: it has not ended, so it cannot be retried",
			j.ID.Short(), j.State)
	case j.State == seedbed.JobFailed:
		if j, err = r.Store.ResumeJob(ctx, j.ID, ifJob(c)); err != nil {
			return seedbed.Receipt{}, err
		}
		return seedbed.Receipt{Job: j.ID, State: j.State}, nil
	case j.State == seedbed.JobSucceeded:
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict, "job %s has succeeded: there is nothing to retry", j.ID.Short())
	case j.Kind == seedbed.JobCreate || j.Kind == seedbed.JobRebuild || j.Kind == seedbed.JobImport || j.Kind == seedbed.JobVolumeAdd ||
		j.Kind == seedbed.JobNICAdd || j.Kind == seedbed.JobBackupRestore || j.Kind == seedbed.JobClone:
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict,
			"job %s is of kind %s, and its request is not kept: send the request again", j.ID.Short(), j.Kind)
	}
	if j.Instance != "" {
		// Another instance may have the name by now.
		i, err := r.Store.InstanceByName(ctx, j.FullSubject())
		if err != nil {
			return seedbed.Receipt{}, err
		}
		if i.ID != j.Instance {
			return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict,
				"job %s was for an instance %s that no longer exists: another instance has its name now", j.ID.Short(), j.Subject)
		}
	}
	return r.again(ctx, j, o)
}

// again submits the request of a job again, with other options.
func (r *router) again(ctx context.Context, j seedbed.Job, o seedbed.JobOptions) (seedbed.Receipt, error) {
	subject := j.FullSubject()
	switch j.Kind {
	case seedbed.JobRemove, seedbed.JobStart:
		var s seedbed.Removal
		if err := specOf(j, &s); err != nil {
			return seedbed.Receipt{}, err
		}
		req := seedbed.Request{Action: string(j.Kind), Project: j.Project, Name: j.Subject, KeepDisks: s.KeepDisks, JobOptions: o}
		return r.Intake.Submit(ctx, req, nil)
	case seedbed.JobStop, seedbed.JobReboot:
		var p seedbed.PowerSpec
		if err := specOf(j, &p); err != nil {
			return seedbed.Receipt{}, err
		}
		req := seedbed.Request{Action: string(j.Kind), Project: j.Project, Name: j.Subject, Params: powerParams(powerOf(p), nil), JobOptions: o}
		return r.Intake.Submit(ctx, req, nil)
	case seedbed.JobSnapshotRestore:
		var s seedbed.SnapshotRestore
		if err := specOf(j, &s); err != nil {
			return seedbed.Receipt{}, err
		}
		req := seedbed.Request{Action: seedbed.DoSnapshotRestore, Project: j.Project, Name: j.Subject, JobOptions: o,
			Params: powerParams(powerOf(s.PowerSpec), map[string]any{"snapshot": s.Name})}
		return r.Intake.Submit(ctx, req, nil)
	case seedbed.JobMigrate:
		return r.migrateAgain(ctx, j, o)
	case seedbed.JobResize:
		var s seedbed.ResizeSpec
		if err := specOf(j, &s); err != nil {
			return seedbed.Receipt{}, err
		}
		return r.VolumeJobs.Resize(ctx, subject, seedbed.ResizeRequest{Disk: s.Volume, Size: s.Size, VCPUs: s.VCPUs, Memory: s.Memory}, o)
	case seedbed.JobSet:
		var s seedbed.HardwareJob
		if err := specOf(j, &s); err != nil {
			return seedbed.Receipt{}, err
		}
		if iso := s.Set.CDROM; iso != nil && *iso != "" {
			*iso = seedbed.Explicit(*iso)
		}
		return r.VolumeJobs.Set(ctx, subject, s.Set, o)
	case seedbed.JobRename:
		var s seedbed.RenameJob
		if err := specOf(j, &s); err != nil {
			return seedbed.Receipt{}, err
		}
		return r.VolumeJobs.Rename(ctx, subject, s.To, o)
	case seedbed.JobFlatten:
		return r.VolumeJobs.Flatten(ctx, subject, o)
	case seedbed.JobForget:
		return r.Adoptions.Forget(ctx, subject, o)
	case seedbed.JobSnapshot, seedbed.JobSnapshotRemove:
		var s seedbed.SnapshotJob
		if err := specOf(j, &s); err != nil {
			return seedbed.Receipt{}, err
		}
		if j.Kind == seedbed.JobSnapshot {
			return r.Intake.Submit(ctx, seedbed.Request{Action: seedbed.DoSnapshot, Project: j.Project, Name: j.Subject, JobOptions: o,
				Params: map[string]any{"snapshot": s.Name, "freeze": string(s.Freeze)}, Schedule: s.Schedule}, nil)
		}
		return r.VolumeJobs.RemoveSnapshot(ctx, subject, s.Name, o)
	case seedbed.JobAttach, seedbed.JobDetach, seedbed.JobVolumeResize, seedbed.JobVolumeSet, seedbed.JobVolumeMove,
		seedbed.JobVolumeDownload:
		return r.volumeAgain(ctx, j, o)
	case seedbed.JobNICRemove, seedbed.JobNICSet:
		return r.nicAgain(ctx, j, o)
	case seedbed.JobBackup, seedbed.JobBackupVerify, seedbed.JobBackupRemove:
		return r.backupAgain(ctx, j, o)
	case seedbed.JobImageRemove:
		return r.VolumeJobs.RemoveImage(ctx, j.Subject, o)
	}
	return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict, "job %s is of kind %s, which cannot be retried",
		j.ID.Short(), j.Kind)
}

// migrateAgain submits the request of a job that was to take its instance to another node again, to the same one.
func (r *router) migrateAgain(ctx context.Context, j seedbed.Job, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var s seedbed.MigrateSpec
	if err := specOf(j, &s); err != nil {
		return seedbed.Receipt{}, err
	}
	m := wire.MigrateRequest{PowerRequest: powerOf(s.PowerSpec), Stay: s.Home == ""}
	switch {
	case s.Live:
		m.Method = "live"
	case s.Was != seedbed.InstanceStopped:
		m.Method = "cold"
	}
	req := seedbed.Request{Action: seedbed.DoMigrate, Project: j.Project, Name: j.Subject, Node: s.To, Params: migrateParams(m), JobOptions: o}
	return r.Intake.Submit(ctx, req, nil)
}

// powerOf returns how a job was asked to switch its instance off.
func powerOf(p seedbed.PowerSpec) wire.PowerRequest {
	how := wire.PowerRequest{Force: p.Force, Soft: p.Soft}
	if p.Grace > 0 {
		how.Grace = p.Grace.String()
	}
	return how
}

// volumeAgain submits the request of a job on a volume again. Another volume may have the name by now.
func (r *router) volumeAgain(ctx context.Context, j seedbed.Job, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var s seedbed.VolumeJob
	if err := specOf(j, &s); err != nil {
		return seedbed.Receipt{}, err
	}
	v, err := r.Store.ProjectVolume(ctx, j.Project, s.Name)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if v.ID != s.ID {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict,
			"job %s was for a volume %s that no longer has that name: another one has it now", j.ID.Short(), s.Name)
	}
	req := seedbed.Request{Project: j.Project, Name: s.Name, JobOptions: o}
	switch {
	case j.Kind == seedbed.JobVolumeResize:
		req.Action, req.Volume.Resize.Size = seedbed.DoVolumeResize, s.Size
	case j.Kind == seedbed.JobVolumeSet && s.Limits != nil:
		req.Action, req.Volume.Set = seedbed.DoVolumeSet, s.Limits.Whole()
	case j.Kind == seedbed.JobVolumeMove && s.Place != nil:
		req.Action, req.Volume.Move.Pool = seedbed.DoVolumeMove, s.Place.Pool
		if v.Node == "" && v.Holder == "" && !seedbed.IsTenant(ctx) { // otherwise there is nothing to choose
			req.Volume.Move.Node = s.Place.Node
		}
	case j.Kind == seedbed.JobVolumeDownload && s.Download != nil:
		req.Action, req.Volume.Download = seedbed.DoVolumeDownload, *s.Download
	case j.Kind == seedbed.JobDetach:
		req.Action, req.Volume.Attach.Instance = seedbed.DoVolumeDetach, j.Subject
	default:
		req.Action, req.Volume.Attach = seedbed.DoVolumeAttach, seedbed.Attachment{Instance: j.Subject, Bus: s.Bus, Keep: &s.Keep}
	}
	return r.Intake.Submit(ctx, req, nil)
}

// nicAgain submits the request of a job that removes a NIC or takes it to another network again, if the NIC is still there. What a new NIC
// was asked to have is not kept.
func (r *router) nicAgain(ctx context.Context, j seedbed.Job, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var s seedbed.NICJob
	if err := specOf(j, &s); err != nil {
		return seedbed.Receipt{}, err
	}
	i, err := r.Store.InstanceByName(ctx, j.FullSubject())
	if err != nil {
		return seedbed.Receipt{}, err
	}
	n, ok := s.NICOf(i)
	if !ok {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrNotFound,
			"job %s was for a NIC %d with the MAC address %s that instance %s no longer has",
			j.ID.Short(), s.Index, s.MAC, i.Name)
	}
	req := seedbed.Request{Action: seedbed.DoNICRemove, Project: j.Project, Name: j.Subject, NIC: &n.Index, JobOptions: o}
	if j.Kind == seedbed.JobNICSet {
		req.Action, req.NICs = seedbed.DoNICSet, []seedbed.NICRequest{{Network: seedbed.Explicit(s.Network), Addr: s.Addr}}
	}
	return r.Intake.Submit(ctx, req, nil)
}

// specOf decodes the input of a job, if it has one.
func specOf(j seedbed.Job, to any) error {
	if len(j.Spec) == 0 {
		return nil
	}
	if err := json.Unmarshal(j.Spec, to); err != nil {
		return fmt.Errorf("read the input of job %s: %w", j.ID, err)
	}
	return nil
}
