package provision

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/cleanup"
)

// unlisted is a trash that does not answer.
type unlisted struct{ cleanup.TrashBin }

func (unlisted) Trash(context.Context, string) ([]seedbed.TrashItem, error) {
	return nil, seedbed.Errorf(seedbed.ErrUnavailable, "Ceph does not answer")
}

// slow is a trash that reports how long each purge may take.
type slow struct {
	cleanup.TrashBin
	limits []time.Duration
}

func (s *slow) PurgeVolume(ctx context.Context, _ seedbed.TrashItem, _ bool) error {
	end, _ := ctx.Deadline()
	s.limits = append(s.limits, time.Until(end))
	return nil
}

// TestPurgeHasTime checks that the purge of a large volume has enough time: an abandoned purge
// would continue inside the pool's library, and a few of those would block the pool for everyone.
func TestPurgeHasTime(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.pool.SetTrash(time.Nanosecond)
	l.runUntil(l.create("a"), seedbed.JobSucceeded)
	l.runUntil(l.remove("a"), seedbed.JobSucceeded)
	bin := &slow{TrashBin: alone{l.host}}
	r, err := cleanup.New(cleanup.Config{Trash: bin}, l.db, alone{l.host}).Run(t.Context(), cleanup.Options{})
	if err != nil || len(r.Items) != 1 || len(bin.limits) != 1 || bin.limits[0] < 5*time.Minute {
		t.Errorf("report %+v, %v; purges may take %v", r, err, bin.limits)
	}
}

func TestTrashCleanup(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	l.pool.SetTrash(time.Hour)
	for _, name := range []string{"a", "b"} {
		l.runUntil(l.create(name), seedbed.JobSucceeded)
		id := l.remove(name)
		l.runUntil(id, seedbed.JobSucceeded)
		if h := l.history(id); !strings.Contains(h, "seedbed trash restore t") {
			t.Errorf("history:\n%s", h)
		}
	}
	items, err := l.pool.Trash(ctx)
	l.ok(err)
	back, err := l.pool.RestoreVolume(ctx, items[0].ID)
	l.ok(err)
	run := func(at time.Duration, bin cleanup.TrashBin, opt cleanup.Options) cleanup.Report {
		t.Helper()
		r, err := cleanup.New(cleanup.Config{Trash: bin, Now: func() time.Time { return time.Now().Add(at) }}, l.db, alone{l.host}).Run(ctx, opt)
		l.ok(err)
		return r
	}
	if r := run(0, alone{l.host}, cleanup.Options{}); len(r.Items) != 0 {
		t.Errorf("before its time: %v", r.Items)
	}
	if r := run(2*time.Hour, unlisted{}, cleanup.Options{}); !strings.Contains(r.Refused, "Ceph does not answer") || len(r.Items) != 0 {
		t.Errorf("without a list: %+v", r)
	}
	dry := run(2*time.Hour, alone{l.host}, cleanup.Options{DryRun: true})
	if len(dry.Items) != 1 || dry.Items[0].Task != "trash" || dry.Items[0].Action != "purge" || dry.Items[0].Subject != items[1].Name {
		t.Errorf("dry run: %+v", dry)
	}
	// The pool's own clock decides.
	if r := run(2*time.Hour, alone{l.host}, cleanup.Options{}); len(r.Items) != 0 {
		t.Errorf("purged before its time: %v", r.Items)
	}
	l.pool.SetTrash(time.Nanosecond)
	again, err := l.pool.RestoreVolume(ctx, items[1].ID)
	l.ok(err)
	_, err = l.pool.TrashVolume(ctx, again.Name, again.Instance)
	l.ok(err)
	if r := run(0, alone{l.host}, cleanup.Options{}); len(r.Items) != 1 || r.Items[0].Subject != again.Name {
		t.Errorf("items %v", r.Items)
	}
	left, err := l.pool.Trash(ctx)
	l.ok(err)
	volumes, err := l.pool.Volumes(ctx)
	l.ok(err)
	if d := cmp.Diff([]seedbed.VolumeInfo{back}, volumes); d != "" || len(left) != 0 {
		t.Errorf("trash %v, volumes (-want +got):\n%s", left, d)
	}
}
