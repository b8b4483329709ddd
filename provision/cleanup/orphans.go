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

// Leftovers are what jobs that were undone have left behind.
type Leftovers interface {
	// Orphans are all of it, that of one job in a row.
	Orphans(ctx context.Context) ([]seedbed.Orphan, error)
	// UndoAgain has a job undone once more, of which something is left. Errors:
	// ErrConflict, ErrNotFound or ErrInUse when that would touch what is another's.
	UndoAgain(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
	// NoteStrays records all that nodes have that carries our tag and is of nothing that is known.
	NoteStrays(ctx context.Context, nodes []string, found []seedbed.Orphan) error
	Images(ctx context.Context) ([]seedbed.Image, error)
}

const (
	// orphanTries is how often the cleanup has a job undone; what is left then is for people.
	orphanTries = 20
	// orphanWait is the longest that it waits for the next time.
	orphanWait = 24 * time.Hour
)

// orphans are the chores of what jobs have left behind. Each is undone by its own
// job, as the engine undoes any: what is not the job's is not touched. The wait
// for that is Grace, and twice as long each time.
func (c *Cleaner) orphans(ctx context.Context, now time.Time, s inventory) (todo []chore, err error) {
	all, err := c.store.Orphans(ctx)
	if err != nil {
		return nil, fmt.Errorf("list what jobs have left behind: %w", err)
	}
	var jobs []seedbed.JobID // in their order; what one has left need not be in a row
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

// undoneAlone tells whether what is left may be taken away without anybody
// asking: it was made by its job and never was in use. The undo of other
// jobs brings something back, which may have changed since.
func undoneAlone(left []seedbed.Orphan) bool {
	return !slices.ContainsFunc(left, func(o seedbed.Orphan) bool {
		return !o.Of.Makes() && o.Of != seedbed.JobSnapshot && (o.Of != seedbed.JobRebuild || o.Kind != seedbed.OrphanVolume)
	})
}

// named lists what is left, as people read it.
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
