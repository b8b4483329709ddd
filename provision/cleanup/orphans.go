package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// Leftovers are what undone jobs have left behind.
type Leftovers interface {
	// Orphans returns all of them, oldest first. Those of one job may not be consecutive.
	Orphans(ctx context.Context) ([]seedbed.Orphan, error)
	// UndoAgain has a job that left something behind undone again. Errors: ErrConflict, ErrNotFound
	// or ErrInUse if that would touch what belongs to another owner.
	UndoAgain(ctx context.Context, id seedbed.JobID, checks ...func(seedbed.Job) error) (seedbed.Job, error)
	// NoteStrays records everything on the nodes that carries Seedbed's tag but belongs to nothing
	// in the database.
	NoteStrays(ctx context.Context, nodes []string, found []seedbed.Orphan) error
	Images(ctx context.Context) ([]seedbed.Image, error)
	// VolumeOwners returns the IDs in the tags of the volumes of projects.
	VolumeOwners(ctx context.Context) ([]seedbed.InstanceID, error)
}

const (
	// orphanTries is how often the cleanup has a job undone. What is then still left needs an
	// operator.
	orphanTries = 20
	// orphanWait is the longest wait before the next try.
	orphanWait = 24 * time.Hour
)

// orphans returns the chores for what jobs have left behind. The engine undoes each job again, like
// any other, so nothing that is not the job's is touched. The first wait is Grace; later waits
// double, up to orphanWait.
func (c *Cleaner) orphans(ctx context.Context, now time.Time, s inventory) (todo []chore, err error) {
	all, err := c.store.Orphans(ctx)
	if err != nil {
		return nil, fmt.Errorf("list what jobs have left behind: %w", err)
	}
	var jobs []seedbed.JobID // in order; the leftovers of one job may not be consecutive
	byJob := map[seedbed.JobID][]seedbed.Orphan{}
	for _, o := range all {
		if byJob[o.Job] == nil {
			jobs = append(jobs, o.Job)
		}
		byJob[o.Job] = append(byJob[o.Job], o)
	}
	for _, job := range jobs {
		of := byJob[job]
		first := of[0]
		tries, tried := 0, time.Time{}
		for _, o := range of {
			tries = max(tries, o.Tries)
			if o.Tried.After(tried) {
				tried = o.Tried
			}
		}
		wait := orphanWait
		if tries < 16 {
			wait = min(wait, c.cfg.Grace<<max(0, tries-1))
		}
		if tries >= orphanTries || now.Before(tried.Add(wait)) || !undoneAlone(of) || first.Node != "" && !slices.Contains(s.nodes, first.Node) {
			continue
		}
		todo = append(todo, chore{
			Item{Task: "orphans", Action: "undo", Subject: first.Subject,
				Detail: fmt.Sprintf("%s, left by %s job %s since %s", named(of), first.Of, first.Job.Short(), first.Since.UTC().Format(time.RFC3339))},
			func(ctx context.Context) (bool, error) {
				_, err := c.store.UndoAgain(ctx, first.Job)
				if errors.Is(err, seedbed.ErrConflict) || errors.Is(err, seedbed.ErrNotFound) || errors.Is(err, seedbed.ErrInUse) {
					c.cfg.Log.Info("what a job has left behind stays", "job", first.Job, "subject", first.Subject, "why", err)
					return false, nil
				}
				return err == nil, err
			},
		})
	}
	return todo, nil
}

// undoneAlone reports whether leftovers may be removed without an operator's request: the job made
// them and they never were in use. The undo of other jobs restores something, which may have
// changed since.
func undoneAlone(left []seedbed.Orphan) bool {
	return !slices.ContainsFunc(left, func(o seedbed.Orphan) bool {
		return !o.Of.Makes() && o.Of != seedbed.JobSnapshot && (o.Of != seedbed.JobRebuild || o.Kind != seedbed.OrphanVolume)
	})
}

// named lists leftovers for people to read.
func named(left []seedbed.Orphan) string {
	var all []string
	for _, o := range left {
		what := string(o.Kind) + " " + o.Name
		if o.Pool != "" {
			what += " of pool " + o.Pool
		}
		all = append(all, what)
	}
	if len(all) > 5 {
		all = append(all[:5], fmt.Sprintf("and %d more", len(left)-5))
	}
	return strings.Join(all, ", ")
}
