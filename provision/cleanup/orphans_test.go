package cleanup

import (
	"context"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// leftBehind answers a cleaner's question for orphans.
type leftBehind struct {
	Store
	all []seedbed.Orphan
}

func (s leftBehind) Orphans(context.Context) ([]seedbed.Orphan, error) { return s.all, nil }

// TestOrphansOfTwoJobs checks that the leftovers of jobs that were undone at the same time, which
// are mixed, are judged job by job.
func TestOrphansOfTwoJobs(t *testing.T) {
	t.Parallel()
	volume := func(job seedbed.JobID, of seedbed.JobKind, name string) seedbed.Orphan {
		return seedbed.Orphan{Job: job, Of: of, Subject: string(job), Kind: seedbed.OrphanVolume, Name: name}
	}
	running := volume("rebuild", seedbed.JobRebuild, "")
	running.Kind = seedbed.OrphanDomain
	c := New(Config{}, leftBehind{all: []seedbed.Orphan{
		volume("rebuild", seedbed.JobRebuild, "a"), volume("create", seedbed.JobCreate, "b"), running, volume("create", seedbed.JobCreate, "c"),
	}}, nil)
	todo, err := c.orphans(t.Context(), time.Now(), inventory{})
	if err != nil {
		t.Fatal(err)
	}
	if len(todo) != 1 || todo[0].Subject != "create" || !strings.HasPrefix(todo[0].Detail, "volume b, volume c, left by") {
		t.Errorf("%+v", todo)
	}
}
