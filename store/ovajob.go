package store

import (
	"context"
	"encoding/json"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// acceptOVARemove starts the removal of an OVA image. No volume may be a clone of its images.
func acceptOVARemove(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	var input seedbed.OVAJob
	j.Project = seedbed.ProjectOf(j.Subject)
	held, err := catalogue.HoldOVA(ctx, tx, j.Subject, catalogue.NoOVA(j.Subject))
	if err != nil {
		return err
	}
	input.Import, input.Was = held.Job, held.State
	if err := idleOVA(ctx, tx, j.Subject); err != nil {
		return err
	}
	if input.Volumes, err = catalogue.OVAVolumes(ctx, tx, j.Subject); err != nil {
		return err
	}
	for _, v := range input.Volumes {
		if err := unusedImage(ctx, tx, v.Image, false); err != nil {
			return err
		}
		j.Pool = v.Pool
	}
	if err := catalogue.UnusedSystem(ctx, tx, j.Subject); err != nil {
		return err
	}
	if j.Spec, err = json.Marshal(input); err != nil {
		return err
	}
	return catalogue.SetOVA(ctx, tx, j.Subject, seedbed.ImageRemoving)
}

// idleOVA returns ErrInUse if a job works on the OVA image.
func idleOVA(ctx context.Context, tx *sqldb.Tx, name string) error {
	return idleObject(ctx, tx, "OVA image", name, seedbed.JobOVA, seedbed.JobOVARemove)
}

// resumableOVA restores the state that the OVA image of a failed job has while that job runs.
func resumableOVA(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, missing error) error {
	held, err := catalogue.HoldOVA(ctx, tx, j.Subject, missing)
	if err != nil {
		return err
	}
	if err := idleOVA(ctx, tx, j.Subject); err != nil {
		return err
	}
	if j.Kind == seedbed.JobOVARemove {
		return catalogue.SetOVA(ctx, tx, j.Subject, seedbed.ImageRemoving)
	}
	if held.Job != j.ID {
		return missing // another import made an OVA image of that name
	}
	return catalogue.SetOVA(ctx, tx, j.Subject, seedbed.ImageImporting)
}

// acceptOVA writes an OVA image that is to be imported.
func acceptOVA(ctx context.Context, tx *sqldb.Tx, a *seedbed.Acceptance) error {
	a.Job.Project, a.Job.Subject, a.Job.Instance = seedbed.ProjectOf(a.OVA.OVA.Name), a.OVA.OVA.Name, ""
	return catalogue.InsertOVA(ctx, tx, a.Job.ID, a.Job.Node, a.OVA)
}

// endOVA deletes an OVA image with everything that came with it.
func endOVA(ctx context.Context, tx *sqldb.Tx, name string) error {
	images, err := catalogue.DropOVA(ctx, tx, name)
	for _, image := range images {
		if err == nil {
			err = endImage(ctx, tx, image)
		}
	}
	return err
}

// endImage deletes an image, and what its import had left behind.
func endImage(ctx context.Context, tx *sqldb.Tx, name string) error {
	if err := jobs.DropOrphansOfClaim(ctx, tx, catalogue.ImageClaim, name); err != nil {
		return err
	}
	return catalogue.DropImage(ctx, tx, name)
}
