//go:build ceph && libvirt

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/internal/bench"
)

// cancel measures how long a create job takes from the request to cancel it, while it waits for its
// guest's report, until it is undone: its domain and its volume are removed.
func cancel(ctx context.Context, s setup, i *installation, _ *hand) ([]bench.Figure, error) {
	var took []float64
	for turn := range s.runs {
		receipt, err := i.intake.Submit(ctx,
			seedbed.Request{Action: seedbed.DoCreate, Name: fmt.Sprintf("gone%d", turn), Profile: reporting}, nil)
		if err != nil {
			return nil, err
		}
		if err := i.reached(ctx, receipt.Job, "ready"); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := i.db.CancelJob(ctx, receipt.Job); err != nil {
			return nil, err
		}
		if job, err := i.await(ctx, receipt.Job); err == nil || job.State != seedbed.JobRolledBack {
			return nil, errors.Join(fmt.Errorf("job %s ended %s after its cancel", job.ID.Short(), job.State), err)
		}
		took = append(took, time.Since(began).Seconds())
	}
	return []bench.Figure{{Name: "cancel_s", Unit: "s", Mark: bench.AtMost(2), Runs: took,
		How: "from the request to cancel a started instance's job until nothing of it is left"}}, nil
}

// reached waits until a job runs the stage.
func (i *installation) reached(ctx context.Context, id seedbed.JobID, stage string) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		job, err := i.db.Job(ctx, id)
		switch {
		case err != nil:
			return err
		case job.Stage == stage:
			return nil
		case job.State.Terminal():
			return fmt.Errorf("job %s ended %s before its stage %s: %s", id.Short(), job.State, stage, job.Error)
		}
		time.Sleep(glance)
	}
}
